"""Bars for the six tasks: performance, robustness and data efficiency, beside model-free agents and ablations."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from cobra_rl.evaluation.statistics import Summary, count, percent, span
from cobra_rl.models.world import WorldModel
from cobra_rl.reporting.figures.style import COLORS, Drawn, caption, panels
from cobra_rl.reporting.results import BASELINES, LABELS, Suite, TaskResult, read_suite
from cobra_rl.spriteworld.names import MODES, REWARDED, SUITE

GREY = "#cccccc"  # bars of those that did not get there
HEADINGS = {"train": "training mode", "test": "robustness mode"}
SERIES = {  # what was run, as `read_suite` calls it -> the colour and the label of its bars
    "solve": ("cobra", LABELS["cobra"]),
    "solve-uniform": ("uniform", "COBRA, uniform proposals"),
} | {kind: (name, LABELS[name]) for name, kind in BASELINES.items()}


def performance(_: WorldModel, results: Path) -> Drawn:
    """Draw COBRA, and MPO handheld and raw if their results exist."""
    kinds = ("solve", BASELINES["mpo_handheld"], BASELINES["mpo_raw"])
    bars = read_kinds(results, kinds, needed=kinds, command="cobra solve")
    return Drawn(_bars(bars, log=True), caption("performance", **_budget(bars)))


def baselines(_: WorldModel, results: Path) -> Drawn:
    """Draw COBRA beside all four baselines, or those whose results exist."""
    bars = read_baselines(results)
    return Drawn(_bars(bars, log=True), caption("baselines", **_budget(bars), ratios=replay_ratios(bars)))


def ablation(_: WorldModel, results: Path) -> Drawn:
    """Draw COBRA with and without the exploration policy at task time."""
    kinds = ("solve", "solve-uniform")
    bars = read_kinds(results, kinds, needed=kinds[1:], command="cobra solve --no-exploration-policy")
    return Drawn(_bars(bars, log=False), caption("ablation", **_budget(bars)))


def read_baselines(results: Path) -> Suite:
    """Read the results of COBRA and of the baselines; a FileNotFoundError if there is none of a baseline."""
    known = BASELINES.values()
    return read_kinds(results, ("solve", *known), needed=tuple(known), command="cobra baseline")


def read_kinds(results: Path, kinds: Sequence[str], *, needed: Sequence[str], command: str) -> Suite:
    """Read the results of the six tasks of these kinds; kinds that have none are left out.

    Raises:
        FileNotFoundError: If there is none of the kinds `needed`, which `command` makes.
    """
    suite = read_suite(results)
    found = {kind: {task: of for task, of in suite.get(kind, {}).items() if task in REWARDED} for kind in kinds}
    if not any(found[kind] for kind in needed):
        raise FileNotFoundError(f"There is no result of `{command}` in {results}: this figure shows them.")
    return {kind: by_task for kind, by_task in found.items() if by_task}


def _bars(bars: Suite, log: bool) -> Figure:
    """Draw three panels with a group of bars per task: success in both modes, and steps to 90 %."""
    figure, grid = panels(8.0 if len(bars) <= 3 else 13.0, 5.0, len(MODES) + 1, sharex=True)
    *rows, last = grid[:, 0]
    width = 0.7 / len(bars)
    for number, (kind, results) in enumerate(bars.items()):
        color = COLORS[SERIES[kind][0]]
        offset = (number - (len(bars) - 1) / 2) * width
        for task, result in results.items():
            place = REWARDED.index(task) + offset
            for axes, mode in zip(rows, MODES, strict=True):
                values = [float(seed.success[mode]) for seed in result.seeds]
                _bar(axes, place, width, found=result.success(mode), values=values, color=color)
            _steps(last, place, width, result, color)
    known = {task: result for by_task in reversed(bars.values()) for task, result in by_task.items()}
    for axes, mode in zip(rows, MODES, strict=True):
        _compared(axes, known, mode)
        axes.set(ylabel=f"success,\n{HEADINGS[mode]}", ylim=(0.0, 1.05), yticks=(0.0, 0.5, 1.0))
    last.set(ylabel="rewarded steps\nto 90 %", xticks=range(len(REWARDED)), xlim=(-0.6, len(REWARDED) - 0.4))
    last.set_xticklabels([SUITE[task].title.replace(", ", ",\n") for task in REWARDED], fontsize=8)
    if log:
        last.set(yscale="log", ylim=(50.0, None))
    if len(bars) > 1:
        entries = [Patch(color=COLORS[SERIES[kind][0]], label=SERIES[kind][1]) for kind in bars]
        figure.legend(handles=entries, loc="outside upper center", ncols=len(bars), frameon=False, fontsize=8)
    return figure


def _bar(
    axes: Axes,
    place: float,
    width: float,
    *,
    found: Summary,
    values: list[float],
    color: str,
    most: float = math.inf,
) -> float:
    """Draw a mean (grey, as high as `most`, if it is infinite), its interval and the seeds; return the top of it."""
    mean, low, high = (float(value) for value in found[:3])
    high = min(high, most)
    look = {"color": color, "alpha": 0.85} if math.isfinite(mean) else {"color": GREY, "edgecolor": color, "alpha": 0.7}
    axes.bar(place, min(mean, most), 0.92 * width, **look)
    if math.isfinite(mean):
        axes.errorbar(place, mean, [[max(0.0, mean - low)], [max(0.0, high - mean)]], color="black", linewidth=1.0)
    axes.plot(np.full(len(values), place), values, ".", color="black", markersize=2.5, alpha=0.5)
    return max([min(mean, most), high, *values])


def _steps(axes: Axes, place: float, width: float, result: TaskResult, color: str) -> None:
    """Draw the steps to 90 %, in numbers too; where not all seeds got there, how many did and what success they had."""
    found = result.time_to_90("steps_to_90")
    counts = result.counts("steps_to_90")
    reached = [float(value) for value in counts if value is not None]
    top = _bar(axes, place, width, found=found, values=reached, color=color, most=float(result.steps))
    mean = float(found.mean)
    text = f"{mean / 1000:.0f}k" if math.isfinite(mean) and mean >= 10_000 else count(found.mean).replace(",", "")
    lines = [text] if math.isfinite(mean) else []
    if len(reached) < len(counts):
        had = percent(result.success("train").mean, 0).replace(" ", "")
        lines.append(f"({len(reached)} of {len(counts)})" if lines else f"{len(reached)} of {len(counts)}\n{had}")
    size = 7 if width > 0.15 else 6
    axes.annotate("\n".join(lines), (place, top), (0, 2), textcoords="offset points", ha="center", fontsize=size)


def _compared(axes: Axes, results: Mapping[str, TaskResult], mode: str) -> None:
    """Draw a random policy and the bound of a one-step search with the true state across each group of bars."""
    for task, result in results.items():
        ends = (REWARDED.index(task) - 0.45, REWARDED.index(task) + 0.45)
        for name, style in (("bound", "-"), ("random", ":")):
            if name in result.context:
                axes.hlines(result.context[name][mode], *ends, color=COLORS["random"], linestyle=style, linewidth=1.2)


def _budget(bars: Suite) -> dict[str, str]:
    """Write how many seeds, episodes and steps the results have: "5" or "3-5"; steps by agent if there are several."""
    results = [result for by_task in bars.values() for result in by_task.values()]
    thousands = "{:,}".format
    steps = {SERIES[kind][1]: span((result.steps for result in of.values()), thousands) for kind, of in bars.items()}
    alike = len(set(steps.values())) == 1
    return {
        "seeds": span((len(result.seeds) for result in results), thousands),
        "episodes": span((result.episodes for result in results), thousands),
        "steps": next(iter(steps.values())) if alike else ", ".join(f"{of} ({name})" for name, of in steps.items()),
    }


def replay_ratios(bars: Suite) -> str:
    """Write how many transitions baselines drew for learning per environment step."""
    baselines = (result for of in bars.values() for result in of.values() if result.agent in BASELINES)
    return span((result.replay_ratio for result in baselines), "{:g}".format)
