"""Planners: functions (world, score, slots, key) -> Choice that search for an action in imagination."""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.config import TaskConfig
from cobra_rl.models.world import WorldModel

Score = Callable[[Float[Array, "P K M"]], Float[Array, " P"]]  # what imagined scenes are worth


class Choice(NamedTuple):
    """What a planner found."""

    action: Float[Array, " A"]  # the one to take
    actions: Float[Array, "P A"]  # all that were proposed
    scores: Float[Array, " P"]  # what each is imagined to bring


Planner = Callable[[WorldModel, Score, Float[Array, "K M"], PRNGKeyArray], Choice]


def shooting(
    world: WorldModel, score: Score, slots: Float[Array, "K M"], key: PRNGKeyArray, *, proposals: int, depth: int
) -> Choice:
    """Imagine each proposal `depth` steps ahead, with another proposal at each later step (random shooting).

    A way is worth the best scene on it, and the first action of the best way is chosen. Depth 1: the paper's search.
    """
    scenes, scores = jnp.broadcast_to(slots, (proposals, *slots.shape)), jnp.full(proposals, -jnp.inf)
    actions = []
    for propose_key in jax.random.split(key, depth):
        actions.append(world.sample(scenes, propose_key))
        scenes = world.imagine(scenes, actions[-1]).slots
        scores = jnp.maximum(scores, score(scenes))
    return Choice(actions[0][jnp.argmax(scores)], actions[0], scores)


PLANNERS: Mapping[str, Callable[[TaskConfig], Planner]] = {
    "one_step": lambda config: functools.partial(shooting, proposals=config.proposals, depth=1),
    "shooting": lambda config: functools.partial(shooting, proposals=config.proposals, depth=config.depth),
}


def make_planner(config: TaskConfig) -> Planner:
    """Make the planner that a configuration names."""
    if config.planner not in PLANNERS:
        raise ValueError(f"There is no planner {config.planner!r}; choose one of {', '.join(PLANNERS)}.")
    return PLANNERS[config.planner](config)
