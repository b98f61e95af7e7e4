"""The contracts of agents: a `Policy` acts, a `Learner` learns a task (docs/architecture.md says more).

A learner learns S seeds side by side, each from a training of its own, and may play several environments per seed. Most
learners play one: they subclass `StepLearner` and say what they see, do and learn in one environment; the seed axis is
added by `jax.vmap`, in one compiled call for all seeds.
"""

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray, UInt8

from cobra_rl.backend import at_a_time
from cobra_rl.collect.transition import Transition
from cobra_rl.config import AgentConfig
from cobra_rl.models.transition import Sizes
from cobra_rl.spriteworld.base import Environment, TimeStep
from cobra_rl.storage.weights import Weights

Params = Any  # the parameters that a policy needs, as a pytree
Observations = Any  # uint8 images [B, H, W, 3]; batched states for a policy with `sees_state`
World = Any  # a WorldModel; None if the agent uses none
MakeActors = Callable[..., Any]  # (begin, play, world, seed) -> collect.actors.Actors
FRESH = 2  # seeds whose scenes are observed together on a CPU: seldom do more episodes end in the same step
MOST_STEPS = 64  # of a `StepLearner` in one compiled call


@dataclass(frozen=True)
class Policy:
    """How an agent acts. Two policies with the same function `act` are equal and share their compiled code."""

    act: Callable[[Params, Observations, Key[Array, " B"]], Float[Array, "B A"]]  # pure
    sees_state: bool = False  # `act` gets states instead of images: only for upper bounds


class Outcome(NamedTuple):
    """The result of a step, for S seeds with E environments each."""

    action: Float[Array | np.ndarray, "S E A"]
    reward: Float[Array | np.ndarray, "S E"]
    success: Bool[Array | np.ndarray, "S E"]
    done: Bool[Array | np.ndarray, "S E"]


class Steps(NamedTuple):
    """The result of T steps: that of each, with a leading axis of time."""

    outcome: Outcome  # [T, S, E]
    metrics: dict[str, Any]  # by name [T, S]


