"""The schema of a folder of results, and its one reader.

    vision.json           `cobra evaluate vision --suite --out ...`
    explore.json          `cobra evaluate explore --out ...`
    explore_random.json   the same for a world whose actors clicked at random
    explore_log.jsonl     the log of `cobra train explore`; likewise explore_random_log.jsonl, explore_whole_log.jsonl
    demo.json             the result of `make demo`
    solve/TASK.json       the result of `cobra solve TASK`, or a run of it, solve/TASK/; with options solve/TASK-OPTIONS
    mpo_raw/, mpo_features/, mpo_policy/, mpo_handheld/   the same for `cobra baseline`, by `BASELINES` in config.py

All files are optional. The published results lie in `RESULTS`; a researcher's own folder has the same layout.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cobra_rl.evaluation.statistics import Exact, Summary, or_never, summary
from cobra_rl.runtime.storage import write_json
from cobra_rl.spriteworld.names import MODES, SUITE, TASKS

RESULTS = Path(__file__).parents[1] / "results"  # published, and shipped with the package
# Folders of results: one per agent, a file per task
AGENTS = ("solve", "mpo_handheld", "mpo_policy", "mpo_features", "mpo_raw")
MAIN_PLACE = "paper/exploration/train"  # the scenes of vision.json that its targets are about

Record = Mapping[str, Any]  # a file as JSON has it
Metrics = Mapping[str, float | list[float] | None]  # None: does not exist there, such as FG-ARI of single sprites


class Metric(NamedTuple):
    """How a metric is shown, and what it was to reach, if anything."""

    heading: str
    at_least: float | None = None
    at_most: float | None = None
    is_share: bool = False  # shown in percent

    def met_by(self, value: Exact | float) -> bool:
        """Returns whether a value reaches the target: 9/10 reaches 0.9, which is a little more in binary."""
        enough = self.at_least is None or float(value) >= self.at_least
        return enough and (self.at_most is None or float(value) <= self.at_most)


VISION: dict[str, Metric] = {
    "fg_ari_attention": Metric("FG-ARI, attention", at_least=0.95),
    "fg_ari_decoder": Metric("FG-ARI, decoder", at_least=0.93),
    "alone": Metric("sprites alone in a slot", at_least=0.97, is_share=True),
    "split": Metric("sprites split over slots", is_share=True),
    "shared": Metric("sprites sharing a slot", is_share=True),
    "mse": Metric("MSE of V_dec(V_enc(x))", at_most=0.002),
    "position_error": Metric("position error", at_most=0.01),
    "hue_error": Metric("hue error", at_most=0.03),
    "saturation_error": Metric("saturation error"),
    "shape_accuracy": Metric("shape accuracy", at_least=0.9, is_share=True),
    "angle_error": Metric("angle error, degrees"),
}
EXPLORE: dict[str, Metric] = {
    "hit_rate": Metric("clicks on a sprite", at_least=0.7, is_share=True),
    "hit_rate_uniform": Metric("clicks on a sprite, uniform policy", is_share=True),
    "sprites_struck": Metric("sprites struck by 128 proposals", at_least=0.95, is_share=True),
    "motion_deformation": Metric("motion deformation", at_most=0.05),
    "octant_least": Metric("rarest octant of motions, of its share", at_least=0.5),
    "octant_most": Metric("most frequent octant, of its share", at_most=2.0),
    "position_error": Metric("position error of a pushed sprite", at_most=0.02),
    "others_drift": Metric("drift of the others", at_most=0.005),
    "empty_drift": Metric("drift after a click on nothing", at_most=0.005),
    "ratio_to_encoded": Metric("pixel error / encoding the truth", at_most=1.5),
    "ratio_to_unchanged": Metric("pixel error / predicting no change", at_most=1 / 3),
    "error_correlation": Metric("correlation of e_pred and L_T", at_least=0.8),
    "error_correlation_ceiling": Metric("... at best, in view of the noise"),
    "error_correlation_uniform": Metric("... for uniform actions", at_least=0.8),
    "error_correlation_ceiling_uniform": Metric("... at best"),
    "rollout_position_error": Metric("position error after 1-5 steps"),
}
TASK: dict[str, Metric] = {
    "success_train": Metric("success, train", at_least=0.95, is_share=True),
    "success_test": Metric("success, test", at_least=0.9, is_share=True),
    "steps_to_90": Metric("steps to 90 %"),
    "episodes_to_90": Metric("episodes to 90 %"),
}
SOLVED = 0.9  # success from which on a task counts as solved


class Evaluation(NamedTuple):
    """What `cobra evaluate vision` or `cobra evaluate explore` measured."""

    source: str  # the file, as a reader of the folder finds it
    command: str
    metrics: Mapping[str, Any]  # `Metrics`; of vision, those of each place "variant/task/mode"

    @property
    def main(self) -> Metrics:
        """Of vision: the metrics of the held-out exploration scenes; of the first place if those were not measured."""
        return self.metrics.get(MAIN_PLACE) or next(iter(self.metrics.values()))


class SeedResult(NamedTuple):
    """What one seed of a task came to. Only a run that learnt has the last four."""

    seed: int
    success: Mapping[str, float]  # share of greedy episodes, by mode
    normalised_reward: Mapping[str, float]  # by mode: 0 for a random policy, 1 for the bound; empty: not measured
    steps_to_90: int | None = None  # None: never
    episodes_to_90: int | None = None
    ends: tuple[int, ...] = ()  # the step at which each training episode ended
    solved: tuple[bool, ...] = ()  # whether it succeeded


class TaskResult(NamedTuple):
    """The result.json of `cobra solve` or `cobra baseline`, or what `cobra evaluate RUN` measured of a run."""

    source: str
    command: str
    task: str
    variant: str
    is_sparse: bool
    steps: int  # rewarded steps that each seed had
    episodes: int  # greedy episodes in each mode
    learnt: bool  # whether it says how soon the seeds got to 90 %
    context: Mapping[str, Mapping[str, float]]  # "random" and "bound": their success by mode
    seeds: tuple[SeedResult, ...]
    agent: str = "solve"  # one of `AGENTS`

    @property
    def title(self) -> str:
        """The task's name for people."""
        return SUITE[self.task].title if self.task in SUITE else self.task.replace("_", " ")

    def success(self, mode: str) -> Summary:
        """Summarises the success of greedy episodes over seeds."""
        return summary([seed.success[mode] for seed in self.seeds])

    def normalised_reward(self, mode: str) -> Summary | None:
        """Summarises the normalised reward over seeds; None if it was not measured."""
        values = [seed.normalised_reward[mode] for seed in self.seeds if mode in seed.normalised_reward]
        return summary(values) if values else None

    def counts(self, name: str) -> list[int | None]:
        """Returns `steps_to_90` or `episodes_to_90` of each seed; None for a seed that never got there."""
        return [getattr(seed, name) for seed in self.seeds]

    def soon(self, name: str) -> Summary:
        """Summarises `steps_to_90` or `episodes_to_90` over seeds; a seed that never got there counts as infinite."""
        return summary(or_never(self.counts(name)))


