"""Tables for a terminal. They fit 60 columns and look best from 80 on."""

import math
from collections.abc import Callable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cobra_rl.evaluation.statistics import (
    Exact,
    Summary,
    count,
    count_summary,
    interquartile_mean,
    or_never,
    percent,
    span,
    spread,
)
from cobra_rl.show.results import EXPLORE, TASK, VISION, Metric, Metrics
from cobra_rl.show.task_results import LABELS, Record, TaskResult, task_result
from cobra_rl.spriteworld.names import MODES

SOON, KEPT = ("steps_to_90", "episodes_to_90"), "steps_to_90_kept"
COMPARED = {"random": "random policy", "bound": "true state"}  # what results are compared with
TRUE_STATE = "true state: a one-step search with the true state and dynamics"
WIDE = 72  # columns from which on `print_suite` has room for the comparison


def share(value: Exact | float) -> str:
    """Writes a share in percent without a space, as narrow tables need it: "99.7%"."""
    return percent(value).replace(" ", "")


def shown(metric: Metric, value: float | Sequence[float] | None) -> str:
    """Writes the value of a metric: a share in percent, all else with three digits; "-" if there is none."""
    if isinstance(value, Sequence):
        return ", ".join(shown(metric, item) for item in value)
    if value is None or math.isnan(value):
        return "-"
    return share(value) if metric.is_share else f"{value:.3g}"


def texts(found: Summary, write: Callable[[Exact], str]) -> tuple[str, str]:
    """Writes the mean and its interval; a single seed has no interval."""
    return write(found.mean), "-".join(write(end) for end in found.interval or ())


def markdown_row(result: TaskResult) -> str:
    """Writes the row of a task in the tables of README.md and docs/results.md."""
    success = []
    for mode in MODES:
        mean, interval = texts(result.success(mode), percent)
        success.append(f"{mean} ({interval})" if interval else mean)
    soon = [count_summary(result.counts(name)) for name in SOON]
    return f"| {' | '.join((result.title, *success, *soon))} |"


def markdown_reference(result: TaskResult, uniform: TaskResult) -> str:
    """Writes the row of a task in the table of docs/results.md that compares COBRA with chance and with the best."""

    def both(write: Callable[[str], str]) -> str:
        return " / ".join(write(mode) for mode in MODES)

    random, bound = ({mode: percent(of[mode]) for mode in MODES} for of in map(result.context.get, COMPARED) if of)
    found = (result.normalised_reward(mode) for mode in MODES)
    reward = " / ".join(f"{float(each.mean):.2f}" for each in found if each)
    tried = (both(lambda mode, of=of: percent(of.success(mode).mean)) for of in (uniform, result))
    cells = (both(random.__getitem__), *tried, both(bound.__getitem__), reward)
    return f"| {' | '.join((result.title, *cells))} |"


def markdown_worlds(results: Sequence[TaskResult]) -> str:
    """Writes the row of a task in the table of several worlds of docs/results.md, from a result per world."""
    cells = [" / ".join(percent(result.success(mode).mean) for result in results) for mode in MODES]
    cells.append(" / ".join(count_summary(result.counts("steps_to_90")) for result in results))
    test = spread([[100.0 * seed.success["test"] for seed in result.seeds] for result in results])
    steps = [or_never(result.counts("steps_to_90")) for result in results]
    cells.append(f"{test.within:.1f} / {test.between:.1f}")
    lost = any(math.inf in counts for counts in steps)
    cells.append("-" if lost else "{:.0f} / {:.0f}".format(*spread(steps)))
    return f"| {' | '.join((results[0].title, *cells))} |"


def markdown_kept(result: TaskResult) -> str:
    """Writes the row of a task in the table of docs/results.md on checks: steps to 90 %, and until 90 % is kept."""
    cells = [count_summary(result.counts(name)) for name in ("steps_to_90", KEPT)]
    cells.append(", ".join(count(steps) for steps in result.counts(KEPT)))
    return f"| {' | '.join((result.title, *cells))} |"


