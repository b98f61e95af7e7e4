"""The schema of the results of a world, and their one reader.

    vision.json           `cobra evaluate vision --suite --out ...`
    explore.json          `cobra evaluate explore --out ...`
    explore_random.json   the same for a world whose actors clicked at random
    vision_world1.json    and explore_world1.json: the same for a world of another seed; likewise world2
    explore_log.jsonl     the log of `cobra train explore`, or a run of it, explore/; likewise explore_random_log.jsonl,
                          explore_whole_log.jsonl
    demo.json             the result of `make demo`
    latents_read.json     which latents the reward predictors read, by benchmarks/experiments/latents_read.py
    solve/TASK.json       the result of `cobra solve TASK`, or a run of it, solve/TASK/; with options solve/TASK-OPTIONS
    baseline/TASK-NAME.json   the same for `cobra baseline`, NAME being one of the four: mpo_raw, mpo_features,
                              mpo_policy, mpo_handheld; with options baseline/TASK-NAME-OPTIONS

All files are optional. The published results of a shipped world lie in `RESULTS`/NAME, beside those of no world, such
as benchmarks; a researcher's own folder has the same layout as results/NAME.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cobra_rl.bounds import Bounds, Checked, NonNegative, Seed, Share, conform
from cobra_rl.evaluation.statistics import Exact, Summary, or_never, summary
from cobra_rl.evaluation.task import REFERENCES, recent_success
from cobra_rl.parts import short_name
from cobra_rl.runs.worlds import SHIPPED, home_of
from cobra_rl.spriteworld.names import MODES, SUITE, TASKS
from cobra_rl.storage.files import refuse_outside, write_json

RESULTS = Path(__file__).parents[1] / "results"  # published, and shipped with the package: a folder for each world
MAIN_PLACE = "paper/exploration/train"  # the scenes of vision.json that its targets are about
LABELS = {  # what agents are called in figures and tables
    "cobra": "COBRA",
    "mpo_handheld": "MPO handheld",
    "mpo_policy": "MPO, deformed actions",
    "mpo_features": "MPO, slots",
    "mpo_raw": "MPO raw",
}
BASELINES = {name: f"baseline-{name}" for name in LABELS if name != "cobra"}  # as `read_suite` calls them

Record = Mapping[str, Any]  # a file as JSON has it
StepCount = Annotated[int, Bounds(0, 10**9)]
Curve = tuple[tuple[float, ...], tuple[float, ...]]  # steps from 0 on, and success of the last 30 training episodes
ByMode = dict[str, Share]  # train, test

Metrics = Mapping[str, float | Sequence[float] | None]  # None: does not exist there, such as FG-ARI of single sprites

Stored = dict[str, float | tuple[float, ...] | None]  # `Metrics`, as they are read


class Metric(NamedTuple):
    """How a metric is shown, and its target, if it has one."""

    heading: str
    at_least: float | None = None
    at_most: float | None = None
    is_share: bool = False  # shown in percent

    def met_by(self, value: Exact | float) -> bool:
        """Return whether a value reaches the target: 9/10 reaches 0.9, which is a little more in binary."""
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
    "shape_clear": Metric("shape, where 80 % is visible", at_least=0.985, is_share=True),
    "shape_linear": Metric("... by a straight line", is_share=True),
    "hue_r2": Metric("hue by a straight line, R²", at_least=0.95),
    "disentanglement": Metric("DCI disentanglement", at_least=0.65),
    "completeness": Metric("DCI completeness"),
    "background_std": Metric("std of the background slot", at_most=0.05),
    "empty_std": Metric("std of empty slots", at_most=0.05),
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
    "steps_to_90_kept": Metric("steps to 90 %, kept"),
}


@dataclass(frozen=True)
class Evaluation(Checked):
    """What `cobra evaluate vision` or `cobra evaluate explore` measured."""

    source: str  # the file, as a reader of the folder finds it
    command: str
    metrics: Stored | dict[str, Stored]  # of vision, those of each place "variant/task/mode"

    @property
    def main(self) -> Metrics:
        """Of vision: the metrics of the held-out exploration scenes; of the first place if those were not measured."""
        places: Any = self.metrics
        return places.get(MAIN_PLACE) or next(iter(places.values()))


@dataclass(frozen=True)
class SeedResult(Checked):
    """The result of one seed. The last four fields exist only for training runs, not for `cobra evaluate`."""

    seed: Seed
    success: ByMode  # share of greedy episodes
    normalised_reward: dict[str, float]  # by mode: 0 for a random policy, 1 for the bound; empty: not measured
    steps_to_90: StepCount | None = None  # None: never
    episodes_to_90: StepCount | None = None
    steps_to_90_kept: StepCount | None = None  # from here on the greedy agent solved 90 % at every check
    curve: Curve = ((0.0,), (0.0,))  # the learning curve

    def __post_init__(self) -> None:
        super().__post_init__()
        steps, success = self.curve
        if len(steps) != len(success) or list(steps) != sorted(steps):
            raise ValueError(f"the curve of seed {self.seed} must be steps that rise and a success for each")


@dataclass(frozen=True)
class TaskResult(Checked):
    """The result.json of `cobra solve` or `cobra baseline`, or what `cobra evaluate RUN` measured of a run."""

    source: str
    command: str
    task: str
    variant: str
    is_sparse: bool
    steps: StepCount  # rewarded steps that each seed had
    episodes: StepCount  # greedy episodes in each mode
    learnt: bool  # whether it says how soon the seeds got to 90 %
    checked: bool  # whether it says from when on the greedy agent kept to 90 %
    context: dict[str, ByMode]  # "random" and "bound": their success
    seeds: tuple[SeedResult, ...]
    agent: str = "cobra"  # COBRA, one of `BASELINES`, or an agent of the user's own
    replay_ratio: NonNegative = 0.0  # of a baseline: transitions drawn for learning per environment step
    is_own: bool = False  # the task is a user's own, whose rules are neither the paper's nor those of the package

    @property
    def title(self) -> str:
        """The readable name of the task."""
        known = self.task in SUITE and not self.is_own
        return SUITE[self.task].title if known else self.task.replace("_", " ")

    @property
    def rules(self) -> str:
        """The readable name of the rules; of a task of a user's own, that it is one."""
        return "a task of your own" if self.is_own else f"{self.variant} variant"

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


