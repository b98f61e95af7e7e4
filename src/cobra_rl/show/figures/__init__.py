"""The paper's figures, one module each: a function of the agent's parts that returns the figure and its caption."""

from cobra_rl.figures.curiosity import behaviour, clicks, deformation
from cobra_rl.figures.decomposition import decomposition
from cobra_rl.figures.emergence import emergence
from cobra_rl.figures.performance import ablation, performance
from cobra_rl.figures.rollouts import rollout_sheet, rollouts
from cobra_rl.figures.solving import solving
from cobra_rl.figures.sparse import sparse
from cobra_rl.figures.style import Drawn, write
from cobra_rl.figures.traversals import traversals

FIGURES = {
    "decomposition": decomposition,
    "traversals": traversals,
    "rollouts": rollouts,
    "rollout_sheet": rollout_sheet,
    "clicks": clicks,
    "deformation": deformation,
    "behaviour": behaviour,
    "emergence": emergence,
    "performance": performance,
    "solving": solving,
    "sparse": sparse,
    "ablation": ablation,
}

__all__ = ["FIGURES", "Drawn", "write"]
