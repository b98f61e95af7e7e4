"""cobra-rl: COBRA in JAX. Importing it registers the Spriteworld suite with Gymnasium."""

from cobra_rl import spriteworld
from cobra_rl.agents.agent import Agent
from cobra_rl.pretrained import load_pretrained
from cobra_rl.spriteworld.gym import register as _register

__version__ = "0.1.0"
__all__ = ["Agent", "__version__", "load_pretrained", "spriteworld"]

_register()