Suite = dict[str, dict[str, TaskResult]]  # what was run, such as "solve" or "solve-uniform" -> task -> its result


def results_of(world: Path | str | None = None) -> Path:
    """Return the folder of what was measured of a world, which need not exist.

    Args:
        world: A name or a folder, as `load_world` takes it. Results of a shipped world lie in `RESULTS`; those of any
            other, where it is looked for by that name or folder, in results/ of it.
    """
    home = home_of(world)
    return RESULTS / home.name if home.parent == SHIPPED else home / "results"


def is_of(results: Path, world: Path | str | None) -> bool:
    """Return whether a folder of results is the one that belongs to a world, as the agents do that are kept with it."""
    return results.resolve() == results_of(world).resolve()


def read_vision(results: Path, name: str = "vision") -> Evaluation | None:
    """Read an evaluation of vision.

    Args:
        results: The folder of results, such as `results_of("structured")`.
        name: The name of the file without its suffix, such as "vision_world1".

    Returns:
        The metrics by place "variant/task/mode", and the command that made them; None if there is no such file.

    Raises:
        ValueError: If the file is damaged.
    """

    def build(source: str, record: Record) -> Evaluation:
        places = record["figures"]
        if not places or not all(isinstance(metrics, dict) for metrics in places.values()):
            raise ValueError("its figures must be metrics by place")
        return Evaluation(source, record["command"], places)

    return _read(results, f"{name}.json", "an evaluation of vision", build)


def read_explore(results: Path, name: str = "explore") -> Evaluation | None:
    """Read an evaluation of the exploration phase: imagination and curiosity.

    Args:
        results: The folder of results, such as `results_of("structured")`.
        name: The name of the file without its suffix, such as "explore_random".

    Returns:
        The metrics, and the command that made them; None if there is no such file.

    Raises:
        ValueError: If the file is damaged.
    """

    return _read(
        results,
        f"{name}.json",
        "an evaluation of the exploration phase",
        lambda source, record: Evaluation(source, record["command"], conform(Stored, record["figures"], "its figures")),
    )


def read_task(results: Path, name: str) -> TaskResult | None:
    """Read the result of a task, from a file or from the result.json of a run.

    Args:
        results: The folder of results, such as `results_of("structured")`.
        name: The file without its suffix, or the run, such as "demo" or "solve/sorting".

    Returns:
        The result; None if there is none.

    Raises:
        ValueError: If the file is damaged.
    """
    file = f"{name}/result.json" if (results / name).is_dir() else f"{name}.json"
    return _read(results, file, "the result of a task", lambda source, record: task_result(record, source))


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
        is_own=bool(problem.get("env") or problem.get("specs")) or problem["task"] not in SUITE,
    )


