"""Gymnasium: one environment, and a vector environment that steps a whole batch in one compiled call.

`import cobra_rl` registers `cobra_rl/Sorting-v0` and its siblings; the classes also take an `EnvSpec` of your own.
"""

import functools
import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jax._src.xla_bridge import backends_are_initialized  # JAX has no public way to ask this

from cobra_rl.bounds import Bounds, Seed, conform, shown
from cobra_rl.spriteworld import EnvSpec, EnvState, Sprites, Spriteworld, TimeStep, make, render
from cobra_rl.spriteworld.actions import check_action

RENDER_SIZE = 256
AutoReset = Literal["next-step", "same-step", "disabled", "NextStep", "SameStep", "Disabled"]
_AUTORESET = {name: mode for mode in AutoresetMode for name in (mode, mode.value, mode.name.lower().replace("_", "-"))}
_forks: list[bool] = []  # of this process and its ancestors: whether JAX had run in the process that was forked
os.register_at_fork(after_in_child=lambda: _forks.append(backends_are_initialized()))


class _Shared:
    """What the single and the vector environment have in common."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5, "autoreset_mode": AutoresetMode.NEXT_STEP}

    def _set_up(self, task: str | EnvSpec, mode: str, variant: str, *, render_mode: str | None) -> None:
        conform(Literal["rgb_array"] | None, render_mode, "render_mode")
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


# One environment. A key changes with each episode; within one, a step draws its noise from the key and its number. What
# a step costs is mostly the handing over of arrays and threads. So only what moves comes back from it, the rest in one
# vector, and the image is a call of its own. Keys are raw key data, which can be pickled.


def _assemble(moving, fixed) -> EnvState:
    position, step = moving
    return EnvState(Sprites(position=position, **fixed), step)


@jax.jit(static_argnums=0)
def _reset(core: Spriteworld, key_data):
    """Begin an episode: its key, what moves (positions and the number of the step), and what does not."""
    key, draw_key = jax.random.split(jax.random.wrap_key_data(key_data))
    state = core.initial(draw_key)
    fixed = dict(vars(state.sprites))
    return jax.random.key_data(key), (fixed.pop("position"), state.step), fixed


@jax.jit(static_argnums=0)
def _step(core: Spriteworld, key_data, moving, *, fixed, action):
    """Take a step: what moves, and a vector (reward, terminated, truncated, success, moved)."""
    state = _assemble(moving, fixed)
    key = jax.random.fold_in(jax.random.wrap_key_data(key_data), state.step)
    after, _, *ends, info = core.advance(key, state, action)
    summary = jnp.stack([jnp.asarray(value, jnp.float32) for value in (*ends, info["success"], info["moved"])])
    return (after.sprites.position, after.step), summary


@jax.jit(static_argnums=0)
def _draw(core: Spriteworld, moving, fixed):
    return core.draw(_assemble(moving, fixed))


@functools.cache
def _batch_calls(core: Spriteworld):
    """Compile for a batch: begin; begin again where asked for; step; step where an episode goes on, else begin."""

    def reset(key_data):
        key, draw_key = jax.random.split(jax.random.wrap_key_data(key_data))
        state = core.initial(draw_key)
        no = jnp.bool_(False)
        info = {"success": no, "moved": jnp.int32(-1)}
        begun = TimeStep(state, image=None, reward=jnp.float32(0.0), terminated=no, truncated=no, info=info)
        return jax.random.key_data(key), begun, core.draw(state)

    def restart(key_data, last: TimeStep, chosen):
        both = reset(key_data)[:2], (key_data, last)
        key_data, step = jax.tree.map(lambda new, old: jnp.where(chosen, new, old), *both)
        return key_data, step, core.draw(step.state)

    def advance(key_data, last: TimeStep, action):
        key = jax.random.fold_in(jax.random.wrap_key_data(key_data), last.state.step)
        step = core.advance(key, last.state, action)
        return key_data, step, core.draw(step.state)

    def step(key_data, last: TimeStep, action):
        return restart(key_data, advance(key_data, last, action)[1], last.done)

    return tuple(jax.jit(jax.vmap(function)) for function in (reset, restart, advance, step))


class SpriteworldEnv(_Shared, gymnasium.Env):
    """One Spriteworld: images uint8 [H, W, 3], actions float32 [4] in [0, 1], `info` as of `Spriteworld.step`.

    Args:
        task: A task of the suite, such as "sorting", or an `EnvSpec` of your own.
        mode: "train" or "test"; see `make`. It is not used with an `EnvSpec`.
        variant: "paper" or "released"; see `make`. It is not used with an `EnvSpec`.
        render_mode: "rgb_array" to make `render` return a picture of 256 x 256 pixels with the goals; else None.

    Raises:
        ValueError: If an argument is unknown.
    """

    def __init__(
        self, task: str | EnvSpec, mode: str = "train", variant: str = "paper", *, render_mode: str | None = None
    ):
        self._set_up(task, mode, variant, render_mode=render_mode)
        self._key = self._moving = self._fixed = None

    @property
    def state(self) -> EnvState:
        return _assemble(_begun(self._moving), self._fixed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        _refuse_fork()
        seed = conform(Seed | None, seed, "seed")
        super().reset(seed=seed)
        if seed is not None or self._key is None:
            self._key = _key_data(self.np_random.integers(2**31) if seed is None else seed)
        self._key, self._moving, self._fixed = _reset(self.core, self._key)
        return np.array(_draw(self.core, self._moving, self._fixed)), {"success": False, "moved": -1}

    def step(self, action):
        moving = _begun(self._moving)
        check_action(action)
        action = np.asarray(action, np.float32)
        self._moving, summary = _step(self.core, self._key, moving, fixed=self._fixed, action=action)
        image = _draw(self.core, self._moving, self._fixed)
        reward, terminated, truncated, success, moved = np.asarray(summary).tolist()
        info = {"success": bool(success), "moved": int(moved)}
        return np.array(image), reward, bool(terminated), bool(truncated), info


class SpriteworldVectorEnv(_Shared, gymnasium.vector.VectorEnv):
    """`num_envs` Spriteworlds stepped in one compiled call.

    With `autoreset_mode` "next-step", an environment whose episode ended is reset by the next step, whose action and
    reward do not count for it. With "same-step" it is reset at once, and infos have its `final_obs` and `final_info`.
    With "disabled" it waits for `reset(options={"reset_mask": mask})`, which all modes know: only the environments
    where the mask is true are reset. Seeded with s, environment i does what a single one seeded with s + i does.
    Observations are read-only.

    Args:
        task: A task of the suite, such as "sorting", or an `EnvSpec` of your own.
        num_envs: The number of environments.
        mode: "train" or "test"; see `make`. It is not used with an `EnvSpec`.
        variant: "paper" or "released"; see `make`. It is not used with an `EnvSpec`.
        render_mode: "rgb_array" to make `render` return one picture per environment; else None.
        autoreset_mode: One of the modes above, or a member of Gymnasium's `AutoresetMode`.

    Raises:
        ValueError: If an argument is unknown or out of range.
    """

    def __init__(
        self,
        task: str | EnvSpec,
        num_envs: int = 1,
        mode: str = "train",
        *,
        variant: str = "paper",
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ):
        self.num_envs = conform(Annotated[int, Bounds(1, 65_536)], num_envs, "num_envs")
        self.autoreset_mode = _AUTORESET[conform(AutoReset | AutoresetMode, autoreset_mode, "autoreset_mode")]
        self._set_up(task, mode, variant, render_mode=render_mode)
        self.metadata = self.metadata | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space = self.observation_space
        self.single_action_space = self.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._keys = None
        self._last: Any = None  # the last `TimeStep` of each, batched

    @property
    def state(self) -> EnvState:
        return _begun(self._last).state

    def reset(self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None):
        _refuse_fork()
        begin, restart, _, _ = _batch_calls(self.core)
        chosen = self._mask(options)
        self._seed(seed, chosen)
        if chosen.all():
            self._keys, self._last, images = begin(self._keys)
        else:
            self._keys, self._last, images = restart(self._keys, _begun(self._last), chosen)
        return np.asarray(images), _masked(jax.device_get(self._last.info), chosen)

    def step(self, actions):
        last = _begun(self._last)
        check_action(actions, (self.num_envs,))
        ended = np.asarray(last.terminated) | np.asarray(last.truncated)
        if self.autoreset_mode == AutoresetMode.DISABLED and ended.any():
            raise gymnasium.error.ResetNeeded(
                f"Environments {np.flatnonzero(ended).tolist()} have ended; "
                "call reset(options={'reset_mask': mask}) for them first."
            )
        _, restart, advance, advance_or_begin = _batch_calls(self.core)
        call = advance_or_begin if self.autoreset_mode == AutoresetMode.NEXT_STEP else advance
        self._keys, self._last, images = call(self._keys, last, np.asarray(actions, np.float32))
        reward, terminated, truncated, info = jax.device_get(self._last[2:])
        everywhere = np.ones(self.num_envs, bool)
        infos = _masked(info, everywhere)
        done = terminated | truncated
        if self.autoreset_mode == AutoresetMode.SAME_STEP and done.any():
            final = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(done):
                final[i] = np.asarray(images[i])
            self._keys, self._last, images = restart(self._keys, self._last, done)
            infos = _masked(jax.device_get(self._last.info), everywhere)
            infos |= {"final_obs": final, "_final_obs": done, "final_info": _masked(info, done), "_final_info": done}
        return np.asarray(images), reward.astype(np.float64), terminated, truncated, infos

    def _mask(self, options: dict[str, Any] | None) -> np.ndarray:
        """Return which environments a reset is for: `options["reset_mask"]`, by default all."""
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"reset_mask is {shown(mask)}; it must be a NumPy array of {self.num_envs} booleans, "
                "at least one of them true."
            )
        return mask

    def _seed(self, seed: Any, chosen: np.ndarray) -> None:
        """Give new keys to the chosen environments that are seeded, and to those that have none."""
        if seed is not None and not isinstance(seed, list | tuple) and np.ndim(seed) == 0:
            first = conform(Annotated[int, Bounds(0, 2**32 - self.num_envs)], seed, "seed")
            super().reset(seed=first)
            seed = range(first, first + self.num_envs)
        if seed is None and self._keys is not None:
            return
        seeds = [None] * self.num_envs if seed is None else [conform(Seed | None, entry, "seed") for entry in seed]
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed has {len(seeds)} entries for {self.num_envs} environments; pass one for each.")
        new = [_key_data(self.np_random.integers(2**31) if entry is None else entry) for entry in seeds]
        self._keys = jnp.stack(new) if self._keys is None else jnp.where(chosen[:, None], jnp.stack(new), self._keys)


def _masked(info: Mapping[str, np.ndarray], where: np.ndarray) -> dict[str, Any]:
    """Return infos as Gymnasium has them: 0 outside of the mask, and beside each a copy of the mask."""
    return {key: value for name in info for key, value in ((name, info[name] * where), (f"_{name}", where.copy()))}


def _key_data(seed: Any) -> jax.Array:
    return jax.random.key_data(jax.random.key(int(seed)))


def _refuse_fork() -> None:
    if any(_forks):
        raise RuntimeError(
            "JAX had run in the process that this one was forked from, and would wait here for ever. Start processes "
            "by spawn: make_vec(..., vectorization_mode='async', vector_kwargs={'context': 'spawn'}), below "
            "`if __name__ == '__main__':`; or leave vectorization_mode out: it steps all in one call, and is faster."
        )


def _begun(last: Any) -> Any:
    """Return what an episode under way has left behind; raise if there is none."""
    if last is None:
        raise gymnasium.error.ResetNeeded("Call reset() before step() or render().")
    return last
