"""Dataclasses for result.json, for COBRA and the baselines."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from cobra_rl.bounds import Bounds, Checked, NonNegative, Seed, Share, conform
from cobra_rl.evaluation.statistics import Summary, or_never, summary
from cobra_rl.evaluation.task import REFERENCES, recent_success
from cobra_rl.parts import short_name
from cobra_rl.spriteworld.names import MODES, SUITE

LABELS = {  # what agents are called in figures and tables
    "cobra": "COBRA",
    "mpo_handheld": "MPO handheld",
    "mpo_policy": "MPO, deformed actions",
    "mpo_features": "MPO, slots",
    "mpo_raw": "MPO raw",
}
BASELINES = {name: f"baseline-{name}" for name in LABELS if name != "cobra"}  # as `read_suite` calls them

Record = Mapping[str, Any]  # a file as JSON has it
Number = Annotated[int, Bounds(0, 10**9)]
Curve = dict[str, tuple[float, ...]]  # "steps" and "success"
ByMode = dict[str, Share]  # train, test


@dataclass(frozen=True)
class SeedResult(Checked):
    """The result of one seed. The last six fields exist only for training runs, not for `cobra evaluate`."""

    seed: Seed
    success: ByMode  # share of greedy episodes
    normalised_reward: dict[str, float]  # by mode: 0 for a random policy, 1 for the bound; empty: not measured
    steps_to_90: Number | None = None  # None: never
    episodes_to_90: Number | None = None
    ends: tuple[Number, ...] = ()  # the step at which each training episode ended
    solved: tuple[bool, ...] = ()  # whether it succeeded
    steps_to_90_kept: Number | None = None  # from here on the greedy agent solved 90 % at every check
    thinned: Curve | None = None  # instead of ends and solved: "steps", "success" of `curve`

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.ends) != len(self.solved):
            raise ValueError(f"seed {self.seed} has {len(self.ends)} ends of episodes and {len(self.solved)} successes")
        if self.thinned is not None:
            steps, success = (self.thinned.get(name, (math.nan,)) for name in ("steps", "success"))
            if len(steps) != len(success) or any(map(math.isnan, (*steps, *success))) or list(steps) != sorted(steps):
                raise ValueError(f"the curve of seed {self.seed} must be steps that rise and a success for each")

    @property
    def curve(self) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """The learning curve: environment steps from 0 on, and the success of the last 30 training episodes."""
        if self.thinned is not None:
            return np.array([0.0, *self.thinned["steps"]]), np.array([0.0, *self.thinned["success"]])
        return np.array([0.0, *self.ends]), recent_success(self.solved)


@dataclass(frozen=True)
class TaskResult(Checked):
    """The result.json of `cobra solve` or `cobra baseline`, or what `cobra evaluate RUN` measured of a run."""

    source: str
    command: str
    task: str
    variant: str
    is_sparse: bool
    steps: Number  # rewarded steps that each seed had
    episodes: Number  # greedy episodes in each mode
    learnt: bool  # whether it says how soon the seeds got to 90 %
    checked: bool  # whether it says from when on the greedy agent kept to 90 %
    context: dict[str, ByMode]  # "random" and "bound": their success
    seeds: tuple[SeedResult, ...]
    agent: str = "cobra"  # COBRA, one of `BASELINES`, or an agent of the user's own
    replay_ratio: NonNegative = 0.0  # of a baseline: transitions drawn for learning per environment step

    @property
    def title(self) -> str:
        """The readable name of the task."""
        return SUITE[self.task].title if self.task in SUITE else self.task.replace("_", " ")

    def success(self, mode: str) -> Summary:
        """Summarise the success of greedy episodes over seeds, in mode "train" or "test"."""
        return summary([seed.success[mode] for seed in self.seeds])

    def normalised_reward(self, mode: str) -> Summary | None:
        """Summarise the normalised reward over seeds, in mode "train" or "test"; None if it was not measured."""
        values = [seed.normalised_reward[mode] for seed in self.seeds if mode in seed.normalised_reward]
        return summary(values) if values else None

    def counts(self, name: str) -> list[int | None]:
        """Return `steps_to_90`, `episodes_to_90` or `steps_to_90_kept` of each seed; None if it never got there."""
        return [getattr(seed, name) for seed in self.seeds]

    def time_to_90(self, name: str) -> Summary:
        """Summarise `steps_to_90` or `episodes_to_90` over seeds; a seed that never got there counts as infinite."""
        return summary(or_never(self.counts(name)))


def task_result(record: Record | TaskResult, source: str = "") -> TaskResult:
    """Convert the record of result.json to a `TaskResult`.

    Args:
        record: What result.json holds; a `TaskResult` is returned as it is.
        source: The file, as a reader of the folder finds it.

    Returns:
        The result.

    Raises:
        ValueError: If the record has no seeds, or an entry has another type.
        KeyError: If an entry is missing.
    """
    if isinstance(record, TaskResult):
        return record
    if not record.get("seeds"):
        raise ValueError("it holds no seeds")
    problem = record["problem"]
    config = record.get("config", {})
    compared = conform(dict[str, dict[str, float]], record.get("context", {}), "its context")
    context = {name: {mode: compared[name][mode] for mode in MODES} for name in REFERENCES if name in compared}
    return TaskResult(
        source=source,
        command=record.get("command", ""),
        task=problem["task"],
        variant=problem.get("variant", "paper"),
        is_sparse=bool(problem.get("sparse")),
        steps=record["steps"] or 0,  # none: a saved agent
        episodes=record["episodes"] if "episodes" in record else record["final"],
        learnt="steps_to_90" in record["seeds"][0],
        checked="steps_to_90_kept" in record["seeds"][0],
        context=context,
        seeds=tuple(_seed_result(seed) for seed in record["seeds"]),
        agent=short_name(record.get("agent") or config.get("agent", "cobra")),  # version 0.2: in the configuration
        replay_ratio=config.get("replay_ratio", 0.0),
    )


def _seed_result(seed: Record) -> SeedResult:
    return SeedResult(
        seed=seed["seed"],
        success={mode: seed[f"success_{mode}"] for mode in MODES},
        normalised_reward={mode: seed[name] for mode in MODES if (name := f"normalised_reward_{mode}") in seed},
        steps_to_90=seed.get("steps_to_90"),
        episodes_to_90=seed.get("episodes_to_90"),
        ends=tuple(seed.get("ends", ())),
        solved=tuple(seed.get("success", ())),
        steps_to_90_kept=seed.get("steps_to_90_kept"),
        thinned=conform(Curve | None, seed.get("curve"), "its curve"),
    )
