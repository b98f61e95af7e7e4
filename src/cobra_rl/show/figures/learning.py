"""Learning curves, success over the last 30 episodes: of a run seed by seed, and with sparse rewards on average."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cobra_rl.evaluation.statistics import bootstrap_interval, interquartile_mean
from cobra_rl.evaluation.task import CONTEXT, WINDOW
from cobra_rl.models.world import WorldModel
from cobra_rl.show.figures.style import COLORS, Drawn
from cobra_rl.show.results import Record, SeedResult, TaskResult, read_suite, task_result

SPARSE_KINDS = {"solve-sparse": ("cobra", "value predictor"), "solve-sparse-reward": ("reward", "reward predictor")}
POINTS = 60  # of an average curve


def learning_curve(result: Record | TaskResult) -> Drawn:
    """Draw the learning curve of a finished run."""
    result = task_result(result)
    figure = Figure(figsize=(4.6, 2.8), layout="constrained")
    axes = figure.subplots()
    for seed in result.seeds:
        recent = [0.0, *_recent_success(seed.solved)]
        axes.plot([0, *seed.ends], recent, color=COLORS["cobra"], linewidth=1.2, alpha=0.8)
        if seed.steps_to_90 is not None:
            axes.plot(seed.steps_to_90, 0.9, "o", color=COLORS["cobra"], markersize=4)
    for other, levels in result.context.items():
        axes.axhline(levels["train"], color=COLORS[other], linestyle="--", linewidth=1.0, label=CONTEXT[other])
    axes.plot([], [], color=COLORS["cobra"], label="COBRA, a line a seed" if len(result.seeds) > 1 else "COBRA")
    _label(axes, result.title + (", sparse reward" if result.is_sparse else ""), result.steps)
    axes.legend(frameon=False, fontsize=7, loc="center right")
    return Drawn(
        figure,
        f"Learning {result.title} ({result.variant} variant): success over the last {WINDOW} training "
        "episodes (a fifth of the actions is random among the proposals). A dot marks the first window of 90 % that "
        "100 greedy episodes confirmed.",
    )


def sparse(_: WorldModel, results: Path) -> Drawn:
    """Draw a panel for each task whose results exist."""
    suite = read_suite(results)
    tasks = list(suite.get("solve-sparse", {}))
    if not tasks:
        raise FileNotFoundError(f"There is no result of `cobra solve TASK --sparse` in {results}.")
    figure = Figure(figsize=(5.4 * len(tasks), 3.2), layout="constrained")
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        for kind, (color, label) in SPARSE_KINDS.items():
            if result := suite.get(kind, {}).get(task):
                _draw(axes, result, COLORS[color], label)
        axes.legend(frameon=False, fontsize=8, loc="center right")
    return Drawn(
        figure,
        f"Sparse rewards: 1 on success, nothing before. Success over the last {WINDOW} training episodes (a fifth of "
        "the actions is random among the proposals); interquartile mean and 95 % bootstrap interval over seeds. "
        "Grey: a one-step search that knows the true state and the dense reward; dotted: a random policy.",
    )


def _draw(axes: Axes, result: TaskResult, color: str, label: str) -> None:
    curves = np.stack([_curve(seed, result.steps) for seed in result.seeds], axis=1)
    low, high = np.array([bootstrap_interval(point, draws=1000) for point in curves], float).T
    x = np.linspace(0, result.steps, POINTS)
    axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)
    axes.plot(x, [float(interquartile_mean(point)) for point in curves], color=color, label=label)
    for name, style in (("random", ":"), ("bound", "-")):
        if name in result.context:
            axes.axhline(result.context[name]["train"], color=COLORS["random"], linestyle=style, linewidth=1.0)
    _label(axes, result.title, result.steps)


def _curve(seed: SeedResult, steps: int) -> Float[np.ndarray, " P"]:
    """Return the success over the last 30 episodes that had ended by each of some steps."""
    counts = np.searchsorted(seed.ends, np.linspace(0, steps, POINTS), side="right")
    return np.array([0.0, *_recent_success(seed.solved)])[counts]


def _label(axes: Axes, title: str, steps: int) -> None:
    """Give learning curves their labels, limits and title."""
    axes.set(xlabel="rewarded environment steps", ylabel=f"success, last {WINDOW} episodes", ylim=(-0.02, 1.03))
    axes.set_xlim(0, steps)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=10)


def _recent_success(success: Sequence[bool]) -> list[float]:
    """Return the success over the last 30 episodes, for each episode; those before the first count as failures."""
    return [sum(success[max(0, i - WINDOW) : i]) / WINDOW for i in range(1, len(success) + 1)]
