"""What the suite is called, without JAX, so that a command line can offer these names in no time."""

from typing import NamedTuple


class TaskInfo(NamedTuple):
    """The title of a task of the suite, and how long it is trained."""

    title: str  # for tables and figures
    steps: int  # default budget of rewarded environment steps; 0 where there is no reward


SUITE: dict[str, TaskInfo] = {
    "exploration": TaskInfo("exploration", 0),
    "goal_finding_new_shape": TaskInfo("goal finding, new shape", 600),
    "goal_finding_new_position": TaskInfo("goal finding, new position", 600),
    "goal_finding_more_targets": TaskInfo("goal finding, more targets", 1000),
    "goal_finding_more_distractors": TaskInfo("goal finding, more distractors", 1000),
    "sorting": TaskInfo("sorting", 2000),
    "clustering": TaskInfo("clustering", 1200),
}
TASKS = tuple(SUITE)
REWARDED = TASKS[1:]
MODES = ("train", "test")
VARIANTS = ("paper", "released")
