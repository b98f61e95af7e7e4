"""The parts of the page that depend on which results there are: tiles, groups of tasks, what falls short."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from cobra_rl.show.page.rows import CURIOUS, IMAGINE, TaskRow, metric_rows, task_row
from cobra_rl.show.results import EXPLORE, SOLVED, TASK, VISION, ExploreResult, Suite, TaskResult, VisionResult
from cobra_rl.show.tables import bound, share, shown
from cobra_rl.spriteworld.names import MODES, REWARDED, SUITE


class Pointer(NamedTuple):
    """A tile at the top of the page, or something that falls short; `section` is "" if there is none to lead to."""

    section: str
    subject: str  # a number, or what was asked and not reached
    text: str


class Group(NamedTuple):
    """Results that belong together."""

    title: str
    text: str
    figures: tuple[str, ...]
    kinds: Mapping[str, str]  # what was run -> what its rows are called beside the task
    rows: Sequence[TaskRow] = ()


GROUPS = (
    Group(
        "Tasks",
        "Success of greedy episodes after learning, in training mode and in test mode.",
        ("performance",),
        {"solve": ""},
    ),
    Group(
        "Beside model-free agents",
        "MPO with the vision module and the exploration policy of this agent (handheld), and without them (raw).",
        (),
        {"solve": "COBRA", "mpo_handheld": "MPO handheld", "mpo_raw": "MPO raw"},
    ),
    Group(
        "Without the exploration policy",
        "The search proposes uniformly random actions instead. All else is the same.",
        ("ablation",),
        {"solve": "with it", "solve-uniform": "without"},
    ),
    Group(
        "Sparse rewards",
        "A reward of 1 on success and nothing before. A value predictor can look ahead; a reward predictor cannot.",
        ("sparse",),
        {"solve-sparse": "value predictor", "solve-sparse-reward": "reward predictor"},
    ),
    Group(
        "The released rules",
        "The same tasks by the rules of the public package, which differ from the paper's.",
        (),
        {"solve-released": ""},
    ),
)
NO_BASELINE = "The paper's model-free baselines (MPO) have not been run: nothing here is beside another agent."


def task_groups(suite: Suite, figures: Collection[str]) -> list[Group]:
    """Returns the groups that have results or a figure."""
    known = {kind for group in GROUPS for kind in group.kinds}
    others = {kind: kind.partition("-")[2] or kind for kind in suite if kind not in known}
    groups = []
    for group in (*GROUPS, Group("Other runs", "", (), others)):
        rows = list(_rows(group, suite))
        if rows or any(name in figures for name in group.figures):
            groups.append(group._replace(rows=rows))
    return groups


def tiles(vision: VisionResult | None, explore: ExploreResult | None, suite: Suite) -> list[Pointer]:
    """Returns a few numbers for the top; each leads to where its command stands."""
    found = []
    if vision and (alone := vision.main.get("alone")) is not None:
        found.append(Pointer("look", shown(VISION["alone"], alone), "of sprites have a slot to themselves"))
    metrics = explore.metrics if explore else {}
    if isinstance(ratio := metrics.get("ratio_to_unchanged"), float):
        found.append(Pointer("imagine", share(ratio), "of the pixel error of imagining no change"))
    if "hit_rate" in metrics:
        hits, uniform = (shown(EXPLORE[name], metrics.get(name)) for name in ("hit_rate", "hit_rate_uniform"))
        found.append(Pointer("curious", hits, f"of clicks strike a sprite; at random {uniform}"))
    if main := suite.get("solve"):
        for mode, text in zip(MODES, ("solved in training mode", "solved in test mode"), strict=True):
            won = sum(float(result.success(mode).mean) >= SOLVED for result in main.values())
            found.append(Pointer("results", f"{won} of {len(main)}", f"tasks {text} (≥\u00a090\u00a0%)"))
    return found


def shortfalls(vision: VisionResult | None, explore: ExploreResult | None, suite: Suite) -> list[Pointer]:
    """Returns the targets that were not met, the tasks that were not solved, and what was not measured."""
    seen, explored = vision.main if vision else {}, explore.metrics if explore else {}
    tables = (("look", VISION, seen), ("curious", CURIOUS, explored), ("imagine", IMAGINE, explored))
    found = [
        Pointer(section, row.full_heading, f"{row.values[0]}, asked {row.target}")
        for section, metrics, measured in tables
        for row in metric_rows(metrics, measured)
        if row.verdict == "short"
    ]
    for kind, rules in (("solve", ""), ("solve-released", ", by the released rules")):
        for result in suite.get(kind, {}).values():
            if lines := list(_unsolved(result)):
                found.append(Pointer("results", result.title + rules, "; ".join(lines)))
    if absent := [SUITE[task].title for task in REWARDED if task not in suite.get("solve", {})]:
        found.append(Pointer("", "", f"Not measured yet: {'; '.join(absent)}."))
    if not any(kind.startswith("mpo") for kind in suite):
        found.append(Pointer("", "", NO_BASELINE))
    return found


def _rows(group: Group, suite: Suite) -> Iterator[TaskRow]:
    """Yields rows task by task; COBRA's own results stand beside others only where there are others."""
    special = [kind for kind in group.kinds if kind != "solve"] or ["solve"]
    tasks = dict.fromkeys(task for kind in special for task in suite.get(kind, {}))
    for task in sorted(tasks, key=lambda task: REWARDED.index(task) if task in REWARDED else len(REWARDED)):
        for kind, label in group.kinds.items():
            if result := suite.get(kind, {}).get(task):
                yield task_row(result, result.title + (f", {label}" if label else ""))


def _unsolved(result: TaskResult) -> Iterator[str]:
    """Yields how many seeds never got to 90 %, and the modes whose success is below its target."""
    seeds, counts = len(result.seeds), result.counts("steps_to_90")
    if never := sum(value is None for value in counts):
        yield f"{never} of {seeds} seeds never got to 90\u00a0% within {result.steps:,} rewarded steps"
    for mode in MODES:
        mean, metric = result.success(mode).mean, TASK[f"success_{mode}"]
        if metric.target and not metric.target.met_by(mean):
            yield f"{share(mean)} success in {mode} mode, asked {bound(metric)}"
