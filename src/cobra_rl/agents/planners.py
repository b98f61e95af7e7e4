"""Planners: how an action is searched for in imagination.

A planner is a function (world, score, slots, key) -> Choice: it proposes actions, imagines what they lead to with the
world model and scores that. `PLANNERS` makes one from a task's configuration; another planner, such as MCTS, is a new
function here (or in a file of its own) and a line there, chosen by `--config.planner NAME`.

Axes: P proposals, K slots, M latents, A action dimension.
"""

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

    A way is worth the best scene on it; with a depth of 1 it is the paper's one-step search.

    Args:
        world: Proposes and imagines.
        score: What scenes are worth.
        slots: The present scene.
        key: Randomness of the proposals.
        proposals: P, how many first actions are compared.
        depth: Steps of imagination.

    Returns:
        The first action of the best way, and all first actions with their scores.
    """
    scenes = jnp.broadcast_to(slots, (proposals, *slots.shape))
    scores = jnp.full(proposals, -jnp.inf)
    first = None
    for propose_key in jax.random.split(key, depth):
        actions = world.sample(scenes, propose_key)
        scenes = world.imagine(scenes, actions).slots
        scores = jnp.maximum(scores, score(scenes))
        first = actions if first is None else first
    assert first is not None
    return Choice(first[jnp.argmax(scores)], first, scores)


def make_one_step(config: TaskConfig) -> Planner:
    """Make the paper's planner: one step ahead."""
    return lambda *scene: shooting(*scene, proposals=config.proposals, depth=1)


def make_shooting(config: TaskConfig) -> Planner:
    """Make a planner that looks `config.depth` steps ahead."""
    return lambda *scene: shooting(*scene, proposals=config.proposals, depth=config.depth)


PLANNERS: Mapping[str, Callable[[TaskConfig], Planner]] = {"one_step": make_one_step, "shooting": make_shooting}


def make_planner(config: TaskConfig) -> Planner:
    """Make the planner that a configuration names."""
    if config.planner not in PLANNERS:
        raise ValueError(f"There is no planner {config.planner!r}; choose one of {', '.join(PLANNERS)}.")
    return PLANNERS[config.planner](config)
