"""Curiosity emerging: the share of clicks that strike a sprite over training, and what it does for imagination."""

import json

from matplotlib.figure import Figure

from cobra_rl.figures.style import COLORS, RESULTS, Drawn
from cobra_rl.pretrained import Curious

RUNS = {  # the log of each, and what its actors are called
    "curious": ("explore_log.jsonl", "curious"),
    "whole": ("explore_whole_log.jsonl", "curious, D_net as in the paper"),
    "random": ("explore_random_log.jsonl", "random"),
}
PANELS = {
    "hits": "actors' clicks\nthat strike a sprite",
    "position_error": "position error of a\npushed sprite (frame widths)",
    "ratio_to_unchanged": "pixel error, of that of\npredicting no change",
}


def emergence(_: Curious) -> Drawn:
    """The runs' logs, as they were written while training; a run that has not been made is left out."""
    logs = {name: _read(file) for name, (file, _) in RUNS.items() if name == "curious" or (RESULTS / file).exists()}
    figure = Figure(figsize=(3.1 * len(PANELS), 2.5), layout="constrained")
    for axes, (figure_name, label) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        for name, rows in logs.items():
            axes.plot(
                [row["env_steps"] / 1000 for row in rows],
                [row[figure_name] for row in rows],
                color=COLORS[name],
                label=RUNS[name][1],
            )
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


def _read(name: str) -> list[dict]:
    path = RESULTS / name
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}: this figure is drawn from the logs of training, in a clone.")
    return [json.loads(line) for line in path.read_text().splitlines()]
