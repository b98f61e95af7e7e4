"""Gymnasium: one environment, and a vector environment that steps a whole batch in one compiled call.

`import cobra_rl` registers `cobra_rl/Sorting-v0` and its siblings; the classes also take an `EnvSpec` of your own.
"""

import functools
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from cobra_rl.spriteworld.actions import check_action
from cobra_rl.spriteworld.base import TimeStep, auto_reset
from cobra_rl.spriteworld.env import EnvState, Spriteworld, make, render
from cobra_rl.spriteworld.sprites import Sprites
from cobra_rl.spriteworld.suite import EnvSpec

RENDER_SIZE = 256


class _Shared:
    """What the single and the vector environment have in common."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5, "autoreset_mode": AutoresetMode.NEXT_STEP}

    def _set_up(self, task: str | EnvSpec, mode: str, variant: str, render_mode: str | None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"Unknown render_mode {render_mode!r}; choose None or 'rgb_array'.")
        self.core = Spriteworld(task) if isinstance(task, EnvSpec) else make(task, mode, variant)
        self.render_mode = render_mode
        size = self.core.image_size
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = gymnasium.spaces.Box(0.0, 1.0, (self.core.action_size,), np.float32)

    @property
    def state(self) -> EnvState: ...  # the present state of the functional core; of a vector environment, batched

    def render(self) -> Any:
        if self.render_mode is None:
            gymnasium.logger.warn("render() was called without a render_mode; pass render_mode='rgb_array'.")
            return None
        draw = functools.partial(render, size=RENDER_SIZE, goals=self.core.goals)
        return tuple(np.array(jax.vmap(draw)(self.state))) if self.state.step.ndim else np.array(draw(self.state))


@functools.cache
def _single_calls(core: Spriteworld):
    """Compile reset, step and draw once for all single environments of a kind.

    A key changes with each episode; within one, a step draws its noise from the key and its number. What a step costs
    is mostly the handing over of arrays and threads. So only what moves comes back from it, the rest in one vector
    (reward, terminated, truncated, success, moved), and the image is a call of its own.
    """

    def assemble(moving, fixed) -> EnvState:
        position, step = moving
        return EnvState(Sprites(position=position, **fixed), step)

    def reset(key_data):
        key, draw_key = jax.random.split(jax.random.wrap_key_data(key_data))
        state = core.initial(draw_key)
        fixed = dict(vars(state.sprites))
        return jax.random.key_data(key), (fixed.pop("position"), state.step), fixed

    def step(key_data, moving, fixed, action):
        state = assemble(moving, fixed)
        key = jax.random.fold_in(jax.random.wrap_key_data(key_data), state.step)
        after, _, *ends, info = core.advance(key, state, action)
        summary = jnp.stack([jnp.asarray(value, jnp.float32) for value in (*ends, info["success"], info["moved"])])
        return (after.sprites.position, after.step), summary

    return jax.jit(reset), jax.jit(step), jax.jit(lambda *parts: core.draw(assemble(*parts))), assemble


@functools.cache
def _batch_calls(core: Spriteworld):
    """Compile reset and step of a batch; where the last step ended an episode, the next begins instead of a step."""

    def first(state: EnvState) -> TimeStep:
        no = jnp.bool_(False)
        return TimeStep(state, None, jnp.float32(0.0), no, no, {"success": no, "moved": jnp.int32(-1)})

    def reset(key):
        key, draw_key = jax.random.split(key)
        state = core.initial(draw_key)
        return key, first(state), core.draw(state)

    def step(key, last: TimeStep, action):
        next_key, draw_key = jax.random.split(key)
        state = auto_reset(core, draw_key, last)
        stepped = core.advance(jax.random.fold_in(key, state.step), state, action)
        both = (next_key, first(state)), (key, stepped)
        key, step = jax.tree.map(lambda new, old: jnp.where(last.done, new, old), *both)
        return key, step, core.draw(step.state)

    return jax.jit(jax.vmap(reset)), jax.jit(jax.vmap(step))


class SpriteworldEnv(_Shared, gymnasium.Env):
    """One Spriteworld: images uint8 [H, W, 3], actions float32 [4] in [0, 1], `info` as of `Spriteworld.step`."""

    def __init__(
        self, task: str | EnvSpec, mode: str = "train", variant: str = "paper", render_mode: str | None = None
    ):
        self._set_up(task, mode, variant, render_mode)
        self._compiled_reset, self._compiled_step, self._compiled_draw, self._assemble = _single_calls(self.core)
        self._key = self._moving = self._fixed = None

    @property
    def state(self) -> EnvState:
        return self._assemble(_begun(self._moving), self._fixed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        if seed is not None or self._key is None:
            self._key = jax.random.key_data(
                jax.random.key(int(self.np_random.integers(2**31)) if seed is None else seed)
            )
        self._key, self._moving, self._fixed = self._compiled_reset(self._key)
        return np.array(self._compiled_draw(self._moving, self._fixed)), {"success": False, "moved": -1}

    def step(self, action):
        moving = _begun(self._moving)
        check_action(action)
        self._moving, summary = self._compiled_step(self._key, moving, self._fixed, np.asarray(action, np.float32))
        image = self._compiled_draw(self._moving, self._fixed)
        reward, terminated, truncated, success, moved = np.asarray(summary).tolist()
        info = {"success": bool(success), "moved": int(moved)}
        return np.array(image), reward, bool(terminated), bool(truncated), info


class SpriteworldVectorEnv(_Shared, gymnasium.vector.VectorEnv):
    """`num_envs` Spriteworlds stepped in one compiled call.

    An environment whose episode ended is reset by the next step, whose action and reward do not count for it. Seeded
    with s, environment i does what a single one seeded with s + i does. Observations are read-only.
    """

    def __init__(
        self,
        task: str | EnvSpec,
        num_envs: int = 1,
        mode: str = "train",
        variant: str = "paper",
        render_mode: str | None = None,
    ):
        if num_envs < 1:
            raise ValueError(f"num_envs is {num_envs}; it must be at least 1.")
        self._set_up(task, mode, variant, render_mode)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = self.observation_space, self.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._keys = None
        self._last: Any = None  # the last `TimeStep` of each, batched
        self._compiled_reset, self._compiled_step = _batch_calls(self.core)

    @property
    def state(self) -> EnvState:
        return _begun(self._last).state

    def reset(self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None):
        if isinstance(seed, int):
            super().reset(seed=seed)
            seed = list(range(seed, seed + self.num_envs))
        if seed is not None or self._keys is None:
            seeds = [None] * self.num_envs if seed is None else seed
            if len(seeds) != self.num_envs:
                raise ValueError(f"seed has {len(seeds)} entries for {self.num_envs} environments; pass one for each.")
            seeds = [int(self.np_random.integers(2**31)) if s is None else s for s in seeds]
            self._keys = jnp.stack([jax.random.key(s) for s in seeds])
        self._keys, self._last, images = self._compiled_reset(self._keys)
        return np.asarray(images), {}

    def step(self, actions):
        last = _begun(self._last)
        check_action(actions, (self.num_envs,))
        counted = ~(np.asarray(last.terminated) | np.asarray(last.truncated))  # a reset is no step
        self._keys, self._last, images = self._compiled_step(self._keys, last, np.asarray(actions, np.float32))
        reward, terminated, truncated, info = jax.device_get(self._last[2:])
        infos = {key: value for name in info for key, value in ((name, info[name]), (f"_{name}", counted))}
        return np.asarray(images), reward.astype(np.float64), terminated, truncated, infos


def _begun(last: Any) -> Any:
    if last is None:
        raise gymnasium.error.ResetNeeded("Call reset() before step() or render().")
    return last
