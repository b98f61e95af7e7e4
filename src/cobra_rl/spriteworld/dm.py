"""dm_env: the same environments with specs."""

import dm_env
import jax
import numpy as np
from dm_env import specs

from cobra_rl.spriteworld.actions import ACTION_SIZE, check_action
from cobra_rl.spriteworld.env import IMAGE_SIZE, EnvState, make


class SpriteworldDm(dm_env.Environment):
    """One Spriteworld behind the dm_env interface.

    Success ends an episode with discount 0, the step limit with discount 1. As dm_env asks, the
    step after the last one of an episode resets.
    """

    def __init__(self, task: str, mode: str = "train", variant: str = "paper", seed: int = 0):
        self.core = make(task, mode, variant)
        self._key = jax.random.key(seed)
        self._state: EnvState | None = None

    def reset(self) -> dm_env.TimeStep:
        self._key, draw_key = jax.random.split(self._key)
        self._state, image = self.core.reset(draw_key)
        return dm_env.restart(np.array(image))

    def step(self, action) -> dm_env.TimeStep:
        if self._state is None:
            return self.reset()
        check_action(action)
        self._key, noise_key = jax.random.split(self._key)
        self._state, *rest = self.core.step(noise_key, self._state, action)
        image, reward, terminated, truncated, _ = jax.device_get(rest)
        if terminated or truncated:
            self._state = None
        last = dm_env.termination if terminated else dm_env.truncation if truncated else dm_env.transition
        return last(reward=float(reward), observation=np.array(image))

    def observation_spec(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return specs.BoundedArray((IMAGE_SIZE, IMAGE_SIZE, 3), np.uint8, 0, 255, name="image")

    def action_spec(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return specs.BoundedArray((ACTION_SIZE,), np.float32, 0.0, 1.0, name="click_and_push")
