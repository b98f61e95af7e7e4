"""Tables for a terminal. They fit 60 columns and look best from 80 on."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from cobra_rl.evaluation.statistics import Exact, Summary, count, count_summary, percent, span
from cobra_rl.reporting.results import (
    EXPLORE,
    TASK,
    VISION,
    Metric,
    Metrics,
    Record,
    TaskResult,
    read_explore,
    read_task,
    read_vision,
    results_of,
    task_result,
)
from cobra_rl.runs.worlds import DEFAULT_WORLD, named_worlds, own_worlds, world_sha256
from cobra_rl.spriteworld.names import MODES, REWARDED

SOON = ("steps_to_90", "episodes_to_90")
KEPT = "steps_to_90_kept"
COMPARED = {"random": "random policy", "bound": "true state"}  # what results are compared with
TRUE_STATE = "true state: a one-step search with the true state and dynamics"
SOLVED = 0.9  # success from which on a task counts as solved
WIDE = 72  # columns from which on `print_suite` has room for the comparison


def share(value: Exact | float) -> str:
    """Write a share in percent without a space, as narrow tables need it: "99.7%"."""
    return percent(value).replace(" ", "")


def metric_text(metric: Metric, value: float | Sequence[float] | None) -> str:
    """Write the value of a metric: a share in percent, all else with three digits; "-" if there is none."""
    if isinstance(value, Sequence):
        return ", ".join(metric_text(metric, item) for item in value)
    if value is None or math.isnan(value):
        return "-"
    return share(value) if metric.is_share else f"{value:.3g}"


def texts(found: Summary, write: Callable[[Exact], str]) -> tuple[str, str]:
    """Write the mean and its interval; a single seed has no interval."""
    return write(found.mean), "-".join(write(end) for end in found.interval or ())


def bound(metric: Metric) -> str:
    """Write the target of a metric: "≥ 70%"; nothing if it has none."""
    level, sign = (metric.at_most, "≤") if metric.at_least is None else (metric.at_least, "≥")
    if level is None:
        return ""
    return f"{sign}\u00a0{f'{100 * level:.3g}%' if metric.is_share else f'{level:.3g}'}"


def print_vision(places: Mapping[str, Metrics]) -> None:
    """Print one table per place; places are called "variant/task/mode"."""
    for place, metrics in places.items():
        _print_metrics(f"vision on held-out scenes: {place}", metrics, VISION)


def print_explore(metrics: Metrics) -> None:
    """Print the metrics of imagination and curiosity."""
    _print_metrics("imagination and curiosity on held-out scenes", metrics, EXPLORE)


def print_result(result: Record | TaskResult) -> None:
    """Print a row per seed, their interquartile mean with its interval, and what to compare it with."""
    result = task_result(result)
    soon = (*(SOON if result.learnt else ()), *((KEPT,) if result.checked else ()))
    heads = [metric.heading for name, metric in TASK.items() if name in soon or name not in (*SOON, KEPT)]
    broken = (head.replace(", ", ",\n").replace(" to", "\nto") for head in heads)
    table = _table(f"{result.title}, {result.rules}", "", *broken)
    for seed in result.seeds:
        successes = (share(seed.success[mode]) for mode in MODES)
        table.add_row(f"seed {seed.seed}", *successes, *(count(getattr(seed, name)) for name in soon))
    if len(result.seeds) > 1:
        means = (_stacked(result.success(mode)) for mode in MODES)
        table.add_row("all seeds", *means, *(count_summary(result.counts(name)) for name in soon))
    for name, scores in result.context.items():
        table.add_row(COMPARED[name], *(share(scores[mode]) for mode in MODES))
    notes = ["all seeds: interquartile mean and its 95 % interval"] if len(result.seeds) > 1 else []
    notes += [TRUE_STATE] if "bound" in result.context else []
    table.caption = "; ".join(notes)
    Console().print(table)


def print_suite(results: Sequence[Record | TaskResult]) -> None:
    """Print a row per task: interquartile means over seeds with their intervals, and what to compare them with."""
    rows = [task_result(result) for result in results]
    console = Console()
    compared = COMPARED if console.width >= WIDE else {}
    many = span(len(result.seeds) for result in rows)
    heads = [f"success,\n{mode}" for mode in MODES] + [name.replace(" ", "\n") for name in compared.values()]
    table = _table(f"Interquartile mean over {many} seeds", "", *heads, "steps,\nepisodes\nto 90 %")
    for result in rows:
        context = (result.context.get(name) for name in compared)
        table.add_row(
            result.title.replace(", ", ",\n"),
            *(_stacked(result.success(mode)) for mode in MODES),
            *("\n".join(share(of[mode]) for mode in MODES) if of else "-" for of in context),
            "\n".join(count_summary(result.counts(name)) for name in SOON),
        )
    table.caption = f"random policy, true state: train above test; {TRUE_STATE}" if compared else ""
    console.print(table)


def solved(results: Mapping[str, TaskResult], mode: str) -> str:
    """Return how many of the tasks count as solved: "5 of 6"."""
    return f"{sum(float(result.success(mode).mean) >= SOLVED for result in results.values())} of {len(results)}"


def print_worlds() -> None:
    """Print a row for each world that is known by name, whatever is in its folder."""
    table = Table("world", "what it is", "how it was trained", "how good", title="Worlds", padding=(0, 1, 0, 0))
    for name, home in named_worlds().items():
        title = f"{name}\n(default)" if name == DEFAULT_WORLD else name
        card = front_matter(home / "README.md")
        cells = (title, card.get("what", "-"), card.get("trained", "-"), _world_quality(name))
        table.add_row(*(Text(cell, overflow="fold") for cell in cells))  # no markup: a card may be a stranger's
    Console().print(table)
    print(f"Worlds of your own are looked for in {own_worlds()} (COBRA_WORLDS names another folder).")


def front_matter(card: Path) -> dict[str, str]:
    """Read the lines `name: text` between the two lines `---` at the beginning of a model card, if there are any."""
    before, _, rest = card.read_text(errors="replace").partition("---\n") if card.is_file() else ("", "", "")
    lines = rest.partition("\n---\n")[0].splitlines() if not before else ()
    return {name.strip(): text.strip() for name, _, text in (line.partition(":") for line in lines)}


def _print_metrics(title: str, metrics: Metrics, rows: Mapping[str, Metric]) -> None:
    """Print a row per metric with its target; metrics that were not measured are left out."""
    table = _table(title, "", "measured", "target")
    for name, metric in rows.items():
        if name in metrics:
            table.add_row(metric.heading, metric_text(metric, metrics[name]), bound(metric))
    Console().print(table)


def _table(title: str, *heads: str) -> Table:
    columns = (Column(head, no_wrap=head.startswith("success")) for head in heads)  # intervals are not to be cut
    return Table(
        *columns, title=title, title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), caption_justify="left"
    )


def _stacked(summary: Summary) -> str:
    """Write the mean and, below it, its interval."""
    return "\n".join(texts(summary, share)).strip()


def _world_quality(name: str) -> str:
    """Return the main metrics of a world in a line each, or the sentence that says what is damaged."""
    results = results_of(name)
    found = []
    try:
        world_sha256(name)
        if vision := read_vision(results):
            found.append(_measured(VISION["fg_ari_attention"], vision.main.get("fg_ari_attention")))
        if explore := read_explore(results):
            found.append(_measured(EXPLORE["hit_rate"], explore.metrics.get("hit_rate")))
        if tasks := {task: result for task in REWARDED if (result := read_task(results, f"solve/{task}"))}:
            found.append(f"tasks solved: {solved(tasks, 'train')}, in test mode {solved(tasks, 'test')}")
    except (ValueError, OSError) as error:
        return str(error)
    return "\n".join(found) or "not measured"


def _measured(metric: Metric, value: Any) -> str:
    return f"{metric.heading}: {metric_text(metric, value)}"
