"""The learning curve of a task: success over the last 30 episodes, seed by seed."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cobra_rl.evaluation.task import CONTEXT, WINDOW
from cobra_rl.show.figures.style import COLORS, Drawn
from cobra_rl.show.results import Record, TaskResult, task_result


def learning_curve(result: Record | TaskResult) -> Drawn:
    """Draw the learning curve of a finished run."""
    result = task_result(result)
    figure = Figure(figsize=(4.6, 2.8), layout="constrained")
    axes = figure.subplots()
    for seed in result.seeds:
        recent = [0.0, *recent_success(seed.solved)]
        axes.plot([0, *seed.ends], recent, color=COLORS["cobra"], linewidth=1.2, alpha=0.8)
        if seed.steps_to_90 is not None:
            axes.plot(seed.steps_to_90, 0.9, "o", color=COLORS["cobra"], markersize=4)
    for other, levels in result.context.items():
        axes.axhline(levels["train"], color=COLORS[other], linestyle="--", linewidth=1.0, label=CONTEXT[other])
    axes.plot([], [], color=COLORS["cobra"], label="COBRA, a line a seed" if len(result.seeds) > 1 else "COBRA")
    label_curves(axes, result.title + (", sparse reward" if result.is_sparse else ""), result.steps)
    axes.legend(frameon=False, fontsize=7, loc="center right")
    return Drawn(
        figure,
        f"Learning {result.title} ({result.variant} variant): success over the last {WINDOW} training "
        "episodes (a fifth of the actions is random among the proposals). A dot marks the first window of 90 % that "
        "100 greedy episodes confirmed.",
    )


def label_curves(axes: Axes, title: str, steps: int) -> None:
    """Give learning curves their labels, limits and title."""
    axes.set(xlabel="rewarded environment steps", ylabel=f"success, last {WINDOW} episodes", ylim=(-0.02, 1.03))
    axes.set_xlim(0, steps)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=10)


def recent_success(success: Sequence[bool]) -> list[float]:
    """Return the success over the last 30 episodes, for each episode; those before the first count as failures."""
    return [sum(success[max(0, i - WINDOW) : i]) / WINDOW for i in range(1, len(success) + 1)]
