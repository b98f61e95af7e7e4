"""Gymnasium: one environment, and a vector environment that steps a whole batch in one compiled call.

`import cobra_rl` registers `cobra_rl/Sorting-v0` and its six siblings; each takes `mode` and `variant`.
"""

import functools
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector.utils import batch_space

from cobra_rl.spriteworld.actions import ACTION_SIZE, check_action
from cobra_rl.spriteworld.env import IMAGE_SIZE, EnvState, Spriteworld, make, render
from cobra_rl.spriteworld.render import draw
from cobra_rl.spriteworld.suite import TASKS

RENDER_SIZE = 256
OBSERVATION_SPACE = gymnasium.spaces.Box(0, 255, (IMAGE_SIZE, IMAGE_SIZE, 3), np.uint8)
ACTION_SPACE = gymnasium.spaces.Box(0.0, 1.0, (ACTION_SIZE,), np.float32)


def gym_id(task: str) -> str:
    """goal_finding_new_shape -> cobra_rl/GoalFindingNewShape-v0."""
    return f"cobra_rl/{task.title().replace('_', '')}-v0"


def register() -> None:
    """Registers the suite with Gymnasium; doing it twice does no harm."""
    for task in TASKS:
        if gym_id(task) not in gymnasium.registry:
            gymnasium.register(
                gym_id(task),
                entry_point="cobra_rl.spriteworld.gym:SpriteworldEnv",
                vector_entry_point="cobra_rl.spriteworld.gym:SpriteworldVectorEnv",
                kwargs={"task": task},
            )


class _Shared:
    """What the single and the vector environment have in common."""

    metadata = {
        "render_modes": ["rgb_array"],
        "render_fps": 5,
        "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP,
    }

    def _set_up(self, task: str, mode: str, variant: str, render_mode: str | None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"Unknown render_mode {render_mode!r}; choose None or 'rgb_array'.")
        self.core = make(task, mode, variant)
        self.render_mode = render_mode
        self._state: EnvState | None = None

    def _require_state(self) -> EnvState:
        if self._state is None:
            raise gymnasium.error.ResetNeeded("Call reset() before step() or render().")
        return self._state


def _carry_reset(core: Spriteworld, key):
    key, draw_key = jax.random.split(key)
    return key, *core.reset(draw_key)


@functools.cache
def _single_calls(core: Spriteworld):
    """Compiled reset and step that carry the key along, shared by all single environments of a kind."""

    def step(key, state, action):
        key, noise_key = jax.random.split(key)
        return key, *core.step(noise_key, state, action)

    return jax.jit(functools.partial(_carry_reset, core)), jax.jit(step)


@functools.cache
def _batch_calls(core: Spriteworld):
    """The same for a batch; `done` environments are reset instead of stepped."""

    def step(key, state, done, action):
        key, sub_key = jax.random.split(key)
        stepped = core.advance(sub_key, state, action)
        fresh = (core.initial(sub_key), 0.0, False, False, {"success": False, "moved": -1})
        state, reward, terminated, truncated, info = jax.tree.map(
            lambda new, old: jnp.where(done, jnp.asarray(new, old.dtype), old), fresh, stepped
        )
        image = draw(state.sprites, IMAGE_SIZE, None, ())
        return key, state, image, reward, terminated, truncated, info

    return jax.jit(jax.vmap(functools.partial(_carry_reset, core))), jax.jit(jax.vmap(step))


class SpriteworldEnv(_Shared, gymnasium.Env):
    """One Spriteworld. Observation: uint8 [64, 64, 3]; action: float32 [4] in [0, 1].

    `info` has `success` and `moved`, the index of the pushed sprite or -1.
    """

    def __init__(self, task: str, mode: str = "train", variant: str = "paper", render_mode: str | None = None):
        self._set_up(task, mode, variant, render_mode)
        self.observation_space, self.action_space = OBSERVATION_SPACE, ACTION_SPACE
        self._key = None
        self._compiled_reset, self._compiled_step = _single_calls(self.core)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        if seed is not None or self._key is None:
            self._key = jax.random.key(_fresh_seed(self.np_random) if seed is None else seed)
        self._key, self._state, image = self._compiled_reset(self._key)
        return np.array(image), {"success": False, "moved": -1}

    def step(self, action):
        state = self._require_state()
        check_action(action)
        self._key, self._state, image, *rest = self._compiled_step(self._key, state, np.asarray(action, np.float32))
        reward, terminated, truncated, info = jax.device_get(rest)
        info = {"success": bool(info["success"]), "moved": int(info["moved"])}
        return np.array(image), float(reward), bool(terminated), bool(truncated), info

    def render(self) -> np.ndarray | None:
        if self.render_mode is None:
            gymnasium.logger.warn("render() was called without a render_mode; pass render_mode='rgb_array' to make().")
            return None
        return np.array(render(self._require_state(), RENDER_SIZE, goals=self.core.goals))


class SpriteworldVectorEnv(_Shared, gymnasium.vector.VectorEnv):
    """`num_envs` Spriteworlds stepped in one compiled call.

    An environment whose episode ended is reset by the next step, whose action and reward do not count
    for it (`AutoresetMode.NEXT_STEP`). Environment i seeded with s does what a single one seeded with
    s + i does. Observations are read-only views of fresh arrays.
    """

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        mode: str = "train",
        variant: str = "paper",
        render_mode: str | None = None,
    ):
        if num_envs < 1:
            raise ValueError(f"num_envs is {num_envs}; it must be at least 1.")
        self._set_up(task, mode, variant, render_mode)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = OBSERVATION_SPACE, ACTION_SPACE
        self.observation_space = batch_space(OBSERVATION_SPACE, num_envs)
        self.action_space = batch_space(ACTION_SPACE, num_envs)
        self._keys, self._done = None, np.zeros(num_envs, bool)
        self._compiled_reset, self._compiled_step = _batch_calls(self.core)

    def reset(self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None):
        if isinstance(seed, int):
            super().reset(seed=seed)
            seed = [seed + i for i in range(self.num_envs)]
        if seed is not None or self._keys is None:
            seeds = [None] * self.num_envs if seed is None else seed
            if len(seeds) != self.num_envs:
                raise ValueError(f"seed has {len(seeds)} entries for {self.num_envs} environments; pass one for each.")
            seeds = [_fresh_seed(self.np_random) if s is None else s for s in seeds]
            self._keys = jnp.stack([jax.random.key(s) for s in seeds])
        self._keys, self._state, images = self._compiled_reset(self._keys)
        self._done = np.zeros(self.num_envs, bool)
        return np.asarray(images), {}

    def step(self, actions):
        state = self._require_state()
        check_action(actions, (self.num_envs,))
        counted = ~self._done
        self._keys, self._state, images, *rest = self._compiled_step(
            self._keys, state, self._done, np.asarray(actions, np.float32)
        )
        reward, terminated, truncated, info = jax.device_get(rest)
        self._done = terminated | truncated
        infos = {key: value for name in info for key, value in ((name, info[name]), (f"_{name}", counted))}
        return np.asarray(images), reward.astype(np.float64), terminated, truncated, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        if self.render_mode is None:
            gymnasium.logger.warn("render() was called without a render_mode; pass render_mode='rgb_array'.")
            return None
        images = jax.vmap(lambda state: render(state, RENDER_SIZE, goals=self.core.goals))(self._require_state())
        return tuple(np.array(images))


def _fresh_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))
