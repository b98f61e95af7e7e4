"""Sparse rewards: learning curves with a reward predictor and with a value predictor."""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from cobra_rl.evaluation.task import WINDOW, bootstrap_interval, interquartile_mean
from cobra_rl.figures.learning import label_curves, recent_success
from cobra_rl.figures.performance import read_result
from cobra_rl.figures.style import COLORS, RESULTS, Drawn
from cobra_rl.pretrained import Curious

KINDS = {"cobra": ("value predictor", ""), "reward": ("reward predictor", "-reward")}
POINTS = 60


def sparse(_: Curious) -> Drawn:
    """A panel a task whose results exist."""
    tasks = sorted(path.stem.removesuffix("-sparse") for path in (RESULTS / "solve").glob("*-sparse.json"))
    if not tasks:
        raise FileNotFoundError("There is no result of `cobra solve TASK --sparse` in this clone's results.")
    figure = Figure(figsize=(5.4 * len(tasks), 3.2), layout="constrained")
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        for color, (label, suffix) in KINDS.items():
            if not (RESULTS / f"solve/{task}-sparse{suffix}.json").exists():
                continue
            result = read_result(f"solve/{task}-sparse{suffix}.json")
            curves = np.stack([_curve(seed, result["steps"]) for seed in result["seeds"]], axis=1)
            low, high = np.array([bootstrap_interval(point, draws=1000) for point in curves]).T
            x = np.linspace(0, result["steps"], POINTS)
            axes.fill_between(x, low, high, color=COLORS[color], alpha=0.2, linewidth=0)
            axes.plot(x, [interquartile_mean(point) for point in curves], color=COLORS[color], label=label)
            axes.axhline(result["context"]["random"]["train"], color=COLORS["random"], linestyle=":", linewidth=1.0)
            axes.axhline(result["context"]["bound"]["train"], color=COLORS["random"], linewidth=1.0)
            label_curves(axes, task.replace("_", " "), result["steps"])
        axes.legend(frameon=False, fontsize=8, loc="lower right")
    return Drawn(
        figure,
        f"Sparse rewards: 1 on success, nothing before. Success over the last {WINDOW} training episodes (a fifth of "
        "the actions is random among the proposals); interquartile mean and 95 % bootstrap interval over seeds. "
        "Grey: a one-step search that knows the true state and the dense reward; dotted: a random policy.",
    )


def _curve(seed: dict[str, Any], steps: int) -> Float[np.ndarray, " P"]:
    """Success over the last 30 episodes that had ended by each of some steps."""
    counts = np.searchsorted(seed["ends"], np.linspace(0, steps, POINTS), side="right")
    return np.array([0.0, *recent_success(seed["success"])])[counts]
