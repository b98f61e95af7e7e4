"""Metrics of the task phase: success of greedy episodes, the 90 % criterion, and reference policies."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cobra_rl.agents.base import Policy
from cobra_rl.spriteworld import EnvState, Spriteworld
from cobra_rl.spriteworld.base import Environment, auto_reset

WINDOW, ENOUGH = 30, 27  # episodes, and how many of them must succeed: 90 %
CONTEXT = {"random": "random policy", "bound": "one-step search with the true state"}  # what to compare with
Envs = Mapping[str, Environment]  # by mode, such as {"train": ..., "test": ...}
SIDE_BY_SIDE = 16  # episodes; more take longer per image, and wait longer for the last one


class Played(NamedTuple):
    """Episodes, each played to its end; within a turn, to the present step."""

    success: Bool[np.ndarray | Array, " E"]
    reward: Float[np.ndarray | Array, " E"]  # of the last step
    steps: Int[np.ndarray | Array, " E"]


class Episode(NamedTuple):
    """One episode: its states, one more than its actions, and how it ended."""

    states: list[Any]
    actions: list[Float[np.ndarray, " A"]]
    success: bool | None  # None while it is under way


class Playing(NamedTuple):
    """Episodes under way."""

    states: Any  # of the environments, with a leading axis E
    episode: Int[Array, " E"]  # its number, which decides its random keys
    age: Int[Array, " E"]  # steps taken since it began


class Turn(NamedTuple):
    """One step in all episodes under way."""

    before: Playing
    actions: Float[Array, "E A"]
    after: Any  # states of the environments, the last ones of episodes included
    done: Bool[Array, " E"]
    outcome: Played


def play_episodes(
    policy: Policy, params: Any, env: Environment, episodes: int, seed: int, most_lost: int | None = None
) -> Played:
    """Play episodes, each to its end; what happens in one depends on `seed`, and not on how many are played.

    Args:
        policy: How to act.
        params: The parameters of the policy.
        env: The environment.
        episodes: E, the number of episodes.
        seed: The random seed of scenes, noise and policy.
        most_lost: Stop as soon as more episodes than this have failed; None plays all.

    Returns:
        For each episode, or for those that ended if it stopped before, whether it succeeded, the reward of its last
        step, and its number of steps.
    """
    played = Played(np.zeros(episodes, bool), np.zeros(episodes), np.zeros(episodes, int))
    over, turns = np.zeros(episodes, bool), _turns(policy, params, env, seed, limit=episodes)
    most_lost = episodes if most_lost is None else most_lost
    while not over.all() and np.sum(over & ~played.success) <= most_lost:
        turn = next(turns)
        number = np.asarray(turn.before.episode)
        ended = np.asarray(turn.done) & (number < episodes)
        for kept, values in zip(played, turn.outcome, strict=True):
            kept[number[ended]] = np.asarray(values)[ended]
        over[number[ended]] = True
    return Played(*(kept[over] for kept in played))


def episodes(
    policy: Policy, params: Any, env: Environment, seed: int, together: int = SIDE_BY_SIDE
) -> Iterator[Episode]:
    """Play the episodes of `play_episodes` without end, with all their states and actions.

    Args:
        policy: How to act.
        params: The parameters of the policy.
        env: The environment.
        seed: The random seed of scenes, noise and policy.
        together: The number of episodes that are played side by side.

    Yields:
        The episodes in order.
    """
    under_way: dict[int, Episode] = {}
    following = 0
    for turn in map(jax.device_get, _turns(policy, params, env, seed, limit=2**31 - 1, together=together)):
        for row, number in enumerate(turn.before.episode):
            state, after = (jax.tree.map(lambda leaf, row=row: leaf[row], t) for t in (turn.before.states, turn.after))
            states, actions, _ = under_way.get(number, Episode([state], [], None))
            success = bool(turn.outcome.success[row]) if turn.done[row] else None
            under_way[number] = Episode([*states, after], [*actions, turn.actions[row]], success)
        while following in under_way and under_way[following].success is not None:
            states, actions, success = under_way.pop(following)
            yield Episode([jax.tree.map(jnp.asarray, state) for state in states], actions, success)
            following += 1


def visited(policy: Policy, params: Any, env: Environment, scenes: int, seed: int) -> Any:
    """Collect states in which a policy has to act: those of every fourth step of its episodes.

    Args:
        policy: How to act.
        params: The parameters of the policy.
        env: The environment.
        scenes: The number of states.
        seed: The random seed of scenes, noise and policy.

    Returns:
        The states, batched.
    """
    every_fourth = itertools.islice(_turns(policy, params, env, seed, limit=2**31 - 1), 0, None, 4)
    kept = [turn.before.states for turn in itertools.islice(every_fourth, math.ceil(scenes / SIDE_BY_SIDE))]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[:scenes], *kept)


def _turns(
    policy: Policy, params: Any, env: Environment, seed: int, limit: int, together: int = SIDE_BY_SIDE
) -> Iterator[Turn]:
    """Step up to `together` episodes in parallel; a finished one is replaced until `limit` have begun."""
    (begin, look, advance), act = _compiled(env), eqx.filter_jit(policy.act)  # `act` is compiled once for all tasks
    key, numbers = jax.random.key(seed), jnp.int32(limit)
    playing = begin(key, min(limit, together))
    while True:
        images, act_keys, step_keys = look(playing, key)
        actions = act(params, playing.states if policy.sees_state else images, act_keys)
        following, after, done, outcome = advance(playing, actions, step_keys, key, numbers)
        yield Turn(playing, actions, after, done, outcome)
        playing = following


@functools.cache
def _compiled(env: Environment) -> tuple[Callable, Callable, Callable]:
    """Compile what an environment does in a turn, once for all policies: begin, look, advance."""

    def keys_of(key, episodes, step):
        return jax.vmap(lambda episode, t: jax.random.fold_in(jax.random.fold_in(key, episode), t))(episodes, step)

    def begin(key, count):
        episode = jnp.arange(count)
        return Playing(jax.vmap(env.initial)(keys_of(key, episode, 0 * episode)), episode, 0 * episode)

    def look(playing, key):
        act_keys, step_keys = jax.vmap(jax.random.split, out_axes=1)(keys_of(key, playing.episode, playing.age + 1))
        return jax.vmap(env.draw)(playing.states), act_keys, step_keys

    def advance(playing, actions, step_keys, key, limit):
        states, episode, age = playing
        step = jax.vmap(env.advance)(step_keys, states, actions)
        outcome = Played(step.terminated, step.reward, age + 1)
        ended = step.done & (episode < limit)
        episode = jnp.where(ended, episode.max() + jnp.cumsum(ended), episode)
        states = jax.vmap(functools.partial(auto_reset, env))(keys_of(key, episode, 0 * episode), step)
        return Playing(states, episode, jnp.where(step.done, 0, age + 1)), step.state, step.done, outcome

    return jax.jit(begin, static_argnums=1), jax.jit(look), jax.jit(advance)


def greedy_scores(policy: Policy, params: Any, envs: Envs, episodes: int, seed: int) -> dict[str, float]:
    """Measure the success of a policy in each mode.

    Args:
        policy: How to act.
        params: The parameters of the policy.
        envs: The environments by mode, such as "train" and "test".
        episodes: The number of episodes in each mode.
        seed: The random seed of the episodes.

    Returns:
        Means over episodes: `success_MODE`, `reward_MODE` (the reward of the last step) and `steps_MODE`.
    """
    scores = {}
    for mode, env in envs.items():
        played = play_episodes(policy, params, env, episodes, seed)
        scores |= {f"{name}_{mode}": float(values.mean()) for name, values in played._asdict().items()}
    return scores


@functools.cache
def random_policy(action_size: int) -> Policy:
    """Return the policy of uniform actions in [0, 1]^A; it has no parameters."""
    return Policy(lambda _, images, keys: jax.vmap(lambda key: jax.random.uniform(key, (action_size,)))(keys))


@functools.cache
def noise_free(env: Spriteworld) -> Spriteworld:
    """Return the same environment without motion noise."""
    return Spriteworld(dataclasses.replace(env.spec, motion_noise=0.0))


@functools.cache
def knowing(env: Spriteworld, proposals: int = 128) -> Policy:
    """Return an upper bound: a one-step search, with clicks near sprites, that knows state, task and dynamics."""
    still = noise_free(env)

    def best(state: EnvState, key: PRNGKeyArray) -> Float[Array, " A"]:
        pick_key, spread_key, motion_key = jax.random.split(key, 3)
        alive = jnp.where(state.sprites.alive, 0.0, -jnp.inf)
        sprite = jax.random.categorical(pick_key, alive, shape=(proposals,))
        spread = 0.1 * (jax.random.uniform(spread_key, (proposals, 2)) - 0.5)
        click = jnp.clip(state.sprites.position[sprite] + spread, 0.0, 1.0)
        motion = jax.random.uniform(motion_key, (proposals, env.action_size - 2))
        actions = jnp.concatenate([click, motion], axis=1)
        rewards = jax.vmap(lambda action: still.advance(key, state, action).reward)(actions)
        return actions[jnp.argmax(rewards)]

    return Policy(lambda _, states, keys: jax.vmap(best)(states, keys), sees_state=True)


def context(envs: Envs, episodes: int, seed: int) -> dict[str, dict[str, float]]:
    """Measure the policies to compare with.

    Args:
        envs: The environments by mode, such as "train" and "test".
        episodes: The number of episodes in each mode.
        seed: The random seed of the episodes.

    Returns:
        For "random", the random policy, and in Spriteworld for "bound", the upper bound (`knowing`): the mean success
        as `MODE`, and the mean reward of the last step as `reward_MODE`.
    """
    found: dict[str, dict[str, float]] = {}
    for mode, env in envs.items():
        bound = {"bound": knowing(env)} if isinstance(env, Spriteworld) else {}
        for name, policy in ({"random": random_policy(env.action_size)} | bound).items():
            played = play_episodes(policy, None, env, episodes, seed)
            scores = {mode: float(played.success.mean()), f"reward_{mode}": float(played.reward.mean())}
            found.setdefault(name, {}).update(scores)
    return found


def normalised_reward(scores: Mapping[str, Any], context: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Put the rewards of `greedy_scores` on a scale from the random policy (0) to the upper bound (1).

    Args:
        scores: The scores of a policy.
        context: The result of `context` for the same environments.

    Returns:
        `normalised_reward_MODE` of each mode in which the bound has more reward than the random policy.
    """
    low, high = context.get("random", {}), context.get("bound", {})
    names = [name for name in high if name.startswith("reward_") and high[name] > low[name]]
    return {f"normalised_{name}": (scores[name] - low[name]) / (high[name] - low[name]) for name in names}


def recent_success(solved: Sequence[bool]) -> Float[np.ndarray, " N"]:
    """Return the learning curve: the share of the last 30 episodes that succeeded.

    Args:
        solved: Whether each of N episodes succeeded.

    Returns:
        N + 1 shares, before the first episode and after each; missing episodes before the first count as failures.
    """
    sums = np.concatenate([np.zeros(WINDOW), np.cumsum([0, *solved])])
    return (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW


def window_won(success: Sequence[bool]) -> bool:
    """Return whether at least 27 of the last 30 episodes succeeded."""
    return len(success) >= WINDOW and sum(success[-WINDOW:]) >= ENOUGH
