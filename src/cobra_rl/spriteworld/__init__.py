"""Spriteworld in pure JAX: the environment suite of COBRA.

    from cobra_rl import spriteworld
    env = spriteworld.make("sorting")
    state, image = env.reset(key)
    state, image, reward, terminated, truncated, info = env.step(key, state, action)

It imports nothing from the rest of cobra_rl and is useful on its own.
"""

from cobra_rl.spriteworld.env import EnvState, Spriteworld, make, render, state_from_sprites, where_rows
from cobra_rl.spriteworld.scenes import SpriteDistribution
from cobra_rl.spriteworld.segment import coverage, segment
from cobra_rl.spriteworld.sprites import FACTORS, SHAPES, Sprites
from cobra_rl.spriteworld.suite import MODES, TASKS, VARIANTS, EnvSpec, env_spec, hue_range
from cobra_rl.spriteworld.tasks import Clustering, FindGoal, NoReward, Sum

__all__ = [
    "FACTORS",
    "MODES",
    "SHAPES",
    "TASKS",
    "VARIANTS",
    "Clustering",
    "EnvSpec",
    "EnvState",
    "FindGoal",
    "NoReward",
    "SpriteDistribution",
    "Sprites",
    "Spriteworld",
    "Sum",
    "coverage",
    "env_spec",
    "hue_range",
    "make",
    "render",
    "segment",
    "state_from_sprites",
    "where_rows",
]
