"""The rows of the page's tables, as plain values: the template turns them into HTML and escapes all text."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from cobra_rl.evaluation.statistics import Summary, count
from cobra_rl.show.results import EXPLORE, VISION, ExploreResult, Metric, Metrics, TaskResult, VisionResult
from cobra_rl.show.tables import bound, share, shown, texts
from cobra_rl.spriteworld.names import MODES

IMAGINATION = "position_error others_drift empty_drift ratio_to_encoded ratio_to_unchanged rollout_position_error"
IMAGINE = {name: EXPLORE[name] for name in IMAGINATION.split()}  # the first table of the exploration phase
CURIOUS = {name: metric for name, metric in EXPLORE.items() if name not in IMAGINE}  # the second
SCENES = ("fg_ari_attention", "fg_ari_decoder", "alone", "shared", "mse", "position_error", "shape_accuracy")
WORDS = {"random": "random", "bound": "knows all"}  # what success is compared with


class MetricRow(NamedTuple):
    """A metric beside its target."""

    heading: str
    full_heading: str  # where the heading begins with "...", what it goes on from
    target: str
    values: list[str]
    verdict: str  # "met" if the first value meets the target, else "short"; "" without a target


class ScoreCell(NamedTuple):
    """A mean over seeds; all but one of its parts may be missing."""

    mean: str
    interval: str
    note: str = ""
    marks: Sequence[tuple[str, float, float]] = ()  # on a strip from 0 to 100: kind, left end, width
    beside: Sequence[tuple[str, str, str]] = ()  # lines below: text, mean, interval


class TaskRow(NamedTuple):
    """A line of a table of tasks."""

    label: str
    success: list[ScoreCell]  # by mode
    soon: list[ScoreCell]  # steps and episodes to 90 %
    result: TaskResult


def metric_rows(metrics: Mapping[str, Metric], *columns: Metrics | None) -> list[MetricRow]:
    """Returns the metrics that the first column has as rows of a table; a column that is None is left out.

    The first column is held against the targets.
    """
    rows, subject = [], ""
    measured = [column for column in columns if column is not None]
    for name, metric in metrics.items():
        subject = subject if metric.heading.startswith("...") else metric.heading
        if name not in measured[0]:
            continue
        value, verdict = measured[0][name], ""
        if metric.target and isinstance(value, int | float):
            verdict = "met" if metric.target.met_by(value) else "short"
        values = [shown(metric, column.get(name)) for column in measured]
        full = metric.heading.replace("...", subject)
        rows.append(MetricRow(metric.heading, full, bound(metric), values, verdict))
    return rows


def scene_table(vision: VisionResult) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Returns column heads and, for each place that was measured, its name and some metrics."""
    rows = [
        (place.replace("/", ", ").replace("_", " "), [shown(VISION[name], metrics.get(name)) for name in SCENES])
        for place, metrics in vision.places.items()
    ]
    return ["scenes", *(VISION[name].heading for name in SCENES)], rows


def task_row(result: TaskResult, label: str) -> TaskRow:
    """Returns a result as a line: success in both modes, what to compare it with, and how soon 90 % were reached."""
    return TaskRow(
        label,
        [_success(result, mode) for mode in MODES],
        [_soon(result, name) for name in ("steps_to_90", "episodes_to_90")],
        result,
    )


def made_by(results: Iterable[VisionResult | ExploreResult | TaskResult | None]) -> dict[str, list[str]]:
    """Returns the files behind a table by the commands that made them."""
    commands: dict[str, list[str]] = {}
    for result in results:
        if result and result.source not in (sources := commands.setdefault(result.command, [])):
            sources.append(result.source)
    return commands


def prose(text: str) -> Markup:
    """Escapes a text, and gives symbols such as V_enc their subscripts."""
    return Markup(re.sub(r"\b([A-Za-z])_([A-Za-z]+)", r"\1<sub>\2</sub>", str(escape(text))))


def _success(result: TaskResult, mode: str) -> ScoreCell:
    """Success in numbers and as a strip from 0 to 1, with what to compare it with."""
    found = result.success(mode)
    context = {name: scores[mode] for name, scores in result.context.items()}
    beside = [(", ".join(f"{WORDS[name]} {share(level)}" for name, level in context.items()), "", "")]
    if (reward := result.normalised_reward(mode)) is not None:
        beside.append(("reward", *texts(reward, lambda value: f"{float(value):.2f}")))
    return ScoreCell(*texts(found, share), "", _strip(found, context), beside)


def _strip(found: Summary, context: Mapping[str, float]) -> list[tuple[str, float, float]]:
    low, high = (float(end) for end in found.interval or (found.mean, found.mean))
    spans = [("band", low, max(high - low, 0.008))]
    spans += [(name, level - 0.006, 0.012) for name, level in context.items()]
    spans.append(("mean", float(found.mean) - 0.01, 0.02))
    return [(kind, 100 * min(max(left, 0.0), 1.0 - width), 100 * width) for kind, left, width in spans]


def _soon(result: TaskResult, name: str) -> ScoreCell:
    """If some seeds never got there: how many did, and the mean if it is finite all the same."""
    counts, found = result.counts(name), result.soon(name)
    reached = sum(value is not None for value in counts)
    if reached == len(counts):
        return ScoreCell(*texts(found, count))
    mean = "" if math.isinf(found.mean) else count(found.mean)
    return ScoreCell(mean, "", f"{reached} of {len(counts)} {'seeds' if len(counts) > 1 else 'seed'} got there")