@dataclass(frozen=True)
class Learner(abc.ABC):
    """An agent that learns a task. It holds no arrays: what changes is its state, what does not is the world model."""

    config: AgentConfig
    most_seeds: ClassVar[int | None] = None  # seeds that it can learn side by side; None: any number

    @property
    def uses_world(self) -> bool:
        """Whether the learner uses a world model at all."""
        return True

    @property
    @abc.abstractmethod
    def policy(self) -> Policy:
        """How the agent acts in evaluation, without exploring."""

    @abc.abstractmethod
    def begin(self, env: Environment, world: World, seeds: Sequence[int]) -> Any:
        """Start fresh trainings.

        Args:
            env: The environment to learn in.
            world: The world model, which learning does not change.
            seeds: S random seeds.

        Returns:
            The state of agents and environments, a pytree.
        """

    @abc.abstractmethod
    def step(self, env: Environment, world: World, state: Any) -> tuple[Any, Outcome, dict[str, Any]]:
        """Act once in every environment, and learn from it; an episode that ends is followed by a fresh one.

        Args:
            env: The environment to learn in.
            world: The world model.
            state: The state, whose buffers may be donated: do not use it again.

        Returns:
            The next state, what the step led to, and metrics [S] by name.
        """

    def steps(self, env: Environment, world: World, state: Any, most: int, ends: Sequence[int]) -> tuple[Any, Steps]:
        """Take several steps in one call, each as `step` does; by default one.

        Args:
            env: The environment to learn in.
            world: The world model.
            state: The state, whose buffers may be donated: do not use it again.
            most: The largest number of steps to take; it does not change, bit for bit, what each of them leads to.
            ends: For each seed, return as soon as so many of its episodes have ended.

        Returns:
            The state after the last of these steps, and what they led to.
        """
        state, outcome, metrics = self.step(env, world, state)
        return state, jax.tree.map(lambda leaf: np.asarray(leaf)[None], Steps(outcome, metrics))

    @abc.abstractmethod
    def agent_of(self, state: Any, index: int) -> Any:
        """Return what one of the S seeds has learnt so far, as `params` and `weights` take it."""

    @abc.abstractmethod
    def weights(self, world: World, agent: Any) -> Weights:
        """Return what is saved of an agent; its `kind` is also the name of the folder."""

    @abc.abstractmethod
    def restore(self, world: World, tree: Any) -> Params:
        """Return the parameters of `policy`, from the tree of saved `weights`."""

    def params(self, world: World, agent: Any) -> Params:
        """Return the parameters of `policy`: what is restored when the agent is loaded again."""
        return self.restore(world, self.weights(world, agent).tree)

    @abc.abstractmethod
    def saved_like(self, world: World, sizes: Sizes) -> Weights:
        """Return weights with the shapes of those that are saved, for loading; it is only traced."""

    def is_saved_by(self, saved: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
        """Tell whether the configuration beside saved weights is the expected one, that of `saved_like`."""
        return saved == expected

    def with_actors(self, make: MakeActors, env: Environment, world: World, seed: int) -> "Learner":
        """Return the same learner with actors elsewhere, which `make` starts; most learners play by themselves."""
        raise ValueError(f"{self.config.name} plays by itself; only MPO learns from Ray actors.")

    def close(self) -> None:  # noqa: B027 most have nothing to release
        """Release what the learner holds beside its state, such as actors in other processes."""


class Playing(NamedTuple):
    """S agents, each in the middle of an episode."""

    env: Any  # states of the environments
    observation: Any  # what `observe` returned for the present scenes
    reward: Float[Array, " S"]  # rewards of the present scenes; 0 in a fresh one
    agent: Any  # states of the agents
    key: Key[Array, " S"]


@dataclass(frozen=True)
class StepLearner(Learner):
    """A learner that plays one environment. All its methods are pure, for one seed, and may be vectorised."""

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray, world: World, observation: Any) -> Any:
        """Return the state of a fresh agent, for observations like the one given."""

    @abc.abstractmethod
    def observe(self, world: World, image: UInt8[Array, "H W 3"]) -> Any:
        """Return what the agent sees in a picture: for COBRA, slots."""

    @abc.abstractmethod
    def explore(self, world: World, agent: Any, observation: Any, key: PRNGKeyArray) -> Float[Array, " A"]:
        """Choose an action while learning."""

    @abc.abstractmethod
    def update(self, world: World, agent: Any, transition: Transition, key: PRNGKeyArray) -> tuple[Any, dict]:
        """Remember a step and learn from it; return the new state, and metrics by name."""

    def begin(self, env: Environment, world: World, seeds: Sequence[int]) -> Playing:
        """Start S agents with fresh states in fresh episodes; see `Learner`."""
        keys, reset_keys, agent_keys = _split(jnp.stack([jax.random.key(seed) for seed in seeds]), 3)
        envs, images = _initial(env, reset_keys)
        observations = _observe(self, world, images)
        return Playing(
            env=envs,
            observation=observations,
            reward=jnp.zeros(len(keys)),
            agent=_init(self, agent_keys, world, observations),
            key=keys,
        )

    def step(self, env: Environment, world: World, state: Playing) -> tuple[Playing, Outcome, dict[str, Any]]:
        """Observe, explore and update once, for all seeds; see `Learner`.

        The compiled code is that of `observe`, `explore` and `update`, the same for all environments.
        """
        keys, act_keys, step_keys, reset_keys, learn_keys = _split(state.key, 5)
        action = _explore(self, world, state.agent, state.observation, act_keys)
        after = _advance(env, step_keys, state.env, action)
        observation = _observe(self, world, after.image)
        transition = _transition(state, action, observation, after)
        agents, metrics = _update((self, world, transition, learn_keys), state.agent)
        present = (after.state, observation, after.reward)
        for rows in _in_groups(np.flatnonzero(after.done), at_a_time(FRESH, len(keys))):
            envs, images = _initial(env, reset_keys[rows])
            present = _replaced(present, rows, (envs, _observe(self, world, images), jnp.zeros(len(rows))))
        return Playing(*present, agent=agents, key=keys), _outcome(action, after), metrics

    def steps(
        self, env: Environment, world: World, state: Playing, most: int, ends: Sequence[int]
    ) -> tuple[Playing, Steps]:
        """Observe, explore and update several times, for all seeds, in one compiled call; see `Learner`."""
        until = jnp.int32(min(most, MOST_STEPS)), jnp.asarray(ends, jnp.int32)
        state, count, room = _play((self, env, world, until, state._replace(agent=None)), state.agent)
        count, room = jax.device_get((count, room))
        return state, jax.tree.map(lambda leaf: leaf[:count], room)

    def agent_of(self, state: Playing, index: int) -> Any:
        """Return the state of one of the S agents."""
        return jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, state.agent)

    def saved_like(self, world: World, sizes: Sizes) -> Weights:
        """Return the weights of a fresh agent."""
        image = jnp.zeros((sizes.image, sizes.image, 3), jnp.uint8)
        return self.weights(world, self.init(jax.random.key(0), world, self.observe(world, image)))


