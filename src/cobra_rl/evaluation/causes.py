"""Where reward is lost between a scene and an action: the search again, with true parts in place of its own.

Four searches, in scenes that the agent comes to; what each one's action truly brings, without motion noise:

    ideal      knows the scene, what actions do to it and what it is worth; clicks on sprites
    proposed   knows the same, but has the agent's proposals to choose from
    seen       has these proposals, sees the picture that each one leads to, and goes by the reward predictor
    chosen     the agent: goes by the reward predictor, and imagines what they lead to

From each to the next, reward is lost by one thing more: proposals; vision and reward predictor; imagination.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.agents.cobra import CobraParams, choose, cobra_policy
from cobra_rl.agents.planners import Choice
from cobra_rl.config import TaskConfig
from cobra_rl.evaluation.task import knowing, noise_free, visited
from cobra_rl.spriteworld import EnvState, Spriteworld

CAUSES = ("proposals", "vision and reward", "imagination")
Find = Callable[[Any, EnvState, PRNGKeyArray], Choice]  # the agent's own search
Look = Callable[[Any, Array], Array]  # what it takes pictures [P, H, W, 3] to be worth


class Worth(NamedTuple):
    """True rewards of the present scene, and of the one that each search leads to."""

    now: Float[Array, " B"]
    ideal: Float[Array, " B"]
    proposed: Float[Array, " B"]
    seen: Float[Array, " B"]
    chosen: Float[Array, " B"]


def reward_lost(config: TaskConfig, params: CobraParams, env: Spriteworld, scenes: int, seed: int) -> dict[str, float]:
    """Measure what there was "to gain" in a step, in reward on average, and how much of it each of `CAUSES` lost."""
    states = visited(cobra_policy(config), params, env, scenes, seed)
    keys = jax.random.split(jax.random.key(seed), scenes)
    worth: Worth = jax.device_get(_compiled(config, env)(params, states, keys))
    gain = float(np.mean(worth.ideal - worth.now))
    steps = zip(CAUSES, worth[1:], worth[2:], strict=False)
    return {"to gain": gain} | {cause: float(np.mean(more - less)) for cause, more, less in steps}


@functools.cache
def _compiled(config: TaskConfig, env: Spriteworld) -> Callable[..., Worth]:
    """Compile the four searches once for all seeds of a run: what they learnt is an argument."""

    def look(params: CobraParams, images: Array) -> Array:
        return params.predictor(params.world.encode(images))

    def find(params: CobraParams, state: EnvState, key: PRNGKeyArray) -> Choice:
        return choose(config, params, params.world.encode(env.draw(state)[None])[0], key)

    return eqx.filter_jit(four_searches(env, find, look, config.reward_cap))


def four_searches(env: Spriteworld, find: Find, look: Look, reward_cap: float | None = None) -> Callable[..., Worth]:
    """Build a pure function (params, states of B scenes, B keys) -> Worth that compares the four searches."""
    still, ideal = noise_free(env), knowing(env)

    def compare(params: Any, state: EnvState, key: PRNGKeyArray) -> Worth:
        choice = find(params, state, key)
        after = jax.vmap(lambda action: still.advance(key, state, action))(choice.actions)
        best = ideal.act(None, jax.tree.map(lambda leaf: leaf[None], state), key[None])[0]
        found = Worth(
            now=still.spec.task(state.sprites)[0],
            ideal=still.advance(key, state, best).reward,
            proposed=after.reward.max(),
            seen=after.reward[jnp.argmax(look(params, jax.vmap(env.draw)(after.state)))],
            chosen=still.advance(key, state, choice.action).reward,
        )
        return jax.tree.map(lambda reward: jnp.clip(reward, max=reward_cap), found)

    return lambda params, *rows: jax.lax.map(lambda row: compare(params, *row), rows)
