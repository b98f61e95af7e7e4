"""Rows of tables and numbers as text, for page.html.j2. The template turns them into HTML and escapes them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from markupsafe import Markup, escape

from cobra_rl.evaluation.statistics import Exact, count
from cobra_rl.reporting.results import (
    BASELINES,
    EXPLORE,
    LABELS,
    TASK,
    VISION,
    Evaluation,
    Metric,
    Metrics,
    Suite,
    TaskResult,
    suite_order,
)
from cobra_rl.reporting.tables import bound, metric_text, share, solved, texts
from cobra_rl.spriteworld.names import MODES, REWARDED, SUITE

# For the template, beside those below
__all__ = ["MODES", "REWARDED", "SUITE", "VISION", "metric_text", "share", "solved", "texts"]
BESIDE = {"solve": LABELS["cobra"]} | {kind: LABELS[name] for name, kind in BASELINES.items()}
IMAGINE = {  # the first table of the exploration phase
    name: EXPLORE[name]
    for name in (
        "position_error", "others_drift", "empty_drift", "ratio_to_encoded", "ratio_to_unchanged",
        "rollout_position_error",
    )
}  # fmt: skip
CURIOUS = {name: metric for name, metric in EXPLORE.items() if name not in IMAGINE}  # the second
SCENE_METRICS = {  # the table of the scenes of all tasks
    name: VISION[name]
    for name in (
        "fg_ari_attention", "fg_ari_decoder", "alone", "shared", "mse", "position_error", "shape_accuracy",
    )
}  # fmt: skip


class MetricRow(NamedTuple):
    """A metric beside its target."""

    heading: str
    full_heading: str  # where the heading begins with "...", what it goes on from
    target: str
    values: list[str]
    verdict: str  # "met" if the first value meets the target, else "short"; "" without a target


def metric_rows(metrics: Mapping[str, Metric], *columns: Metrics | None) -> list[MetricRow]:
    """Return the metrics of the first column, compared with their targets; a column that is None is left out."""
    rows = []
    subject = ""
    measured = [column for column in columns if column is not None]
    for name, metric in metrics.items():
        subject = subject if metric.heading.startswith("...") else metric.heading
        if name not in measured[0]:
            continue
        value = measured[0][name]
        target = bound(metric)
        verdict = ""
        if target and isinstance(value, int | float):
            verdict = "met" if metric.met_by(value) else "short"
        values = [metric_text(metric, column.get(name)) for column in measured]
        rows.append(MetricRow(metric.heading, metric.heading.replace("...", subject), target, values, verdict))
    return rows


def task_rows(suite: Suite, kinds: Mapping[str, str]) -> list[tuple[str, TaskResult]]:
    """Return labels and results task by task; COBRA's own results stand beside others only where there are others."""
    special = [kind for kind in kinds if kind != "solve"] or ["solve"]
    tasks = dict.fromkeys(task for kind in special for task in suite.get(kind, {}))
    return [
        (f"{result.title}, {label}" if label else result.title, result)
        for task in sorted(tasks, key=suite_order)
        for kind, label in kinds.items()
        if (result := suite.get(kind, {}).get(task))
    ]


def other_kinds(suite: Suite, groups: Iterable[Mapping]) -> dict[str, str]:
    """Return what was run and is in none of the groups of the template, as its `kinds` are written."""
    known = {kind for group in groups for kind in group["kinds"]}
    return {kind: kind.partition("-")[2] or kind for kind in suite if kind not in known}


def not_run(suite: Suite) -> dict[str, str]:
    """Return the tasks without a result, by agent: COBRA and, if one of the baselines was run, all four."""
    agents = BESIDE if suite.keys() & set(BASELINES.values()) else {"solve": BESIDE["solve"]}
    tasks = {label: [task for task in REWARDED if task not in suite.get(kind, {})] for kind, label in agents.items()}
    return {label: "; ".join(SUITE[task].title for task in missing) for label, missing in tasks.items() if missing}


def made_by(results: Iterable[Evaluation | TaskResult | None]) -> dict[str, list[str]]:
    """Return the files behind a table by the commands that made them."""
    commands: dict[str, list[str]] = {}
    for result in results:
        if result and result.source not in (sources := commands.setdefault(result.command, [])):
            sources.append(result.source)
    return commands


def prose(text: str) -> Markup:
    """Escape a text, and gives symbols such as V_enc their subscripts."""
    return Markup(re.sub(r"\b([A-Za-z])_([A-Za-z]+)", r"\1<sub>\2</sub>", str(escape(text))))


def decimal(value: Exact) -> str:
    """Write a number with two digits after the point."""
    return f"{float(value):.2f}"


def strip(result: TaskResult, mode: str) -> list[tuple[str, float, float]]:
    """Return the marks of success on a strip from 0 to 100: what each is, its left end, its width."""
    found = result.success(mode)
    low, high = (float(end) for end in found.interval or (found.mean, found.mean))
    spans = [("band", low, max(high - low, 0.008))]
    spans += [(name, levels[mode] - 0.006, 0.012) for name, levels in result.context.items()]
    spans.append(("mean", float(found.mean) - 0.01, 0.02))
    return [(kind, 100 * min(max(left, 0.0), 1.0 - width), 100 * width) for kind, left, width in spans]


def time_to_90(result: TaskResult, name: str) -> tuple[str, str, str]:
    """Return the mean and the interval of steps or episodes to 90 %, and how many seeds got there if not all did."""
    counts = result.counts(name)
    found = result.time_to_90(name)
    if None not in counts:
        return *texts(found, count), ""
    reached = f"{len(counts) - counts.count(None)} of {len(counts)} seed{'s' * (len(counts) > 1)} got there"
    return count(found.mean).strip("-"), "", reached


def unsolved(result: TaskResult) -> Iterator[str]:
    """Yield how many seeds never got to 90 %, and the modes whose success is below its target."""
    if never := result.counts("steps_to_90").count(None):
        yield f"{never} of {len(result.seeds)} seeds never got to 90\u00a0% within {result.steps:,} rewarded steps"
    for mode in MODES:
        mean = result.success(mode).mean
        metric = TASK[f"success_{mode}"]
        if not metric.met_by(mean):
            yield f"{share(mean)} success in {mode} mode, target {bound(metric)}"
