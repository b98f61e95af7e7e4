"""Tables of published results in Markdown: from what `results/` holds to the lines of a table."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cobra_rl.evaluation.statistics import Values, count, count_summary, interquartile_mean, or_never, percent
from cobra_rl.reporting.results import LABELS, Metric, Metrics, TaskResult
from cobra_rl.reporting.tables import COMPARED, KEPT, SOON, bound, metric_text, texts
from cobra_rl.spriteworld.names import MODES


class Spread(NamedTuple):
    """Standard deviations of a measure: of seeds within a group, and of the groups beyond what the seeds explain."""

    within: float
    between: float


def spread(groups: Sequence[Values]) -> Spread:
    """Split the variance of values in groups, such as seeds in worlds, in two: within groups and between them.

    This is the one-way random-effects model, value = mean + group + seed. The mean squares give the variances, and a
    variance between groups that comes out negative is 0.

    Args:
        groups: The values of each group; groups may have different sizes.

    Returns:
        The standard deviations within groups and between them.

    Raises:
        ValueError: If there are fewer than two groups, or no group has two values.
    """
    values = [np.asarray(group, float) for group in groups]
    sizes = np.array([len(group) for group in values])
    means = np.array([group.mean() for group in values])
    total = sizes.sum()
    degrees = len(values) - 1
    if degrees < 1 or total == len(values):
        raise ValueError("The spread needs two groups, and two values in one of them.")
    within = sum(((group - mean) ** 2).sum() for group, mean in zip(values, means, strict=True)) / (total - len(values))
    between = (sizes * (means - np.concatenate(values).mean()) ** 2).sum() / degrees
    per_group = (total - (sizes**2).sum() / total) / degrees  # the size of a group, if all had the same
    return Spread(math.sqrt(within), math.sqrt(max(0.0, (between - within) / per_group)))


def row(*cells: str) -> str:
    """Write a row of a table."""
    return f"| {' | '.join(cells)} |"


def table(heads: Sequence[str], rows: Iterable[str]) -> str:
    """Write a table: a row of headings, the line below it, and its rows."""
    return "\n".join([row(*heads), "|" + "---|" * len(heads), *rows])


def task_row(result: TaskResult, *more: str) -> str:
    """Write the row of a task: success with its interval, steps and episodes to 90 %, then other cells."""
    success = []
    for mode in MODES:
        mean, interval = texts(result.success(mode), percent)
        success.append(f"{mean} ({interval})" if interval else mean)
    soon = [count_summary(result.counts(name)) for name in SOON]
    return row(result.title, *success, *soon, *more)


def reference_row(result: TaskResult, uniform: TaskResult) -> str:
    """Write the row of a task that compares COBRA with chance, uniform proposals and the search that knows all."""

    def both(write: Callable[[str], str]) -> str:
        return " / ".join(write(mode) for mode in MODES)

    random, best = ({mode: percent(of[mode]) for mode in MODES} for of in map(result.context.get, COMPARED) if of)
    found = (result.normalised_reward(mode) for mode in MODES)
    reward = " / ".join(f"{float(each.mean):.2f}" for each in found if each)
    tried = (both(lambda mode, of=of: percent(of.success(mode).mean)) for of in (uniform, result))
    return row(result.title, both(random.__getitem__), *tried, both(best.__getitem__), reward)


def kept_row(result: TaskResult) -> str:
    """Write the row of a task that was checked on the way: steps to 90 %, and until 90 % is kept."""
    cells = [count_summary(result.counts(name)) for name in ("steps_to_90", KEPT)]
    return row(result.title, *cells, ", ".join(count(steps) for steps in result.counts(KEPT)))


def worlds_row(results: Sequence[TaskResult]) -> str:
    """Write the row of a task in several worlds, from a result per world."""
    cells = [" / ".join(percent(result.success(mode).mean) for result in results) for mode in MODES]
    cells.append(" / ".join(count_summary(result.counts("steps_to_90")) for result in results))
    test = spread([[100.0 * seed.success["test"] for seed in result.seeds] for result in results])
    steps = [or_never(result.counts("steps_to_90")) for result in results]
    cells.append(f"{test.within:.1f} / {test.between:.1f}")
    lost = any(math.inf in counts for counts in steps)
    cells.append("-" if lost else "{:.0f} / {:.0f}".format(*spread(steps)))
    return row(results[0].title, *cells)


def metric_rows(metrics: Mapping[str, Metric], columns: Sequence[Metrics], target: bool = True) -> list[str]:
    """Write a row for each metric that any column has: its target, if asked for, and its value in each column."""
    measured = {name: metric for name, metric in metrics.items() if any(name in column for column in columns)}
    targets = {name: [bound(metric)] if target else [] for name, metric in measured.items()}
    values = {name: [metric_text(metric, column.get(name)) for column in columns] for name, metric in measured.items()}
    return [row(metric.heading, *targets[name], *values[name]) for name, metric in measured.items()]


def reached(result: TaskResult) -> str:
    """Write the steps to 90 %: "7,040"; of seeds that did not get there, the success at the end of their budget."""
    steps = count_summary(result.counts("steps_to_90"))
    lost = [seed.success["train"] for seed in result.seeds if seed.steps_to_90 is None]
    if not lost:
        return steps
    soon = " and ".join(count(seed.steps_to_90) for seed in result.seeds if seed.steps_to_90 is not None)
    others = f"{soon}; the rest: " if soon else ""
    return f"{steps} ({others}{percent(interquartile_mean(lost))} after {count(result.steps)})"


def reached_briefly(result: TaskResult | None) -> str:
    """Write the steps to 90 % for a narrow cell: "7,040", "2 of 3 seeds" or "none of 3"."""
    if result is None:
        return "not run"
    got = [steps for steps in result.counts("steps_to_90") if steps is not None]
    return count_summary(result.counts("steps_to_90")) if got else f"none of {len(result.seeds)} seeds"


def baseline_row(result: TaskResult) -> str:
    """Write the row of a baseline on a task."""
    success = (percent(result.success(mode).mean) for mode in MODES)
    budget = f"{len(result.seeds)} x {count(result.steps)}"
    return row(result.title, LABELS[result.agent], budget, *success, reached(result))


def sampled_row(result: TaskResult, sampled: TaskResult) -> str:
    """Write the row of a baseline that compares its mean action with samples."""
    cells = (" / ".join(percent(each.success(mode).mean) for each in (result, sampled)) for mode in MODES)
    return row(result.title, LABELS[result.agent], *cells)


def scenes_row(place: str, metrics: Metrics) -> str:
    """Write the row of a place "variant/task/mode" where vision was measured."""

    def value(name: str, digits: int) -> str:
        found: Any = metrics[name]
        return "-" if found is None else f"{found:.{digits}f}"

    variant, task, mode = place.split("/")
    where = f"{variant}, {task.removeprefix('goal_finding_').replace('_', ' ')}"
    both = f"{value('fg_ari_attention', 3)} / {value('fg_ari_decoder', 3)}"
    digits = {"alone": 3, "split": 3, "shared": 3, "mse": 5, "position_error": 4, "shape_accuracy": 3, "hue_error": 4}
    cells = [value(name, number) for name, number in digits.items()]
    return row(where if task == "exploration" else f"{where}, {mode}", both, *cells)


def ratio_row(ratio: int, handheld: TaskResult | None, cobra: TaskResult | None) -> str:
    """Write how soon MPO handheld and COBRA are good with so many samples per environment step, and how robust."""
    cells = []
    for result in (handheld, cobra):
        if result is None:
            cells += ["not run", ""]
        elif len(result.seeds) > 3:
            cells += [f"{count_summary(result.counts('steps_to_90'))} ({len(result.seeds)} seeds)"]
            cells += [percent(result.success("test").mean)]
        else:
            cells += [", ".join(count(number) for number in result.counts("steps_to_90"))]
            cells += [", ".join(percent(seed.success["test"]).removesuffix(" %") for seed in result.seeds) + " %"]
    return row(str(ratio), *cells)
