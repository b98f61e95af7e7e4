"""Where reward is lost between a scene and an action: the search again, with true parts in place of its own.

Four searches, in scenes that the agent comes to; what each one's action truly brings, without motion noise:

    ideal      knows the scene, what actions do to it and what it is worth; clicks on sprites
    proposed   knows the same, but has the agent's proposals to choose from
    seen       has these proposals, sees the picture that each one leads to, and goes by the reward predictor
    chosen     the agent: goes by the reward predictor, and imagines what they lead to

From each to the next, reward is lost by one thing more: proposals; vision and reward predictor; imagination.

Axes: N scenes, P proposals, K slots, M latents.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.agents.learner import Frozen, choose
from cobra_rl.agents.search import Choice
from cobra_rl.config import TaskConfig
from cobra_rl.evaluation.task import Policy, knowing, searching, visited
from cobra_rl.models import monet
from cobra_rl.models.reward import Reward
from cobra_rl.spriteworld import EnvState, Spriteworld

CAUSES = ("proposals", "vision and reward", "imagination")


class Worth(NamedTuple):
    """True rewards of the next scene, and of the present one."""

    now: Float[Array, " N"]
    ideal: Float[Array, " N"]
    proposed: Float[Array, " N"]
    seen: Float[Array, " N"]
    chosen: Float[Array, " N"]


def reward_lost(
    config: TaskConfig, frozen: Frozen, predictor: Reward, env: Spriteworld, scenes: int, seed: int
) -> dict[str, float]:
    """What there was to gain in a step, on average, and how much of it each cause lost.

    Rewards count up to `config.most_reward`.
    """
    parts = (frozen, predictor)
    states = visited(searching(config, env), parts, env, scenes, seed)
    worth: Worth = jax.device_get(_compiled(config, env)(parts, states, jax.random.split(jax.random.key(seed), scenes)))
    gain = float(np.mean(worth.ideal - worth.now))
    steps = zip(CAUSES, worth[1:], worth[2:], strict=False)
    return {"to gain": gain} | {cause: float(np.mean(more - less)) for cause, more, less in steps}


@functools.cache
def _compiled(config: TaskConfig, env: Spriteworld) -> Callable[..., Worth]:
    """For all seeds of a run: what they learnt is an argument."""

    def look(parts: tuple[Frozen, Reward], images: Array) -> Array:
        return parts[1](monet.encode(parts[0].vision, images))

    def find(parts: tuple[Frozen, Reward], state: EnvState, key: PRNGKeyArray) -> Choice:
        return choose(config, *parts, monet.encode(parts[0].vision, env.draw(state)[None])[0], key)

    return eqx.filter_jit(four_searches(env, find, look, config.most_reward))


def four_searches(
    env: Spriteworld,
    find: Callable[[Any, EnvState, PRNGKeyArray], Choice],
    look: Callable[[Any, Array], Array],
    most_reward: float | None = None,
) -> Callable[..., Worth]:
    """A function of (parts, states of N scenes, N keys).

    `find` is the agent's own search; `look` gives what images [P, H, W, 3] seem to be worth.
    """
    still = Spriteworld(dataclasses.replace(env.spec, motion_noise=0.0))
    ideal: Policy = knowing(env)

    def one(parts: Any, state: EnvState, key: PRNGKeyArray) -> Worth:
        choice = find(parts, state, key)
        after, rewards, *_ = jax.vmap(lambda action: still.advance(key, state, action))(choice.actions)
        best = ideal(None, jax.tree.map(lambda leaf: leaf[None], state), key[None])[0]
        found = Worth(
            now=still.spec.task(state.sprites)[0],
            ideal=still.advance(key, state, best)[1],
            proposed=rewards.max(),
            seen=rewards[jnp.argmax(look(parts, jax.vmap(env.draw)(after)))],
            chosen=still.advance(key, state, choice.action)[1],
        )
        return jax.tree.map(lambda reward: jnp.clip(reward, max=most_reward), found)

    return lambda parts, *rows: jax.lax.map(lambda row: one(parts, *row), rows)
