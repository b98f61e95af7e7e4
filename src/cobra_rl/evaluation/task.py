"""Measures of the task phase: greedy success, steps to 90 %, and policies to compare with.

Axes: E episodes played side by side, P proposals.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from cobra_rl.agents.learner import Frozen, choose
from cobra_rl.config import TaskConfig
from cobra_rl.models import monet
from cobra_rl.models.reward import Reward
from cobra_rl.spriteworld import MODES, EnvState, Spriteworld, make, where_rows

WINDOW, ENOUGH = 30, 27  # episodes, and how many of them must succeed: 90 %
CONTEXT = {"random": "random policy", "bound": "one-step search that knows all"}  # what to compare with
SIDE_BY_SIDE = 16  # more are slower an image, and wait longer for the last

Values = Sequence[float] | np.ndarray
# (parameters, states of E environments, E keys) -> actions [E, 4]
Policy = Callable[[Any, EnvState, Key[Array, " E"]], Array]


class Played(NamedTuple):
    """Episodes, each to its end."""

    success: Bool[np.ndarray, " E"]
    reward: Float[np.ndarray, " E"]  # of the last step
    steps: Int[np.ndarray, " E"]


def play_episodes(policy: Policy, parameters: Any, env: Spriteworld, episodes: int, seed: int) -> Played:
    """Episodes from fresh scenes, the same for the same seed: where one has ended, the next begins.

    `policy` is compiled once for each environment.
    """
    begin, turn = _compiled(policy, env)
    key, current = jax.random.key(seed), np.arange(SIDE_BY_SIDE)  # the episodes under way
    states, fresh = begin(key, current), np.zeros(SIDE_BY_SIDE, bool)
    played = Played(np.zeros(episodes, bool), np.zeros(episodes), np.zeros(episodes, int))
    while (counts := current < episodes).any():
        states, *outcome = turn(parameters, states, key, current, fresh)
        done, *values = (np.asarray(value) for value in outcome)
        fresh = done & counts
        for kept, value in zip(played, values, strict=True):
            kept[current[fresh]] = value[fresh]
        current = np.where(fresh, current.max() + np.cumsum(fresh), current)
    return played


def visited(policy: Policy, parameters: Any, env: Spriteworld, scenes: int, seed: int, every: int = 4) -> EnvState:
    """Scenes in which a policy has to act: of every fourth step of episodes side by side."""
    begin, turn = _compiled(policy, env)
    key, current, count = jax.random.key(seed), np.arange(SIDE_BY_SIDE), 0
    states, kept = begin(key, current), []
    while len(kept) * SIDE_BY_SIDE < scenes:
        if count % every == 0:
            kept.append(states)
        states, done, *_ = turn(parameters, states, key, current, np.zeros(SIDE_BY_SIDE, bool))
        current = np.where(done, current.max() + np.cumsum(done), current)
        states, count = where_rows(done, begin(key, current), states), count + 1
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[:scenes], *kept)


@functools.cache
def _compiled(policy: Policy, env: Spriteworld) -> tuple[Callable, Callable]:
    def keys_of(key, episodes, step):
        return jax.vmap(lambda episode, t: jax.random.fold_in(jax.random.fold_in(key, episode), t))(episodes, step)

    def begin(key, episodes):
        return jax.vmap(env.initial)(keys_of(key, episodes, 0 * episodes))

    def turn(parameters, states, key, episodes, fresh):
        states = where_rows(fresh, begin(key, episodes), states)
        act_keys, step_keys = jax.vmap(jax.random.split, out_axes=1)(keys_of(key, episodes, states.step + 1))
        action = policy(parameters, states, act_keys)
        states, reward, success, truncated, _ = jax.vmap(env.advance)(step_keys, states, action)
        return states, success | truncated, success, reward, states.step

    return jax.jit(begin), eqx.filter_jit(turn)


@functools.cache
def searching(config: TaskConfig, env: Spriteworld) -> Policy:
    """The agent, greedy: parameters are (frozen, predictor)."""

    def policy(parameters: tuple[Frozen, Reward], states: EnvState, keys: Key[Array, " E"]) -> Array:
        frozen, predictor = parameters
        slots = monet.encode(frozen.vision, jax.vmap(env.draw)(states))
        return jax.vmap(lambda slots, key: choose(config, frozen, predictor, slots, key).action)(slots, keys)

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


def random_policy(_: Any, states: EnvState, keys: Key[Array, " E"]) -> Array:
    """Uniform actions."""
    return jax.vmap(lambda key: jax.random.uniform(key, (4,)))(keys)


@functools.cache
def knowing(env: Spriteworld, proposals: int = 128) -> Policy:
    """An upper bound: the same one-step search with the true state, the true dynamics without noise and the true task.

    Proposals click at random points within a random sprite.
    """
    still = Spriteworld(dataclasses.replace(env.spec, motion_noise=0.0))

    def best(state: EnvState, key: PRNGKeyArray) -> Array:
        pick_key, spread_key, motion_key = jax.random.split(key, 3)
        alive = jnp.where(state.sprites.alive, 0.0, -jnp.inf)
        sprite = jax.random.categorical(pick_key, alive, shape=(proposals,))
        spread = 0.1 * (jax.random.uniform(spread_key, (proposals, 2)) - 0.5)
        click = jnp.clip(state.sprites.position[sprite] + spread, 0.0, 1.0)
        actions = jnp.concatenate([click, jax.random.uniform(motion_key, (proposals, 2))], axis=1)
        rewards = jax.vmap(lambda action: still.advance(key, state, action)[1])(actions)
        return actions[jnp.argmax(rewards)]

    return lambda _, states, keys: jax.vmap(best)(states, keys)


def context(task: str, variant: str, episodes: int, seed: int) -> dict[str, dict[str, float]]:
    """Success and last reward, in both modes, of a random policy and of a one-step search that knows all: the bound."""
    found: dict[str, dict[str, float]] = {}
    for mode in MODES:
        env = make(task, mode, variant)
        for name, policy in zip(CONTEXT, (random_policy, knowing(env)), strict=True):
            played = play_episodes(policy, None, env, episodes, seed)
            scores = {mode: float(played.success.mean()), f"reward_{mode}": float(played.reward.mean())}
            found[name] = found.get(name, {}) | scores
    return found


def normalised_reward(scores: Mapping[str, float], context: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Last rewards on a scale where a random policy has 0 and the bound has 1."""
    normalised = {}
    for mode in MODES:
        low, high = (context[name][f"reward_{mode}"] for name in CONTEXT)
        normalised[f"normalised_reward_{mode}"] = (scores[f"reward_{mode}"] - low) / (high - low)
    return normalised