def sizes_for(env: Environment, world: World) -> Sizes:
    """Return the sizes that an agent deals with: of the environment, and of the world model if there is one."""
    slots, latents = (0, 0) if world is None else (world.sizes.slots, world.sizes.latents)
    return Sizes(slots, latents, env.action_size, env.image_size)


@eqx.filter_jit
def _init(learner: StepLearner, keys: Key[Array, " S"], world: World, observations: Any) -> Any:
    return over_seeds(lambda key, observation: learner.init(key, world, observation), keys, observations)


@eqx.filter_jit
def _observe(learner: StepLearner, world: World, images: UInt8[Array, "S H W 3"]) -> Any:
    return over_seeds(lambda image: learner.observe(world, image), images)


@eqx.filter_jit
def _explore(
    learner: StepLearner, world: World, agents: Any, observations: Any, keys: Key[Array, " S"]
) -> Float[Array, "S A"]:
    return over_seeds(lambda *each: learner.explore(world, *each), agents, observations, keys)


@eqx.filter_jit(donate="all-except-first")  # the memory of the agents is used again
def _update(given: tuple[StepLearner, World, Transition, Key[Array, " S"]], agents: Any) -> tuple[Any, dict]:
    learner, world, transition, keys = given
    return over_seeds(lambda *each: learner.update(world, *each), agents, transition, keys)


@eqx.filter_jit(donate="all-except-first")
def _play(given: tuple[StepLearner, Environment, World, tuple[Array, Array], Playing], agents: Any) -> tuple:
    """Take steps until there are `most`, or until so many episodes of a seed have ended.

    The number of steps is a value: however a run is divided into calls, the same code takes each step, and gives the
    same bits. The state of a single agent has no axis of seeds in the loop: else each step would copy its memory.

    Returns:
        The state, the number of steps, and what they led to, with room for `MOST_STEPS`.
    """
    learner, env, world, (most, ends), state = given
    alone = len(ends) == 1
    state = state._replace(agent=_first(agents) if alone else agents)

    def take(state: Playing) -> tuple[Playing, Steps]:
        state = state._replace(agent=_as_one(state.agent)) if alone else state
        state, taken = _turn(learner, env, world, state)
        return (state._replace(agent=_first(state.agent)) if alone else state), taken

    arrays, others = eqx.partition(state, eqx.is_array)
    after, one = eqx.filter_eval_shape(take, state)
    if _form(after) == _form(state):
        room = jax.tree.map(lambda leaf: jnp.zeros((MOST_STEPS, *leaf.shape), leaf.dtype), one)

        def more(carry: tuple) -> Array:
            count, ended, _, _ = carry
            return (count < most) & jnp.all(ended < ends)

        def add(carry: tuple) -> tuple:
            count, ended, arrays, room = carry
            state, one = take(eqx.combine(arrays, others))
            room = jax.tree.map(lambda rows, row: rows.at[count].set(row), room, one)
            return count + 1, ended + one.outcome.done[:, 0], eqx.filter(state, eqx.is_array), room

        count, _, arrays, room = jax.lax.while_loop(more, add, (jnp.int32(0), jnp.zeros_like(ends), arrays, room))
        state = eqx.combine(arrays, others)
    else:  # the agent's state has other types after a step, as a count that begins as a whole number: no loop can
        state, one = take(state)
        count, room = jnp.int32(1), jax.tree.map(lambda leaf: leaf[None], one)
    return (state._replace(agent=_as_one(state.agent)) if alone else state), count, room


def _turn(learner: StepLearner, env: Environment, world: World, state: Playing) -> tuple[Playing, Steps]:
    """Take one step within compiled code."""
    keys, act_keys, step_keys, reset_keys, learn_keys = _split(state.key, 5)
    action = _explore(learner, world, state.agent, state.observation, act_keys)
    after = _advance(env, step_keys, state.env, action)
    fresh = jax.vmap(env.initial)(reset_keys)
    observation, first = _see_both(learner, env, world, (after.state, fresh), after.done)
    transition = _transition(state, action, observation, after)
    agents, metrics = _update((learner, world, transition, learn_keys), state.agent)
    over = (after.state, observation, after.reward)
    present = jax.tree.map(
        lambda old, new: jnp.where(after.done.reshape(-1, *[1] * (new.ndim - 1)), new, old),
        over,
        (fresh, first, jnp.zeros(len(keys))),
    )
    return Playing(*present, agent=agents, key=keys), Steps(_outcome(action, after), metrics)