Suite = dict[str, dict[str, TaskResult]]  # what was run, such as "solve" or "solve-uniform" -> task -> its result


def read_vision(results: Path) -> Evaluation | None:
    """Reads the evaluation of vision; None if the folder has none."""

    def build(source: str, record: Record) -> Evaluation:
        places = record["figures"]
        if not places or not all(isinstance(metrics, dict) for metrics in places.values()):
            raise ValueError("its figures are to be metrics by place")
        return Evaluation(source, record["command"], places)

    return _read(results, "vision.json", "an evaluation of vision", build)


def read_explore(results: Path, name: str = "explore") -> Evaluation | None:
    """Reads an evaluation of imagination and curiosity; None if the folder has none."""

    def build(source: str, record: Record) -> Evaluation:
        return Evaluation(source, record["command"], dict(record["figures"]))

    return _read(results, f"{name}.json", "an evaluation of the exploration phase", build)


def read_task(results: Path, name: str) -> TaskResult | None:
    """Reads the result of a task, such as "demo" or "solve/sorting", a file or a run; None if the folder has none."""
    file = f"{name}/result.json" if (results / name).is_dir() else f"{name}.json"
    return _read(results, file, "the result of a task", lambda source, record: task_result(record, source))


def read_suite(results: Path) -> Suite:
    """Reads the results of all tasks and agents, tasks in the suite's order."""
    suite: Suite = {}
    for agent in AGENTS:
        files = {path.stem for path in (results / agent).glob("*.json")}
        runs = {path.parent.name for path in (results / agent).glob("*/result.json")}
        for name in sorted(files | runs):
            task, dash, options = name.partition("-") if name.partition("-")[0] in TASKS else (name, "", "")
            if result := read_task(results, f"{agent}/{name}"):
                suite.setdefault(agent + dash + options, {})[task] = result
    return {kind: {task: of[task] for task in sorted(of, key=suite_order)} for kind, of in suite.items()}


def suite_order(task: str) -> int:
    """Returns the place of a task in the suite; tasks of one's own come last."""
    return TASKS.index(task) if task in TASKS else len(TASKS)


def read_log(results: Path, file: str) -> list[Record] | None:
    """Reads a log of training, a mapping per line; None if the folder has none."""
    path = results / file
    if not path.exists():
        return None
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except ValueError as error:
        raise ValueError(f"{path} is not a log of JSON lines: {error}.") from error


def task_result(record: Record | TaskResult, source: str = "") -> TaskResult:
    """Converts the record of result.json to a `TaskResult`; one that is converted already is returned as it is."""
    if isinstance(record, TaskResult):
        return record
    if not record.get("seeds"):
        raise ValueError("it holds no seeds")
    problem = record["problem"]
    return TaskResult(
        source,
        record.get("command", ""),
        problem["task"],
        problem.get("variant", "paper"),
        bool(problem.get("sparse")),
        record["steps"],
        record.get("episodes", record["final"]),
        "steps_to_90" in record["seeds"][0],
        record.get("context", {}),
        tuple(_seed_result(seed) for seed in record["seeds"]),
        record.get("agent", "solve"),
    )


def write_evaluation(path: Path, command: str, metrics: Mapping[str, Any]) -> None:
    """Writes metrics as `read_vision` and `read_explore` expect them; JSON has no NaN, so that NaN becomes null."""
    write_json(path, {"command": command, "figures": _without_nan(metrics)})


def _seed_result(seed: Record) -> SeedResult:
    return SeedResult(
        seed["seed"],
        {mode: seed[f"success_{mode}"] for mode in MODES},
        {mode: seed[name] for mode in MODES if (name := f"normalised_reward_{mode}") in seed},
        seed.get("steps_to_90"),
        seed.get("episodes_to_90"),
        tuple(seed.get("ends", ())),
        tuple(seed.get("success", ())),
    )


def _read(results: Path, file: str, kind: str, build: Callable[[str, Record], Any]) -> Any:
    """Reads and converts a file; None if there is none, a ValueError that names it if it is damaged."""
    path = results / file
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}.") from error
    if not isinstance(record, dict) or not record.get("command"):
        raise ValueError(f"{path} does not say which command made it.")
    try:
        return build(f"{results.resolve().name}/{file}", record)
    except KeyError as error:
        raise ValueError(f"{path} is not {kind}: it lacks {error}.") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not {kind}: {error}.") from error


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