def window_won(success: Sequence[bool]) -> bool:
    """Whether at least 27 of the last 30 episodes succeeded."""
    return len(success) >= WINDOW and sum(success[-WINDOW:]) >= ENOUGH


def interquartile_mean(values: Values) -> float:
    """Mean of the middle half; parts of values count in parts. Infinite values (never) may be among the others."""
    return float(_middle_means(np.asarray(values, float)[None])[0])


def _middle_means(rows: Float[np.ndarray, "R N"]) -> Float[np.ndarray, " R"]:
    """The interquartile mean of each row."""
    count = rows.shape[1]
    edges = np.arange(count + 1) / count
    weight = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    counts = weight > 0.0
    return np.sort(rows, axis=1)[:, counts] @ weight[counts] / weight.sum()


def or_never(counts: Sequence[int | None]) -> list[float]:
    """Steps or episodes of each seed; a seed that never got there counts as infinitely many."""
    return [math.inf if count is None else float(count) for count in counts]


def bootstrap_interval(values: Values, level: float = 0.95, draws: int = 10_000) -> tuple[float, float]:
    """Percentile interval of the interquartile mean over seeds."""
    array, rng = np.asarray(values, float), np.random.default_rng(0)
    means = _middle_means(array[rng.integers(len(array), size=(draws, len(array)))])
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], method="nearest")
    return float(low), float(high)