def _see_both(
    learner: StepLearner, env: Environment, world: World, states: tuple[Any, Any], done: Bool[Array, " S"]
) -> tuple[Any, Any]:
    """Observe all scenes, and fresh ones where an episode ended: a few at a time, for in most steps there are none.

    Args:
        learner: The learner, whose `observe` is compiled once.
        env: The environment, which draws the scenes.
        world: The world model.
        states: The scenes [S] after the step, and fresh ones [S].
        done: Of which seeds the episode ended.

    Returns:
        What is seen of both; of fresh scenes that are not needed it is anything.
    """
    count = len(done)
    size = at_a_time(FRESH, count)
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *states)
    order = jnp.concatenate([jnp.arange(count), count + jnp.argsort(~done)])

    def see(rows: Array) -> Any:
        images = jax.vmap(env.draw)(jax.tree.map(lambda leaf: leaf[rows], both))
        return _observe(learner, world, images)

    def add(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        number, seen = carry
        rows = jax.lax.dynamic_slice_in_dim(order, number, size)
        return number + size, jax.tree.map(lambda old, new: old.at[rows].set(new), seen, see(rows))

    one = jax.eval_shape(see, order[:size])
    nothing = jax.tree.map(lambda leaf: jnp.zeros((2 * count, *leaf.shape[1:]), leaf.dtype), one)
    _, seen = jax.lax.while_loop(lambda carry: carry[0] < count + done.sum(), add, (jnp.int32(0), nothing))
    return jax.tree.map(lambda leaf: leaf[:count], seen), jax.tree.map(lambda leaf: leaf[count:], seen)


def _transition(state: Playing, action: Array, observation: Any, after: TimeStep) -> Transition:
    return Transition(
        state.observation,
        action,
        observation,
        reward=after.reward,
        reward_before=state.reward,
        terminated=after.terminated,
        truncated=after.truncated,
    )


def _outcome(action: Array, after: TimeStep) -> Outcome:
    return Outcome(*(value[:, None] for value in (action, after.reward, after.terminated, after.done)))


def _form(state: Playing) -> Any:
    """Return all of a state but the values of its arrays, to be compared."""
    leaves, form = jax.tree.flatten(state)
    return form, [(leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else leaf for leaf in leaves]


def _first(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, tree)


def _as_one(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[None] if eqx.is_array(leaf) else leaf, tree)


def over_seeds(function: Callable, *arguments: Any) -> Any:
    """Call a function for each of S seeds, the leading axis of all arrays in its arguments and in what it returns.

    A single seed is not vectorised: that would round otherwise.
    """
    if len(next(leaf for leaf in jax.tree.leaves(arguments) if eqx.is_array(leaf))) > 1:
        return eqx.filter_vmap(function)(*arguments)
    return _as_one(function(*_first(arguments)))


@functools.partial(jax.jit, static_argnums=1)
def _split(keys: Key[Array, " S"], count: int) -> list[Key[Array, " S"]]:
    return list(jax.vmap(lambda key: jax.random.split(key, count), out_axes=1)(keys))


@functools.partial(jax.jit, static_argnums=0)
def _initial(env: Environment, keys: Key[Array, " S"]) -> tuple[Any, UInt8[Array, "S H W 3"]]:
    states = jax.vmap(env.initial)(keys)
    return states, jax.vmap(env.draw)(states)


@functools.partial(jax.jit, static_argnums=0)
def _advance(env: Environment, keys: Key[Array, " S"], states: Any, actions: Float[Array, "S A"]) -> TimeStep:
    after = jax.vmap(env.advance)(keys, states, actions)
    return after._replace(image=jax.vmap(env.draw)(after.state))


def _in_groups(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """Divide rows into groups of one size, the last one filled up by repetition: a single shape is compiled."""
    if rows.size == 0:
        return []
    count = -(-rows.size // size)
    return np.split(np.resize(rows, count * size), count)


@jax.jit
def _replaced(present: Any, rows: Array, fresh: Any) -> Any:
    """Put fresh episodes into the rows of those that ended."""
    return jax.tree.map(lambda old, new: old.at[rows].set(new), present, fresh)
