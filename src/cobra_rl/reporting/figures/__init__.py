"""The paper's figures: functions (world, results) -> Drawn, the figure with its caption.

Each takes a world model and a folder of results and uses what it needs; a FileNotFoundError says what it lacks.
"""

from collections.abc import Mapping

from cobra_rl.reporting.figures.exploration import behaviour, clicks, deformation, emergence, rollout_sheet, rollouts
from cobra_rl.reporting.figures.style import DrawFigure, Drawn, write
from cobra_rl.reporting.figures.tasks import (
    Agents,
    ablation,
    agents_of,
    baselines,
    learning_curves,
    performance,
    solving,
    sparse,
)
from cobra_rl.reporting.figures.vision import decomposition, latents_read, traversals

_OF_WORLDS = (decomposition, traversals, rollouts, rollout_sheet, clicks, deformation, behaviour)
_OF_RESULTS = (emergence, performance, baselines, learning_curves, solving, sparse, ablation, latents_read)
FIGURES: Mapping[str, DrawFigure] = {draw.__name__: draw for draw in (*_OF_WORLDS, *_OF_RESULTS)}

__all__ = ["FIGURES", "Agents", "DrawFigure", "Drawn", "agents_of", "solving", "write"]
