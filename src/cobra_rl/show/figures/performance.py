"""Performance, robustness and data efficiency: the paper's main figure, and its ablation of the exploration policy."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cobra_rl.evaluation.statistics import Summary, count
from cobra_rl.models.world import WorldModel
from cobra_rl.show.figures.style import COLORS, Drawn
from cobra_rl.show.results import Suite, TaskResult, read_suite
from cobra_rl.spriteworld.names import MODES, REWARDED, SUITE

PANELS = {"train": "success,\ntraining mode", "test": "success,\nrobustness mode"}
SERIES = {  # what was run, as `read_suite` calls it -> the colour and the label of its bars
    "solve": ("cobra", "COBRA"),
    "mpo_handheld": ("mpo_handheld", "MPO handheld"),
    "mpo_raw": ("mpo_raw", "MPO raw"),
    "solve-uniform": ("uniform", "COBRA, uniform proposals"),
}


def performance(_: WorldModel, results: Path) -> Drawn:
    """Draw COBRA, and the baselines whose results exist."""
    bars = _read(results, ("solve", "mpo_handheld", "mpo_raw"))
    if not bars:
        raise FileNotFoundError(f"There is no result of `cobra solve` in {results}: this figure shows them.")
    return Drawn(
        _draw(bars, log=True),
        "Performance, robustness and data efficiency: success of greedy episodes, and rewarded environment steps until "
        f"27 of 30 consecutive training episodes succeeded and 100 greedy episodes confirmed it. {_budget(bars)}",
    )


def ablation(_: WorldModel, results: Path) -> Drawn:
    """Draw COBRA with and without the exploration policy at task time."""
    bars = _read(results, ("solve", "solve-uniform"))
    if "solve-uniform" not in bars:
        raise FileNotFoundError(f"There is no result of `cobra solve --no-exploration-policy` in {results}.")
    return Drawn(
        _draw(bars, log=False),
        "Ablation of the exploration policy at task time: without it the search proposes uniformly random actions. It "
        f"was used to learn the transition model in both cases. {_budget(bars)}",
    )


def _read(results: Path, kinds: Sequence[str]) -> Suite:
    suite = read_suite(results)
    found = {kind: {task: of for task, of in suite.get(kind, {}).items() if task in REWARDED} for kind in kinds}
    return {kind: by_task for kind, by_task in found.items() if by_task}


def _draw(bars: Suite, log: bool) -> Figure:
    """Draw three panels with a group of bars per task: success in both modes, and steps to 90 %."""
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    rows = figure.subplots(len(PANELS) + 1, 1, sharex=True)
    width = 0.7 / len(bars)
    for number, (kind, results) in enumerate(bars.items()):
        name, label = SERIES[kind]
        color, offset = COLORS[name], (number - (len(bars) - 1) / 2) * width
        for task, result in results.items():
            place = REWARDED.index(task) + offset
            for axes, mode in zip(rows, MODES, strict=False):
                values = [float(seed.success[mode]) for seed in result.seeds]
                _bar(axes, place, width, result.success(mode), values, color)
            _steps(rows[-1], place, width, result, color)
        rows[0].bar(0, 0, color=color, label=label)
    for axes, (mode, label) in zip(rows, PANELS.items(), strict=False):
        _compared(axes, next(iter(bars.values())), mode)
        axes.set(ylabel=label, ylim=(0.0, 1.05), yticks=(0.0, 0.5, 1.0))
    rows[-1].set(ylabel="rewarded steps\nto 90 %", xticks=range(len(REWARDED)), xlim=(-0.6, len(REWARDED) - 0.4))
    rows[-1].set_xticklabels([SUITE[task].title.replace(", ", ",\n") for task in REWARDED], fontsize=8)
    if log:
        rows[-1].set(yscale="log", ylim=(50.0, None))
    for axes in rows:
        axes.spines[["top", "right"]].set_visible(False)
    if len(bars) > 1:
        legend = rows[0].get_legend_handles_labels()
        figure.legend(*legend, loc="outside upper center", ncols=len(bars), frameon=False)
    return figure


def _bar(
    axes: Axes, place: float, width: float, found: Summary, values: list[float], color: str, most: float = math.inf
) -> float:
    """Draw a mean (pale beyond `most`), its interval and the seeds; return the top of what was drawn."""
    mean, low, high = (float(value) for value in found[:3])
    high = min(high, most)
    axes.bar(place, min(mean, most), 0.92 * width, color=color, alpha=0.85 if math.isfinite(mean) else 0.2)
    if math.isfinite(mean):
        axes.errorbar(place, mean, [[max(0.0, mean - low)], [max(0.0, high - mean)]], color="black", linewidth=1.0)
    axes.plot(np.full(len(values), place), values, ".", color="black", markersize=2.5, alpha=0.5)
    return max([min(mean, most), high, *values])


def _steps(axes: Axes, place: float, width: float, result: TaskResult, color: str) -> None:
    """Draw the steps to 90 %, in numbers too; where not all seeds got there, how many did."""
    found, counts = result.soon("steps_to_90"), result.counts("steps_to_90")
    reached = [float(value) for value in counts if value is not None]
    top = _bar(axes, place, width, found, reached, color, most=float(result.steps))
    lines = [count(found.mean).replace(",", "")] if math.isfinite(found.mean) else []
    if len(reached) < len(counts):
        lines.append(f"({len(reached)} of {len(counts)})" if lines else f"{len(reached)} of {len(counts)}")
    axes.annotate("\n".join(lines), (place, top), (0, 2), textcoords="offset points", ha="center", fontsize=7)


def _compared(axes: Axes, results: Mapping[str, TaskResult], mode: str) -> None:
    """Draw a random policy and the bound of a search that knows all across each group of bars."""
    for task, result in results.items():
        place = REWARDED.index(task)
        for name, style in (("bound", "-"), ("random", ":")):
            if name in result.context:
                ends = (place - 0.45, place + 0.45)
                axes.hlines(result.context[name][mode], *ends, color=COLORS["random"], linestyle=style, linewidth=1.2)


def _budget(bars: Suite) -> str:
    """Say how many seeds, how many steps, how many episodes."""
    results = [result for by_task in bars.values() for result in by_task.values()]
    seeds = _range([len(result.seeds) for result in results])
    steps = _range([result.steps for result in results])
    episodes = _range([result.episodes for result in results])
    return (
        f"Interquartile means with 95 % bootstrap intervals over {seeds} seeds (dots), {episodes} greedy episodes "
        f"each, after {steps} rewarded steps. Seeds that never got to 90 % count as infinite; "
        "a pale bar is as high as the budget where that makes the mean infinite. "
        "Grey lines: a one-step search that knows the true state; dotted: a random policy."
    )


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"
