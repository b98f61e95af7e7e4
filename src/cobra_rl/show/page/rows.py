"""The rows of the page's tables, as plain values: the template turns them into HTML and escapes all text."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from cobra_rl.evaluation.statistics import Exact, Summary, count
from cobra_rl.show.results import EXPLORE, VISION, ExploreResult, Metric, Metrics, TaskResult, VisionResult
from cobra_rl.show.tables import bound, share, shown
from cobra_rl.spriteworld.names import MODES

IMAGINE = (  # rows of the first table of the exploration phase; the others are the second's
    "position_error",
    "others_drift",
    "empty_drift",
    "ratio_to_encoded",
    "ratio_to_unchanged",
    "rollout_position_error",
)
CURIOUS = tuple(name for name in EXPLORE if name not in IMAGINE)
SCENES = ("fg_ari_attention", "fg_ari_decoder", "alone", "shared", "mse", "position_error", "shape_accuracy")
WORDS = {"random": "random", "bound": "knows all"}  # what success is compared with


Source = VisionResult | ExploreResult | TaskResult


class MetricRow(NamedTuple):
    """A metric beside its target."""

    heading: str
    target: str
    values: list[str]
    verdict: str  # whether the first value is "met", or is "short" of the target; "" without a target


class Miss(NamedTuple):
    """A metric that does not meet its target."""

    name: str
    heading: str
    value: str
    target: str


class Mark(NamedTuple):
    """A mark on a strip from 0 to 100."""

    kind: str
    left: float
    width: float


class ScoreCell(NamedTuple):
    """A mean over seeds; all but one of its parts may be missing."""

    mean: str
    interval: str
    note: str = ""
    marks: Sequence[Mark] = ()
    beside: Sequence[tuple[str, str, str]] = ()  # lines below: text, mean, interval


class TaskRow(NamedTuple):
    """A line of a table of tasks."""

    label: str
    success: list[ScoreCell]  # by mode
    seeds: int
    soon: list[ScoreCell]  # steps and episodes to 90 %
    result: TaskResult


def vision_rows(vision: VisionResult) -> list[MetricRow]:
    """Returns the metrics of the held-out exploration scenes."""
    return _metric_rows([vision.main], VISION)


def scene_rows(vision: VisionResult) -> list[tuple[str, list[str]]]:
    """Returns, for each place that was measured, its name and some metrics."""
    return [
        (place.replace("/", ", ").replace("_", " "), [shown(VISION[name], metrics.get(name)) for name in SCENES])
        for place, metrics in vision.places.items()
    ]


def scene_heads() -> list[str]:
    """Returns the column heads of `scene_rows`."""
    return ["scenes", *(VISION[name].heading for name in SCENES)]


def explore_rows(names: Iterable[str], *columns: ExploreResult | None) -> list[MetricRow]:
    """Returns some metrics of the exploration phase; the first column is held against the targets."""
    metrics = {name: EXPLORE[name] for name in names}
    return _metric_rows([column.metrics for column in columns if column], metrics)


def misses(metrics: Metrics, known: Mapping[str, Metric]) -> Iterator[Miss]:
    """Yields the metrics that do not meet their targets."""
    subject = ""
    for name, metric in known.items():
        if not metric.heading.startswith("..."):
            subject = metric.heading
        heading = metric.heading.replace("...", subject)  # "..." goes on where the last heading stood
        value = metrics.get(name)
        if metric.target and isinstance(value, int | float) and not metric.target.met_by(value):
            yield Miss(name, heading, shown(metric, value), bound(metric))


def task_row(result: TaskResult, label: str) -> TaskRow:
    """Returns a result as a line: success in both modes, what to compare it with, and how soon 90 % were reached."""
    return TaskRow(
        label,
        [_success(result, mode) for mode in MODES],
        len(result.seeds),
        [_soon(result, name) for name in ("steps_to_90", "episodes_to_90")],
        result,
    )


def made_by(results: Iterable[Source | None]) -> dict[str, list[str]]:
    """Returns the files behind a table by the commands that made them."""
    commands: dict[str, list[str]] = {}
    for result in results:
        if result and result.source not in (sources := commands.setdefault(result.command, [])):
            sources.append(result.source)
    return commands


def prose(text: str) -> Markup:
    """Escapes a text, and gives symbols such as V_enc their subscripts."""
    return Markup(re.sub(r"\b([A-Za-z])_([A-Za-z]+)", r"\1<sub>\2</sub>", str(escape(text))))


def _metric_rows(columns: list[Metrics], metrics: Mapping[str, Metric]) -> list[MetricRow]:
    rows = []
    for name, metric in metrics.items():
        if name not in columns[0]:
            continue  # not measured in this world
        value, verdict = columns[0][name], ""
        if metric.target and isinstance(value, int | float):
            verdict = "met" if metric.target.met_by(value) else "short"
        values = [shown(metric, column.get(name)) for column in columns]
        rows.append(MetricRow(metric.heading, bound(metric), values, verdict))
    return rows


def _success(result: TaskResult, mode: str) -> ScoreCell:
    """Success in numbers and as a strip from 0 to 1, with what to compare it with."""
    found = result.success(mode)
    context = {name: scores[mode] for name, scores in result.context.items()}
    beside = [(", ".join(f"{WORDS[name]} {share(level)}" for name, level in context.items()), "", "")]
    if (reward := result.normalised_reward(mode)) is not None:
        beside.append(("reward", *_texts(reward, lambda value: f"{float(value):.2f}")))
    return ScoreCell(*_texts(found, share), "", _strip(found, context), beside)


def _strip(found: Summary, context: Mapping[str, float]) -> list[Mark]:
    low, high = (float(end) for end in found.interval or (found.mean, found.mean))
    spans = [("band", low, max(high - low, 0.008))]
    spans += [(name, level - 0.006, 0.012) for name, level in context.items()]
    spans.append(("mean", float(found.mean) - 0.01, 0.02))
    return [Mark(kind, 100 * min(max(left, 0.0), 1.0 - width), 100 * width) for kind, left, width in spans]


def _soon(result: TaskResult, name: str) -> ScoreCell:
    """If some seeds never got there: how many did, and the mean if it is finite all the same."""
    counts, found = result.counts(name), result.soon(name)
    reached = sum(value is not None for value in counts)
    if reached == len(counts):
        return ScoreCell(*_texts(found, count))
    mean = "" if math.isinf(found.mean) else count(found.mean)
    return ScoreCell(mean, "", f"{reached} of {len(counts)} {'seeds' if len(counts) > 1 else 'seed'} got there")


def _texts(found: Summary, write: Callable[[Exact], str]) -> tuple[str, str]:
    """Returns the mean and its interval as text; a single seed has no interval."""
    if found.interval is None:
        return write(found.mean), ""
    low, high = found.interval
    return write(found.mean), f"{write(low)}-{write(high)}"
