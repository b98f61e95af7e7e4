"""Sparse rewards: learning curves with a reward predictor and with a value predictor."""

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cobra_rl.evaluation.statistics import bootstrap_interval, interquartile_mean
from cobra_rl.evaluation.task import WINDOW
from cobra_rl.models.world import WorldModel
from cobra_rl.show.figures.learning import label_curves, recent_success
from cobra_rl.show.figures.style import COLORS, Drawn
from cobra_rl.show.results import SeedResult, TaskResult, read_suite

KINDS = {"solve-sparse": ("cobra", "value predictor"), "solve-sparse-reward": ("reward", "reward predictor")}
POINTS = 60


def sparse(_: WorldModel, results: Path) -> Drawn:
    """Draw a panel for each task whose results exist."""
    suite = read_suite(results)
    tasks = list(suite.get("solve-sparse", {}))
    if not tasks:
        raise FileNotFoundError(f"There is no result of `cobra solve TASK --sparse` in {results}.")
    figure = Figure(figsize=(5.4 * len(tasks), 3.2), layout="constrained")
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        for kind, (color, label) in KINDS.items():
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
    label_curves(axes, result.title, result.steps)


def _curve(seed: SeedResult, steps: int) -> Float[np.ndarray, " P"]:
    """Return the success over the last 30 episodes that had ended by each of some steps."""
    counts = np.searchsorted(seed.ends, np.linspace(0, steps, POINTS), side="right")
    return np.array([0.0, *recent_success(seed.solved)])[counts]
