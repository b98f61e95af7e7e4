"""The paper's figures: functions (world, results) -> Drawn, the figure with its caption.

Each takes a world model and a folder of results and uses what it needs; a FileNotFoundError says what it lacks.
"""

from collections.abc import Mapping

from cobra_rl.reporting.figures.style import DrawFigure, Drawn, write
from cobra_rl.reporting.figures.tasks import Agents, agents_of, bars_of, learning_curves, solving, sparse
from cobra_rl.reporting.figures.worlds import (
    behaviour,
    clicks,
    decomposition,
    deformation,
    emergence,
    latents_read,
    rollout_sheet,
    rollouts,
    traversals,
)

FIGURES: Mapping[str, DrawFigure] = {
    "decomposition": decomposition,
    "traversals": traversals,
    "rollouts": rollouts,
    "rollout_sheet": rollout_sheet,
    "clicks": clicks,
    "deformation": deformation,
    "behaviour": behaviour,
    "emergence": emergence,
    "performance": bars_of("performance"),
    "baselines": bars_of("baselines"),
    "learning_curves": learning_curves,
    "solving": solving,
    "sparse": sparse,
    "ablation": bars_of("ablation"),
    "latents_read": latents_read,
}

__all__ = ["FIGURES", "Agents", "DrawFigure", "Drawn", "agents_of", "solving", "write"]
