"""dm_env: the same environments with specs."""

import jax
import numpy as np

try:
    import dm_env
    from dm_env import specs
except ModuleNotFoundError as missing:
    hint = "The interface of dm_env needs its package; in a clone, pip install -e '.[dm]' installs it."
    raise ModuleNotFoundError(hint) from missing

from cobra_rl.bounds import Seed, conform
from cobra_rl.spriteworld import EnvSpec, EnvState, Spriteworld, make
from cobra_rl.spriteworld.actions import check_action


class SpriteworldDm(dm_env.Environment):
    """One Spriteworld behind the dm_env interface.

    Success ends an episode with discount 0, the step limit with discount 1; the step after that resets, as dm_env asks.

    Args:
        task: A task of the suite, such as "sorting", or an `EnvSpec` of your own.
        mode: "train" or "test"; see `make`. It is not used with an `EnvSpec`.
        variant: "paper" or "released"; see `make`. It is not used with an `EnvSpec`.
        seed: The random seed of all episodes.

    Raises:
        ValueError: If an argument is unknown or out of range.
    """

    def __init__(self, task: str | EnvSpec, mode: str = "train", variant: str = "paper", *, seed: int = 0):
        self.core = Spriteworld(task) if isinstance(task, EnvSpec) else make(task, mode, variant)
        self._key = jax.random.key_data(jax.random.key(conform(Seed, seed, "seed")))  # raw: it can be pickled
        self._state: EnvState | None = None

    def reset(self) -> dm_env.TimeStep:
        self._state, image = self.core.reset(self._next_key())
        return dm_env.restart(np.array(image))

    def step(self, action) -> dm_env.TimeStep:
        if self._state is None:
            return self.reset()
        check_action(action)
        step = self.core.step(self._next_key(), self._state, action)
        self._state = None if step.done else step.state
        last = dm_env.termination if step.terminated else dm_env.truncation if step.truncated else dm_env.transition
        return last(reward=float(step.reward), observation=np.array(step.image))

    def _next_key(self) -> jax.Array:
        key, used = jax.random.split(jax.random.wrap_key_data(self._key))
        self._key = jax.random.key_data(key)
        return used

    def observation_spec(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        size = self.core.image_size
        return specs.BoundedArray((size, size, 3), np.uint8, 0, 255, name="image")

    def action_spec(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return specs.BoundedArray((self.core.action_size,), np.float32, 0.0, 1.0, name="click_and_push")