def markdown_metrics(metrics: Mapping[str, Metric], worlds: Sequence[Metrics]) -> list[str]:
    """Writes the rows of the metrics that all worlds have, in the table of several worlds of docs/results.md."""
    rows = {name: metric for name, metric in metrics.items() if all(name in world for world in worlds)}
    cells = {name: [bound(metric), *(shown(metric, world[name]) for world in worlds)] for name, metric in rows.items()}
    return [f"| {' | '.join((metric.heading, *cells[name]))} |" for name, metric in rows.items()]


def bound(metric: Metric) -> str:
    """Writes the target of a metric: "≥ 70%"; nothing if it has none."""
    level, sign = (metric.at_most, "≤") if metric.at_least is None else (metric.at_least, "≥")
    if level is None:
        return ""
    return f"{sign}\u00a0{f'{100 * level:.3g}%' if metric.is_share else f'{level:.3g}'}"


def print_vision(places: Mapping[str, Metrics]) -> None:
    """Prints one table per place; places are called "variant/task/mode"."""
    for place, metrics in places.items():
        _print_metrics(f"vision on held-out scenes: {place}", metrics, VISION)


def print_explore(metrics: Metrics) -> None:
    """Prints the metrics of imagination and curiosity."""
    _print_metrics("imagination and curiosity on held-out scenes", metrics, EXPLORE)


def print_result(result: Record | TaskResult) -> None:
    """Prints a row per seed, their interquartile mean with its interval, and what to compare it with."""
    result = task_result(result)
    soon = (*(SOON if result.learnt else ()), *((KEPT,) if result.checked else ()))
    heads = [metric.heading for name, metric in TASK.items() if name in soon or name not in (*SOON, KEPT)]
    broken = (head.replace(", ", ",\n").replace(" to", "\nto") for head in heads)
    table = _table(f"{result.title}, {result.variant} variant", "", *broken)
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


def reached(result: TaskResult) -> str:
    """Writes the steps to 90 %: "7,040"; of seeds that did not get there, the success at the end of their budget."""
    steps = count_summary(result.counts("steps_to_90"))
    lost = [seed.success["train"] for seed in result.seeds if seed.steps_to_90 is None]
    if not lost:
        return steps
    soon = " and ".join(count(seed.steps_to_90) for seed in result.seeds if seed.steps_to_90 is not None)
    others = f"{soon}; the rest: " if soon else ""
    return f"{steps} ({others}{percent(interquartile_mean(lost))} after {count(result.steps)})"


def markdown_beside(handheld: TaskResult | None, raw: TaskResult | None) -> str:
    """Writes the last cell of a task in README.md's table: the steps to 90 % of MPO handheld / raw."""
    return " / ".join(reached(result) if result else "not run" for result in (handheld, raw))


def markdown_baseline(result: TaskResult) -> str:
    """Writes the row of a baseline on a task in docs/results.md."""
    success = (percent(result.success(mode).mean) for mode in MODES)
    budget = f"{len(result.seeds)} x {count(result.steps)}"
    return f"| {' | '.join((result.title, LABELS[result.agent], budget, *success, reached(result)))} |"


def markdown_sampled(result: TaskResult, sampled: TaskResult) -> str:
    """Writes the row of a baseline in the table of docs/results.md that compares its mean action with samples."""
    cells = (" / ".join(percent(each.success(mode).mean) for each in (result, sampled)) for mode in MODES)
    return f"| {' | '.join((result.title, LABELS[result.agent], *cells))} |"


def print_suite(results: Sequence[Record | TaskResult]) -> None:
    """Prints a row per task: interquartile means over seeds with their intervals, and what to compare them with."""
    rows, console = [task_result(result) for result in results], Console()
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


def _print_metrics(title: str, metrics: Metrics, rows: Mapping[str, Metric]) -> None:
    """Prints a row per metric with its target; metrics that were not measured are left out."""
    table = _table(title, "", "measured", "target")
    for name, metric in rows.items():
        if name in metrics:
            table.add_row(metric.heading, shown(metric, metrics[name]), bound(metric))
    Console().print(table)


def _table(title: str, *heads: str) -> Table:
    table = Table(title=title, title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), caption_justify="left")
    for head in heads:
        table.add_column(head, no_wrap=head.startswith("success"))  # intervals are not to be cut
    return table


def _stacked(summary: Summary) -> str:
    """Writes the mean and, below it, its interval."""
    return "\n".join(texts(summary, share)).strip()
