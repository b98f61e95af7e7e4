"""Curiosity emerging: the share of clicks that strike a sprite over training, and what it does for imagination."""

from pathlib import Path

from matplotlib.figure import Figure

from cobra_rl.models.world import WorldModel
from cobra_rl.show.figures.style import COLORS, Drawn
from cobra_rl.show.results import read_log

RUNS = {  # the log of each run, and what its actors are called
    "curious": ("explore_log.jsonl", "curious"),
    "whole": ("explore_whole_log.jsonl", r"curious, $D_\mathrm{net}$ as in the paper"),
    "random": ("explore_random_log.jsonl", "random"),
}
PANELS = {
    "hits": "actors' clicks\nthat strike a sprite",
    "position_error": "position error of a\npushed sprite (frame widths)",
    "ratio_to_unchanged": "pixel error, of that of\npredicting no change",
}


def emergence(_: WorldModel, results: Path) -> Drawn:
    """Draw the logs of training; a run that has not been made is left out."""
    found = {name: read_log(results, file) for name, (file, _) in RUNS.items()}
    logs = {name: rows for name, rows in found.items() if rows}
    if "curious" not in logs:
        raise FileNotFoundError(f"There is no {results / RUNS['curious'][0]}: this figure is drawn from it.")
    figure = Figure(figsize=(3.1 * len(PANELS), 2.5), layout="constrained")
    for axes, (metric, label) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        for name, rows in logs.items():
            steps = [row["env_steps"] / 1000 for row in rows]
            values = [row.get(metric) for row in rows]  # None, where it was not measured, is a gap
            axes.plot(steps, values, color=COLORS[name], label=RUNS[name][1])
        axes.set(xlabel="environment steps (thousands)", ylabel=label, ylim=(0.0, None))
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[1].legend(frameon=False, title="actors", fontsize=7, title_fontsize=7)
    others = " All have the same preset and seed; the paper's D_net had half as many updates." if len(logs) > 1 else ""
    return Drawn(
        figure,
        "Curiosity emerges. Left: the share of the actors' clicks that strike a sprite, from the random level on (a "
        "fifth of curious actors' actions is random). Middle and right: how well the transition model imagines a "
        "noise-free push of a random visible sprite (256 validation scenes). One seed." + others,
    )
