"""Metrics of the task phase: success of greedy episodes, the 90 % criterion, and reference policies."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, UInt8

from cobra_rl.agents.contract import Policy
from cobra_rl.spriteworld import Environment, EnvState, Spriteworld, auto_reset

WINDOW = 30  # episodes
MIN_SUCCESSES = 27  # of the last WINDOW episodes: 90 %
REFERENCES = {"random": "random policy", "bound": "one-step search with the true state"}  # what to compare with
Envs = Mapping[str, Environment]  # by mode, such as {"train": ..., "test": ...}
PROPOSALS = 128  # of the upper bound
SIDE_BY_SIDE = 16  # episodes; more take longer per image, and wait longer for the last one


class Results(NamedTuple):
    """How episodes ended; within a turn, how they stand."""

    success: Bool[np.ndarray | Array, " E"]
    reward: Float[np.ndarray | Array, " E"]  # of the last step
    steps: Int[np.ndarray | Array, " E"]


class Episode(NamedTuple):
    """One episode: its states, one more than its actions, and how it ended."""

    states: list[Any]
    actions: list[Float[np.ndarray, " A"]]
    success: bool | None  # None while it is under way


class RunningEpisodes(NamedTuple):
    """Episodes under way."""

    states: Any  # of the environments, with a leading axis E
    episode: Int[Array, " E"]  # its number, which decides its random keys
    age: Int[Array, " E"]  # steps taken since it began


class Turn(NamedTuple):
    """One step in all episodes under way."""

    before: RunningEpisodes
    actions: Float[Array, "E A"]
    after: Any  # states of the environments, the last ones of episodes included
    done: Bool[Array, " E"]
    outcome: Results


def play_episodes(
    policy: Policy, params: Any, env: Environment, *, episodes: int, seed: int, most_lost: int | float = math.inf
) -> Results:
    """Play episodes, each to its end; what happens in one depends on `seed`, and not on how many are played.

    Args:
        policy: How to act.
        params: The parameters of the policy.
        env: The environment.
        episodes: E, the number of episodes.
        seed: The random seed of scenes, noise and policy.
        most_lost: Stop as soon as more episodes than this have failed; by default all are played.

    Returns:
        For each episode, or for those that ended if it stopped before, whether it succeeded, the reward of its last
        step, and its number of steps.
    """
    results = Results(np.zeros(episodes, bool), np.zeros(episodes), np.zeros(episodes, int))
    over = np.zeros(episodes, bool)
    turns = _turns(policy, params, env, seed=seed, limit=episodes)
    while not over.all() and np.sum(over & ~results.success) <= most_lost:
        turn = next(turns)
        number = np.asarray(turn.before.episode)
        ended = np.asarray(turn.done) & (number < episodes)
        for column, values in zip(results, turn.outcome, strict=True):
            column[number[ended]] = np.asarray(values)[ended]
        over[number[ended]] = True
    return Results(*(column[over] for column in results))


def episodes(
    policy: Policy, params: Any, env: Environment, *, seed: int, together: int = SIDE_BY_SIDE
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
    for turn in map(jax.device_get, _turns(policy, params, env, seed=seed, together=together)):
        for row, number in enumerate(turn.before.episode):
            state, after = (jax.tree.map(lambda leaf, row=row: leaf[row], t) for t in (turn.before.states, turn.after))
            states, actions, _ = under_way.get(number, Episode([state], [], None))
            success = bool(turn.outcome.success[row]) if turn.done[row] else None
            under_way[number] = Episode([*states, after], [*actions, turn.actions[row]], success)
        while following in under_way and under_way[following].success is not None:
            states, actions, success = under_way.pop(following)
            yield Episode([jax.tree.map(jnp.asarray, state) for state in states], actions, success)
            following += 1


def visited_states(policy: Policy, params: Any, env: Environment, *, scenes: int, seed: int) -> Any:
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
    every_fourth = itertools.islice(_turns(policy, params, env, seed=seed), 0, None, 4)
    kept = [turn.before.states for turn in itertools.islice(every_fourth, math.ceil(scenes / SIDE_BY_SIDE))]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[:scenes], *kept)


def _turns(
    policy: Policy, params: Any, env: Environment, *, seed: int, limit: int = 2**31 - 1, together: int = SIDE_BY_SIDE
) -> Iterator[Turn]:
    """Step up to `together` episodes in parallel; a finished one is replaced until `limit` have begun."""
    act = eqx.filter_jit(policy.act)  # compiled once for all tasks; the environment's part, once for all policies
    key = jax.random.key(seed)
    number = jnp.int32(limit)
    running = _begin_episodes(env, key, min(limit, together))
    while True:
        images, act_keys, step_keys = _observe_episodes(env, running, key)
        actions = act(params, running.states if policy.sees_state else images, act_keys)
        following, after, done, outcome = _step_episodes(
            env, running, actions, step_keys=step_keys, key=key, limit=number
        )
        yield Turn(running, actions, after, done, outcome)
        running = following


def _keys(key: PRNGKeyArray, episode: Int[Array, " E"], step: Int[Array, " E"]) -> Key[Array, " E"]:
    """Return the random keys of a step of each episode, which depend on nothing but both numbers."""
    return jax.vmap(lambda number, t: jax.random.fold_in(jax.random.fold_in(key, number), t))(episode, step)


@jax.jit(static_argnums=(0, 2))
def _begin_episodes(env: Environment, key: PRNGKeyArray, count: int) -> RunningEpisodes:
    episode = jnp.arange(count)
    age = 0 * episode
    return RunningEpisodes(jax.vmap(env.initial)(_keys(key, episode, age)), episode, age)


@jax.jit(static_argnums=0)
def _observe_episodes(
    env: Environment, running: RunningEpisodes, key: PRNGKeyArray
) -> tuple[UInt8[Array, "E H W 3"], Key[Array, " E"], Key[Array, " E"]]:
    """Return the images, and the random keys to act and to step."""
    act_keys, step_keys = jax.vmap(jax.random.split, out_axes=1)(_keys(key, running.episode, running.age + 1))
    return jax.vmap(env.draw)(running.states), act_keys, step_keys


@jax.jit(static_argnums=0)
def _step_episodes(
    env: Environment,
    running: RunningEpisodes,
    actions: Float[Array, "E A"],
    *,
    step_keys: Key[Array, " E"],
    key: PRNGKeyArray,
    limit: Int[Array, ""],
) -> tuple[RunningEpisodes, Any, Bool[Array, " E"], Results]:
    """Take a step: the episodes that go on or begin, the states after it, which episodes are over, and how."""
    states, episode, age = running
    step = jax.vmap(env.advance)(step_keys, states, actions)
    ended = step.done & (episode < limit)
    episode = jnp.where(ended, episode.max() + jnp.cumsum(ended), episode)
    states = jax.vmap(functools.partial(auto_reset, env))(_keys(key, episode, 0 * episode), step)
    outcome = Results(step.terminated, step.reward, age + 1)
    return RunningEpisodes(states, episode, (age + 1) * ~step.done), step.state, step.done, outcome


def greedy_scores(policy: Policy, params: Any, envs: Envs, *, episodes: int, seed: int) -> dict[str, float]:
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
        results = play_episodes(policy, params, env, episodes=episodes, seed=seed)
        scores |= {f"{name}_{mode}": float(values.mean()) for name, values in results._asdict().items()}
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
def true_state_search(env: Spriteworld) -> Policy:
    """Return an upper bound: a search among 128 clicks near sprites that knows state, task and dynamics."""
    still = noise_free(env)

    def best(state: EnvState, key: PRNGKeyArray) -> Float[Array, " A"]:
        pick_key, spread_key, motion_key = jax.random.split(key, 3)
        alive = jnp.where(state.sprites.alive, 0.0, -jnp.inf)
        sprite = jax.random.categorical(pick_key, alive, shape=(PROPOSALS,))
        spread = 0.1 * (jax.random.uniform(spread_key, (PROPOSALS, 2)) - 0.5)
        click = jnp.clip(state.sprites.position[sprite] + spread, 0.0, 1.0)
        motion = jax.random.uniform(motion_key, (PROPOSALS, env.action_size - 2))
        actions = jnp.concatenate([click, motion], axis=1)
        rewards = jax.vmap(lambda action: still.advance(key, state, action).reward)(actions)
        return actions[jnp.argmax(rewards)]

    return Policy(lambda _, states, keys: jax.vmap(best)(states, keys), sees_state=True)


def reference_scores(envs: Envs, episodes: int, seed: int) -> dict[str, dict[str, float]]:
    """Measure the policies to compare with.

    Args:
        envs: The environments by mode, such as "train" and "test".
        episodes: The number of episodes in each mode.
        seed: The random seed of the episodes.

    Returns:
        For "random", the random policy, and in Spriteworld for "bound", the upper bound (`true_state_search`): the mean
        success as `MODE`, and the mean reward of the last step as `reward_MODE`.
    """
    references: dict[str, dict[str, float]] = {}
    for mode, env in envs.items():
        policies = {"random": random_policy(env.action_size)}
        if isinstance(env, Spriteworld):
            policies["bound"] = true_state_search(env)
        for name, policy in policies.items():
            results = play_episodes(policy, None, env, episodes=episodes, seed=seed)
            scores = {mode: float(results.success.mean()), f"reward_{mode}": float(results.reward.mean())}
            references.setdefault(name, {}).update(scores)
    return references


def normalised_reward(scores: Mapping[str, Any], references: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Put the rewards of `greedy_scores` on a scale from the random policy (0) to the upper bound (1).

    Args:
        scores: The scores of a policy.
        references: The result of `reference_scores` for the same environments.

    Returns:
        `normalised_reward_MODE` of each mode in which the bound has more reward than the random policy.
    """
    low = references.get("random", {})
    high = references.get("bound", {})
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


def reaches_criterion(success: Sequence[bool]) -> bool:
    """Return whether at least 27 of the last 30 episodes succeeded, the paper's criterion for a solved task."""
    return len(success) >= WINDOW and sum(success[-WINDOW:]) >= MIN_SUCCESSES