def _seed_result(seed: Record) -> SeedResult:
    return SeedResult(
        seed=seed["seed"],
        success={mode: seed[f"success_{mode}"] for mode in MODES},
        normalised_reward={mode: seed[name] for mode in MODES if (name := f"normalised_reward_{mode}") in seed},
        steps_to_90=seed.get("steps_to_90"),
        episodes_to_90=seed.get("episodes_to_90"),
        steps_to_90_kept=seed.get("steps_to_90_kept"),
        curve=_curve(seed),
    )


def _curve(seed: Record) -> Curve:
    """Return the learning curve of a seed, which has been thinned out where there are very many episodes."""
    solved = conform(tuple[bool, ...], seed.get("success", ()), "its success")
    curve = seed.get("curve") or {"steps": seed.get("ends", ()), "success": recent_success(solved)[1:].tolist()}
    return conform(Curve, ((0.0, *curve["steps"]), (0.0, *curve["success"])), "its curve")


def read_suite(results: Path) -> Suite:
    """Read the results of all tasks and agents.

    Args:
        results: The folder of results, such as `results_of("structured")`.

    Returns:
        For each agent with its options, such as "solve", "solve-uniform" or "baseline-mpo_raw", its results by task, in
        the suite's order.

    Raises:
        ValueError: If a file is damaged.
    """
    suite: Suite = {}
    for folder in ("solve", "baseline"):
        names = {path.stem for path in (results / folder).glob("*.json")}
        names |= {path.parent.name for path in (results / folder).glob("*/result.json")}
        for name in sorted(names):
            task, dash, options = name.partition("-") if name.partition("-")[0] in TASKS else (name, "", "")
            if result := read_task(results, f"{folder}/{name}"):
                suite.setdefault(folder + dash + options, {})[task] = result
    return {kind: {task: of[task] for task in sorted(of, key=suite_order)} for kind, of in suite.items()}


def suite_order(task: str) -> int:
    """Return the place of a task in the suite; tasks of one's own come last."""
    return TASKS.index(task) if task in TASKS else len(TASKS)


def read_log(results: Path, file: str) -> list[Record] | None:
    """Read a log of training.

    Args:
        results: The folder of results, such as `results_of("structured")`.
        file: The name of the file, such as "explore_log.jsonl"; if there is none, the log of the run explore/ is read.

    Returns:
        For each line, its metrics by name; None if there is no such file.

    Raises:
        ValueError: If the file is damaged.
    """
    path = results / (file if (results / file).exists() else file.replace("_log", "/log"))
    lines = _load(path, results, "a log of JSON lines", lambda text: list(map(json.loads, text.splitlines())))
    return lines and [
        conform(dict[str, float | None], line, f"{path}, line {number},") for number, line in enumerate(lines, 1)
    ]


def write_evaluation(path: Path, command: str, metrics: Mapping[str, Any]) -> None:
    """Write metrics as `read_vision` and `read_explore` expect them; JSON has no NaN, so that NaN becomes null.

    Args:
        path: The file.
        command: The command that measured them.
        metrics: The metrics by name or, for vision, by place and name.
    """
    figures = json.loads(json.dumps(metrics), parse_constant=lambda name: None)
    write_json(path, {"command": command, "figures": figures})


def _read(results: Path, file: str, kind: str, build: Callable[[str, Record], Any]) -> Any:
    """Read and convert a file; None if there is none, a ValueError that names it if it is damaged."""
    path = results / file
    if not path.exists():
        return None
    record = _load(path, results, "JSON", json.loads)
    if not isinstance(record, dict) or not record.get("command"):
        raise ValueError(f"{path} does not say which command made it.")
    try:
        folder = results.resolve()
        above = "results/" if folder.parent == RESULTS.resolve() else ""
        return build(f"{above}{folder.name}/{file}", record)
    except KeyError as error:
        raise ValueError(f"{path} is not {kind}: it lacks {error}.") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not {kind}: {error}.") from error


def _load(path: Path, results: Path, kind: str, parse: Callable[[str], Any]) -> Any:
    """Read a file inside of a folder of results; None if there is none, a ValueError if it cannot be parsed."""
    if not path.exists():
        return None
    refuse_outside(path, results)
    try:
        return parse(path.read_text())
    except (ValueError, OSError, RecursionError) as error:
        raise ValueError(f"{path} is not {kind}: {error}.") from error
