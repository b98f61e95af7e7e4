"""The paper's figures, one module each: a function of the agent's parts that returns the figure and its caption."""

from cobra_rl.figures.decomposition import decomposition
from cobra_rl.figures.style import Drawn, write
from cobra_rl.figures.traversals import traversals

FIGURES = {"decomposition": decomposition, "traversals": traversals}

__all__ = ["FIGURES", "Drawn", "write"]
