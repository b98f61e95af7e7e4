"""Performance, robustness and data efficiency: the paper's main figure, and its ablation of the exploration policy."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cobra_rl.evaluation.task import bootstrap_interval, interquartile_mean, or_never
from cobra_rl.figures.style import COLORS, RESULTS, Drawn
from cobra_rl.pretrained import Curious
from cobra_rl.spriteworld import MODES

TASKS = {
    "goal_finding_new_shape": "goal finding:\nnew shape",
    "goal_finding_new_position": "goal finding:\nnew position",
    "goal_finding_more_targets": "goal finding:\nmore targets",
    "goal_finding_more_distractors": "goal finding:\nmore distractors",
    "sorting": "sorting",
    "clustering": "clustering",
}
PANELS = {"train": "success,\ntraining mode", "test": "success,\nrobustness mode"}


class Series(NamedTuple):
    """Whose bars are drawn: those whose results exist."""

    color: str
    label: str
    pattern: str  # of the files in results/, for a task


BASELINES = (
    Series("mpo_handheld", "MPO handheld", "mpo_handheld/{}.json"),
    Series("mpo_raw", "MPO raw", "mpo_raw/{}.json"),
)
COBRA = Series("cobra", "COBRA", "solve/{}.json")
UNIFORM = Series("uniform", "COBRA, uniform proposals", "solve/{}-uniform.json")


def performance(_: Curious) -> Drawn:
    """COBRA, and the baselines whose results exist."""
    drawn, budget = _bars((COBRA, *BASELINES), log=True)
    return Drawn(
        drawn,
        "Performance, robustness and data efficiency: success of greedy episodes, and rewarded environment steps until "
        f"27 of 30 consecutive training episodes succeeded and 100 greedy episodes confirmed it. {budget}",
    )


def ablation(_: Curious) -> Drawn:
    """With and without the exploration policy at task time."""
    if not any(_exists(UNIFORM, task) for task in TASKS):
        raise FileNotFoundError("There is no result of `cobra solve --no-exploration-policy` in this clone's results.")
    drawn, budget = _bars((COBRA, UNIFORM), log=False)
    return Drawn(
        drawn,
        "Ablation of the exploration policy at task time: without it the search proposes uniformly random actions. It "
        f"was used to learn the transition model in both cases. {budget}",
    )


def read_result(file: str) -> dict[str, Any]:
    """A result of `cobra solve`, as published."""
    path = RESULTS / file
    if not path.exists():
        raise FileNotFoundError(f"There is no {file} in the results of this clone: this figure is drawn from it.")
    return json.loads(path.read_text())


def _bars(agents: Sequence[Series], log: bool) -> tuple[Figure, str]:
    """Three panels, a group of bars a task; and a sentence on seeds and budgets."""
    series = {
        agent: {task: read_result(agent.pattern.format(task)) for task in TASKS if _exists(agent, task)}
        for agent in agents
    }
    series = {agent: results for agent, results in series.items() if results}
    if not series:
        raise FileNotFoundError("There is no result of `cobra solve` in this clone's results: this figure shows them.")
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    rows = figure.subplots(len(PANELS) + 1, 1, sharex=True)
    width = 0.7 / len(series)
    for number, (agent, results) in enumerate(series.items()):
        places = {task: list(TASKS).index(task) + (number - (len(series) - 1) / 2) * width for task in results}
        for axes, mode in zip(rows, MODES, strict=False):
            for task, result in results.items():
                values = [seed[f"success_{mode}"] for seed in result["seeds"]]
                _bar(axes, places[task], width, values, COLORS[agent.color])
        for task, result in results.items():
            _steps(rows[-1], places[task], width, result, COLORS[agent.color])
        rows[0].bar(0, 0, color=COLORS[agent.color], label=agent.label)
    for axes, (mode, label) in zip(rows, PANELS.items(), strict=False):
        _compared(axes, next(iter(series.values())), mode)
        axes.set(ylabel=label, ylim=(0.0, 1.05), yticks=(0.0, 0.5, 1.0))
    rows[-1].set(ylabel="rewarded steps\nto 90 %", xticks=range(len(TASKS)), xlim=(-0.6, len(TASKS) - 0.4))
    rows[-1].set_xticklabels(list(TASKS.values()), fontsize=8)
    if log:
        rows[-1].set(yscale="log", ylim=(50.0, None))
    for axes in rows:
        axes.spines[["top", "right"]].set_visible(False)
    if len(series) > 1:
        figure.legend(
            *rows[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(series), frameon=False
        )
    return figure, _budget(series)


def _exists(agent: Series, task: str) -> bool:
    return (RESULTS / agent.pattern.format(task)).exists()


def _bar(axes: Axes, place: float, width: float, values: Sequence[float], color: str, most: float = math.inf) -> float:
    """Interquartile mean, its interval and the seeds, up to `most`; a mean beyond that is pale. Returns its top."""
    mean, (low, high) = interquartile_mean(values), bootstrap_interval(values)
    reached, high = [value for value in values if math.isfinite(value)], min(high, most)
    axes.bar(place, min(mean, most), 0.92 * width, color=color, alpha=0.85 if math.isfinite(mean) else 0.2)
    if math.isfinite(mean):
        axes.errorbar(place, mean, [[max(0.0, mean - low)], [max(0.0, high - mean)]], color="black", linewidth=1.0)
    axes.plot(np.full(len(reached), place), reached, ".", color="black", markersize=2.5, alpha=0.5)
    return float(max([min(mean, most), high, *reached]))


def _steps(axes: Axes, place: float, width: float, result: Mapping[str, Any], color: str) -> None:
    """Steps to 90 %, in figures too; where not all seeds got there, how many did."""
    counts = or_never([seed["steps_to_90"] for seed in result["seeds"]])
    top, mean = _bar(axes, place, width, counts, color, most=float(result["steps"])), interquartile_mean(counts)
    lines = [f"{mean:.0f}"] if math.isfinite(mean) else []
    if (reached := sum(map(math.isfinite, counts))) < len(counts):
        lines.append(f"({reached} of {len(counts)})" if lines else f"{reached} of {len(counts)}")
    axes.annotate("\n".join(lines), (place, top), (0, 2), textcoords="offset points", ha="center", fontsize=7)


def _compared(axes: Axes, results: Mapping[str, Mapping[str, Any]], mode: str) -> None:
    """A random policy and the bound of a search that knows all, across each group of bars."""
    for task, result in results.items():
        place = list(TASKS).index(task)
        for name, style in (("bound", "-"), ("random", ":")):
            level = result["context"][name][mode]
            axes.hlines(level, place - 0.45, place + 0.45, color=COLORS["random"], linestyle=style, linewidth=1.2)


def _budget(series: Mapping[Series, Mapping[str, Mapping[str, Any]]]) -> str:
    """How many seeds, how many steps, how many episodes."""
    results = [result for of_agent in series.values() for result in of_agent.values()]
    seeds = _range([result["seed_count"] for result in results])
    steps = _range([result["steps"] for result in results])
    episodes = _range([result["final"] for result in results])
    return (
        f"Interquartile means with 95 % bootstrap intervals over {seeds} seeds (dots), {episodes} greedy episodes "
        f"each, after {steps} rewarded steps. Seeds that never got to 90 % count as infinite; "
        "a pale bar is as high as the budget where that makes the mean infinite. "
        "Grey lines: a one-step search that knows the true state; dotted: a random policy."
    )


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"
