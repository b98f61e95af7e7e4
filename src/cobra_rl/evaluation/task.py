"""Measures of the task phase: greedy success, steps to 90 %, and policies to compare with.

Axes: E episodes played side by side, P proposals.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cobra_rl.agents.learner import Frozen
from cobra_rl.agents.search import search
from cobra_rl.config import TaskConfig
from cobra_rl.models import monet
from cobra_rl.models.reward import Reward
from cobra_rl.spriteworld import MODES, EnvState, Spriteworld, make

WINDOW, ENOUGH = 30, 27  # episodes, and how many of them must succeed: 90 %
SIDE_BY_SIDE = 50

Values = Sequence[float] | np.ndarray
# (parameters, states of E environments, key) -> actions [E, 4]
Policy = Callable[[Any, EnvState, PRNGKeyArray], Array]


class Played(NamedTuple):
    """Episodes, each to its end."""

    success: Bool[np.ndarray, " E"]
    reward: Float[np.ndarray, " E"]  # of the last step
    steps: Int[np.ndarray, " E"]


def play_episodes(policy: Policy, parameters: Any, env: Spriteworld, episodes: int, seed: int) -> Played:
    """Episodes from fresh scenes, the same for the same seed; `policy` is compiled once for each environment."""
    parts = []
    for start in range(0, episodes, SIDE_BY_SIDE):
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), start), env.spec.max_steps + 1)
        begin, turn = _compiled(policy, env)
        states = begin(jax.random.split(keys[0], SIDE_BY_SIDE))
        success, over = np.zeros(SIDE_BY_SIDE, bool), np.zeros(SIDE_BY_SIDE, bool)
        reward, steps = np.zeros(SIDE_BY_SIDE), np.zeros(SIDE_BY_SIDE, int)
        for key in keys[1:]:
            states, new_reward, new_success = turn(parameters, states, key)
            reward = np.where(over, reward, new_reward)
            steps += ~over
            success |= np.asarray(new_success) & ~over
            over |= np.asarray(new_success)
            if over.all():
                break
        parts.append(Played(success, reward, steps))
    return Played(*(np.concatenate(values)[:episodes] for values in zip(*parts, strict=True)))


@functools.cache
def _compiled(policy: Policy, env: Spriteworld) -> tuple[Callable, Callable]:
    def turn(parameters, states, key):
        act_key, step_key = jax.random.split(key)
        action = policy(parameters, states, act_key)
        count = action.shape[0]
        states, reward, success, *_ = jax.vmap(env.advance)(jax.random.split(step_key, count), states, action)
        return states, reward, success

    return jax.jit(jax.vmap(env.initial)), eqx.filter_jit(turn)


@functools.cache
def searching(config: TaskConfig, env: Spriteworld) -> Policy:
    """The agent, greedy: parameters are (frozen, predictor)."""

    def policy(parameters: tuple[Frozen, Reward], states: EnvState, key: PRNGKeyArray) -> Array:
        frozen, predictor = parameters
        slots = monet.encode(frozen.vision, jax.vmap(env.draw)(states))

        def choose(slots: Array, key: PRNGKeyArray) -> Array:
            options = (config.proposals, 0.0, config.depth)
            return search(frozen.exploration, frozen.transition, predictor, slots, key, *options).action

        return jax.vmap(choose)(slots, jax.random.split(key, slots.shape[0]))

    return policy


def greedy_scores(
    config: TaskConfig, frozen: Frozen, predictor: Reward, task: str, variant: str, episodes: int, seed: int
) -> dict[str, float]:
    """Success, last reward and length of greedy episodes, in train and in test mode."""
    scores = {}
    for mode in MODES:
        env = make(task, mode, variant)
        played = play_episodes(searching(config, env), (frozen, predictor), env, episodes, seed)
        scores |= {f"{name}_{mode}": float(values.mean()) for name, values in played._asdict().items()}
    return scores


def random_policy(_: Any, states: EnvState, key: PRNGKeyArray) -> Array:
    """Uniform actions."""
    return jax.random.uniform(key, (states.step.shape[0], 4))


@functools.cache
def knowing(env: Spriteworld, proposals: int = 128) -> Policy:
    """An upper bound: the same one-step search with the true state, the true dynamics without noise and the true task.

    Proposals click at random points within a random sprite.
    """
    still = Spriteworld(dataclasses.replace(env.spec, motion_noise=0.0))

    def choose(state: EnvState, key: PRNGKeyArray) -> Array:
        pick_key, spread_key, motion_key = jax.random.split(key, 3)
        alive = jnp.where(state.sprites.alive, 0.0, -jnp.inf)
        sprite = jax.random.categorical(pick_key, alive, shape=(proposals,))
        spread = 0.1 * (jax.random.uniform(spread_key, (proposals, 2)) - 0.5)
        click = jnp.clip(state.sprites.position[sprite] + spread, 0.0, 1.0)
        actions = jnp.concatenate([click, jax.random.uniform(motion_key, (proposals, 2))], axis=1)
        rewards = jax.vmap(lambda action: still.advance(key, state, action)[1])(actions)
        return actions[jnp.argmax(rewards)]

    return lambda _, states, key: jax.vmap(choose)(states, jax.random.split(key, states.step.shape[0]))


def window_won(success: Sequence[bool]) -> bool:
    """Whether at least 27 of the last 30 episodes succeeded."""
    return len(success) >= WINDOW and sum(success[-WINDOW:]) >= ENOUGH


def interquartile_mean(values: Values) -> float:
    """Mean of the middle half; parts of values count in parts."""
    ordered = np.sort(np.asarray(values, float))
    edges = np.arange(len(ordered) + 1) / len(ordered)
    weight = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    return float((weight * ordered).sum() / weight.sum())


def bootstrap_interval(values: Values, level: float = 0.95, draws: int = 10_000) -> tuple[float, float]:
    """Percentile interval of the interquartile mean over seeds."""
    array, rng = np.asarray(values, float), np.random.default_rng(0)
    means = [interquartile_mean(array[rng.integers(len(array), size=len(array))]) for _ in range(draws)]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
