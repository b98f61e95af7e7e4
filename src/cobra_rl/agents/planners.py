"""Planners: functions (world, score, slots, key) -> Choice that choose an action by imagining its outcome."""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.config import TaskConfig
from cobra_rl.models.world import WorldModel

Score = Callable[[Float[Array, "P K M"]], Float[Array, " P"]]  # predicted reward of imagined scenes


class Choice(NamedTuple):
    """The result of a planner."""

    action: Float[Array, " A"]  # the action to take
    actions: Float[Array, "P A"]  # all proposed actions
    scores: Float[Array, " P"]  # score of each proposal


Planner = Callable[[WorldModel, Score, Float[Array, "K M"], PRNGKeyArray], Choice]


def shooting(
    world: WorldModel, score: Score, slots: Float[Array, "K M"], key: PRNGKeyArray, *, proposals: int, depth: int
) -> Choice:
    """Imagine each proposal `depth` steps ahead, with a new random proposal at each later step (random shooting).

    The score of a trajectory is that of its best scene; the first action of the best trajectory is chosen. With depth 1
    this is the paper's search.

    Args:
        world: The world model, which proposes actions and imagines their outcome.
        score: Predicts the reward, or the value, of imagined scenes [P, K, M].
        slots: The slots of the present scene.
        key: The random key of the proposals.
        proposals: P, the number of trajectories.
        depth: The number of steps that each trajectory is imagined ahead.

    Returns:
        The chosen action, and the first action and the score of every trajectory.
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
    """Make the planner that a configuration names.

    Args:
        config: Names the planner and gives its number of proposals and its depth.

    Returns:
        A function (world, score, slots, key) -> `Choice`.

    Raises:
        ValueError: If there is no planner of that name in `PLANNERS`.
    """
    if config.planner not in PLANNERS:
        raise ValueError(f"There is no planner {config.planner!r}; choose one of {', '.join(PLANNERS)}.")
    return PLANNERS[config.planner](config)
