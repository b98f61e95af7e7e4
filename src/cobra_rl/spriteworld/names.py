"""What the suite is called, without JAX, so that a command line can offer these names in no time."""

from typing import NamedTuple


class Entry(NamedTuple):
    """One task of the suite, as people and training see it."""

    title: str  # for tables and figures
    steps: int  # default budget of rewarded environment steps; 0 where there is no reward


SUITE: dict[str, Entry] = {
    "exploration": Entry("exploration", 0),
    "goal_finding_new_shape": Entry("goal finding, new shape", 600),
    "goal_finding_new_position": Entry("goal finding, new position", 600),
    "goal_finding_more_targets": Entry("goal finding, more targets", 1000),
    "goal_finding_more_distractors": Entry("goal finding, more distractors", 1000),
    "sorting": Entry("sorting", 2000),
    "clustering": Entry("clustering", 1200),
}
TASKS = tuple(SUITE)
REWARDED = TASKS[1:]
MODES = ("train", "test")
VARIANTS = ("paper", "released")
