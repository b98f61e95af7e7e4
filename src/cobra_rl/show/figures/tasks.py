"""The tasks: performance, robustness and data efficiency, with ablations; the agent at play; learning curves."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cobra_rl.agent import Agent
from cobra_rl.evaluation.statistics import Summary, bootstrap_interval, count, interquartile_mean
from cobra_rl.evaluation.task import CONTEXT, WINDOW
from cobra_rl.models.world import WorldModel
from cobra_rl.show.figures.style import COLORS, Drawn, caption, label, show
from cobra_rl.show.films import Frame, picture, play
from cobra_rl.show.results import Suite, TaskResult, read_suite
from cobra_rl.spriteworld import make
from cobra_rl.spriteworld.names import MODES, REWARDED, SUITE

HEADINGS = {"train": "training mode", "test": "robustness mode"}
SERIES = {  # what was run, as `read_suite` calls it -> the colour and the label of its bars
    "solve": ("cobra", "COBRA"),
    "mpo_handheld": ("mpo_handheld", "MPO handheld"),
    "mpo_policy": ("mpo_policy", "MPO, deformed actions"),
    "mpo_features": ("mpo_features", "MPO, slots"),
    "mpo_raw": ("mpo_raw", "MPO raw"),
    "solve-uniform": ("uniform", "COBRA, uniform proposals"),
}
SPARSE_KINDS = {"solve-sparse": ("cobra", "value predictor"), "solve-sparse-reward": ("reward", "reward predictor")}
POINTS = 60  # of an average curve
FRAMES, SIZE, SEED = 5, 160, 3  # of `solving`
TRIES = 50  # episodes to look through for one that is long enough


def performance(_: WorldModel, results: Path) -> Drawn:
    """Draw COBRA, and the baselines whose results exist."""
    bars = _read(results, ("solve", "mpo_handheld", "mpo_raw"))
    if not bars:
        raise FileNotFoundError(f"There is no result of `cobra solve` in {results}: this figure shows them.")
    return Drawn(_bars(bars, log=True), caption("performance", **_budget(bars)))


def ablation(_: WorldModel, results: Path) -> Drawn:
    """Draw COBRA with and without the exploration policy at task time."""
    bars = _read(results, ("solve", "solve-uniform"))
    if "solve-uniform" not in bars:
        raise FileNotFoundError(f"There is no result of `cobra solve --no-exploration-policy` in {results}.")
    return Drawn(_bars(bars, log=False), caption("ablation", **_budget(bars)))


def solving(_: WorldModel, __: Path, agents: Callable[[str], Agent] = Agent.pretrained) -> Drawn:
    """Draw an episode of each task and mode: the first of at least four steps."""
    figure = Figure(figsize=(2 * FRAMES * 0.95 + 1.4, len(REWARDED) * 0.95 + 0.3))
    widths = [1.0] * FRAMES + [0.25] + [1.0] * FRAMES  # a gap between the modes
    margins = {"left": 0.12, "right": 0.995, "bottom": 0.01, "top": 0.95, "wspace": 0.04, "hspace": 0.06}
    grid = figure.subplots(len(REWARDED), len(widths), width_ratios=widths, gridspec_kw=margins, squeeze=False)
    for row, task in zip(grid, REWARDED, strict=True):
        row[FRAMES].set_visible(False)
        agent = agents(task)
        for mode, cells in zip(MODES, (row[:FRAMES], row[FRAMES + 1 :]), strict=True):
            for axes, frame in zip(cells, _frames(agent, task, mode), strict=True):
                show(axes, frame)
        label(row[0], SUITE[task].title.replace(", ", ",\n"), fontsize=8)
    for mode, column in zip(MODES, (FRAMES // 2, FRAMES + 1 + FRAMES // 2), strict=True):
        grid[0, column].set_title(HEADINGS[mode], fontsize=9)
    return Drawn(figure, caption("solving"))


def learning_curve(result: TaskResult) -> Drawn:
    """Draw the learning curve of a finished run of a task."""
    figure = Figure(figsize=(4.6, 2.8), layout="constrained")
    axes, (agent, name) = figure.subplots(), SERIES[result.agent]
    for seed in result.seeds:
        axes.plot([0, *seed.ends], _success(seed.solved), color=COLORS[agent], linewidth=1.2, alpha=0.8)
        if seed.steps_to_90 is not None:
            axes.plot(seed.steps_to_90, 0.9, "o", color=COLORS[agent], markersize=4)
    for other, levels in result.context.items():
        axes.axhline(levels["train"], color=COLORS[other], linestyle="--", linewidth=1.0, label=CONTEXT[other])
    axes.plot([], [], color=COLORS[agent], label=f"{name}, a line a seed" if len(result.seeds) > 1 else name)
    _describe(axes, result.title + (", sparse reward" if result.is_sparse else ""), result.steps)
    axes.legend(frameon=False, fontsize=7, loc="center right")
    return Drawn(figure, caption("learning_curve", result=result, window=WINDOW))


def sparse(_: WorldModel, results: Path) -> Drawn:
    """Draw a panel for each task whose results exist."""
    suite = read_suite(results)
    tasks = list(suite.get("solve-sparse", {}))
    if not tasks:
        raise FileNotFoundError(f"There is no result of `cobra solve TASK --sparse` in {results}.")
    figure = Figure(figsize=(5.4 * len(tasks), 3.2), layout="constrained")
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        for kind, (color, name) in SPARSE_KINDS.items():
            if result := suite.get(kind, {}).get(task):
                _curve(axes, result, COLORS[color], name)
        axes.legend(frameon=False, fontsize=8, loc="center right")
    return Drawn(figure, caption("sparse", window=WINDOW))


def _read(results: Path, kinds: Sequence[str]) -> Suite:
    suite = read_suite(results)
    found = {kind: {task: of for task, of in suite.get(kind, {}).items() if task in REWARDED} for kind in kinds}
    return {kind: by_task for kind, by_task in found.items() if by_task}


def _bars(bars: Suite, log: bool) -> Figure:
    """Draw three panels with a group of bars per task: success in both modes, and steps to 90 %."""
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    rows = figure.subplots(len(MODES) + 1, 1, sharex=True)
    width = 0.7 / len(bars)
    for number, (kind, results) in enumerate(bars.items()):
        agent, name = SERIES[kind]
        color, offset = COLORS[agent], (number - (len(bars) - 1) / 2) * width
        for task, result in results.items():
            place = REWARDED.index(task) + offset
            for axes, mode in zip(rows, MODES, strict=False):
                values = [float(seed.success[mode]) for seed in result.seeds]
                _bar(axes, place, width, result.success(mode), values, color)
            _steps(rows[-1], place, width, result, color)
        rows[0].bar(0, 0, color=color, label=name)
    for axes, mode in zip(rows, MODES, strict=False):
        _compared(axes, next(iter(bars.values())), mode)
        axes.set(ylabel=f"success,\n{HEADINGS[mode]}", ylim=(0.0, 1.05), yticks=(0.0, 0.5, 1.0))
    rows[-1].set(ylabel="rewarded steps\nto 90 %", xticks=range(len(REWARDED)), xlim=(-0.6, len(REWARDED) - 0.4))
    rows[-1].set_xticklabels([SUITE[task].title.replace(", ", ",\n") for task in REWARDED], fontsize=8)
    if log:
        rows[-1].set(yscale="log", ylim=(50.0, None))
    for axes in rows:
        axes.spines[["top", "right"]].set_visible(False)
    if len(bars) > 1:
        entries = rows[0].get_legend_handles_labels()
        figure.legend(*entries, loc="outside upper center", ncols=len(bars), frameon=False)
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
        ends = (REWARDED.index(task) - 0.45, REWARDED.index(task) + 0.45)
        for name, style in (("bound", "-"), ("random", ":")):
            if name in result.context:
                axes.hlines(result.context[name][mode], *ends, color=COLORS["random"], linestyle=style, linewidth=1.2)


def _budget(bars: Suite) -> dict[str, str]:
    """Write how many seeds, episodes and steps the results have: "5" or "3-5"."""
    results = [result for by_task in bars.values() for result in by_task.values()]
    found = {
        "seeds": {len(result.seeds) for result in results},
        "episodes": {result.episodes for result in results},
        "steps": {result.steps for result in results},
    }
    return {name: "-".join(f"{value:,}" for value in sorted({min(of), max(of)})) for name, of in found.items()}


def _curve(axes: Axes, result: TaskResult, color: str, predictor: str) -> None:
    x = np.linspace(0, result.steps, POINTS)
    curves = [_success(seed.solved)[np.searchsorted(seed.ends, x, side="right")] for seed in result.seeds]
    points = np.stack(curves, axis=1)
    low, high = np.array([bootstrap_interval(point, draws=1000) for point in points], float).T
    axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
    axes.plot(x, [float(interquartile_mean(point)) for point in points], color=color, label=predictor)
    for name, style in (("random", ":"), ("bound", "-")):
        if name in result.context:
            axes.axhline(result.context[name]["train"], color=COLORS["random"], linestyle=style, linewidth=1.0)
    _describe(axes, result.title, result.steps)


def _describe(axes: Axes, title: str, steps: int) -> None:
    """Give learning curves their labels, limits and title."""
    axes.set(xlabel="rewarded environment steps", ylabel=f"success, last {WINDOW} episodes")
    axes.set(xlim=(0, steps), ylim=(-0.02, 1.03))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=10)


def _success(solved: Sequence[bool]) -> Float[np.ndarray, " N"]:
    """Return the success over the last 30 episodes after each episode; those before the first count as failures."""
    return np.array([sum(solved[max(0, i - WINDOW) : i]) / WINDOW for i in range(len(solved) + 1)])


def _frames(agent: Agent, task: str, mode: str) -> list[Frame]:
    env, key = make(task, mode), jax.random.key(SEED)
    episode = play(agent.policy, agent.params, env, key)
    for number in range(1, TRIES + 1):
        if len(episode.actions) >= FRAMES - 1:
            break
        episode = play(agent.policy, agent.params, env, jax.random.fold_in(key, number))
    actions = [*episode.actions, None]
    chosen = np.linspace(0, len(actions) - 1, FRAMES).round().astype(int)
    return [picture(env, episode.states[i], SIZE, actions[i]) for i in chosen]
