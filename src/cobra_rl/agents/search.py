"""Algorithm 1: encode, propose with the exploration policy, imagine with the transition model, score, choose.

One step ahead is the paper's; a deeper search imagines each proposal further, with a proposal of its own at each later
step, and takes the best first action (random shooting). Pure; frozen parts are arguments.

Axes: P proposals, K slots, M latents.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.models import exploration
from cobra_rl.models.exploration import Exploration
from cobra_rl.models.transition import Imagined


class Choice(NamedTuple):
    """What the search found."""

    action: Float[Array, " 4"]  # the one to take
    actions: Float[Array, "P 4"]
    scores: Float[Array, " P"]  # what each is imagined to bring


def search(
    policy: Exploration | None,
    transition: Callable[[Array, Array], Imagined],
    reward: Callable[[Array], Array],
    slots: Float[Array, "K M"],
    key: PRNGKeyArray,
    proposals: int = 128,
    epsilon: Float[Array, ""] | float = 0.0,
    depth: int = 1,
) -> Choice:
    """The proposal that is imagined to be best; with probability epsilon, any of them.

    Without a policy, proposals are uniform: the paper's ablation of the exploration policy at task time.
    """
    explore_key, pick_key, key = jax.random.split(key, 3)
    scenes = jnp.broadcast_to(slots, (proposals, *slots.shape))
    first, scores = None, jnp.full(proposals, -jnp.inf)
    for propose_key in jax.random.split(key, depth):
        actions = _propose(policy, scenes, propose_key)
        scenes = transition(scenes, actions).slots
        scores = jnp.maximum(scores, reward(scenes))  # the best scene on the way
        first = actions if first is None else first
    assert first is not None
    greedy = jnp.argmax(scores)
    anything = jax.random.randint(pick_key, (), 0, proposals)
    chosen = jnp.where(jax.random.uniform(explore_key) < epsilon, anything, greedy)
    return Choice(first[chosen], first, scores)


def _propose(policy: Exploration | None, scenes: Float[Array, "P K M"], key: PRNGKeyArray) -> Float[Array, "P 4"]:
    if policy is None:
        return jax.random.uniform(key, (scenes.shape[0], 4))
    return exploration.sample(policy, scenes, key)
