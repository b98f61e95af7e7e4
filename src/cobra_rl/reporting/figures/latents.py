"""Which latents the reward predictors of the six tasks read."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from cobra_rl.bounds import conform
from cobra_rl.models.world import WorldModel
from cobra_rl.reporting.figures.style import Drawn, caption
from cobra_rl.spriteworld.names import REWARDED, SUITE
from cobra_rl.storage.files import read_json

FILE = "latents_read.json"  # of benchmarks/experiments/latents_read.py
PARTS = {"thing": "objects", "pair": "pairs of objects"}


def latents_read(_: WorldModel, results: Path) -> Drawn:
    """Draw a row per task and a column per latent, for objects and for pairs: the darker, the more it is read."""
    path = results / FILE
    if not path.exists():
        raise FileNotFoundError(f"There is no {FILE} in {results}; benchmarks/experiments/latents_read.py makes it.")
    found = conform(dict[str, dict[str, float]], read_json(path).get("figures"), f"{path}, figures,")
    tasks = [task for task in REWARDED if task in found]
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    panels = figure.subplots(1, len(PARTS), sharey=True)
    most = max(value for rows in found.values() for name, value in rows.items() if ": " in name)
    for axes, (part, title) in zip(panels, PARTS.items(), strict=True):
        names = [name for name in found[tasks[0]] if name.startswith(f"{part}: ")]
        norms = np.array([[found[task][name] for name in names] for task in tasks])
        axes.imshow(norms, cmap="Blues", vmin=0.0, vmax=most, aspect="auto")
        axes.set_xticks(range(len(names)), [name.partition(": ")[2] for name in names], rotation=45, ha="right")
        axes.set_yticks(range(len(tasks)), [SUITE[task].title for task in tasks])
        axes.set_title(f"latents of {title}", fontsize="medium")
        axes.tick_params(length=0)
        axes.set_frame_on(False)
        for row, column in np.argwhere(norms >= 0.1):
            color = "white" if norms[row, column] > 0.6 * most else "black"
            text = f"{norms[row, column]:.1f}"
            axes.text(column, row, text, ha="center", va="center", fontsize="x-small", color=color)
    return Drawn(figure, caption("latents_read"))
