"""Gymnasium and dm_env adapters."""

import dataclasses
import importlib
import subprocess
import sys
import unittest

import gymnasium
import jax
import numpy as np
import pytest
from dm_env import test_utils
from gymnasium.utils.env_checker import check_env

from cobra_rl import spriteworld
from cobra_rl.spriteworld import gym, gym_id
from cobra_rl.spriteworld.dm import SpriteworldDm
from cobra_rl.spriteworld.gym import SpriteworldEnv, SpriteworldVectorEnv

SMALL = dataclasses.replace(spriteworld.env_spec("goal_finding_new_shape"), name="small", image_size=24, max_steps=4)


def assert_same_image(one, other):
    """Up to rounding: other compiled code may sum in another order."""
    assert np.abs(np.asarray(one).astype(int) - np.asarray(other).astype(int)).max() <= 1


@pytest.mark.parametrize("task", spriteworld.TASKS)
def test_check_env(task):
    env = gymnasium.make(gym_id(task), mode="test", render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()


def test_ids():
    assert gym_id("goal_finding_new_shape") == "cobra_rl/GoalFindingNewShape-v0"
    env = gymnasium.make("cobra_rl/Sorting-v0", mode="test", variant="released")
    spec = env.unwrapped.core.spec
    assert (spec.name, spec.mode, spec.variant) == ("sorting", "test", "released")
    with pytest.raises(ValueError, match="Unknown mode 'both'; choose one of train, test"):
        gymnasium.make("cobra_rl/Sorting-v0", mode="both")


def test_render():
    env = gymnasium.make("cobra_rl/Sorting-v0", render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (256, 256, 3)


def test_a_step_is_the_cores():
    env = gymnasium.make("cobra_rl/Exploration-v0")
    image, info = env.reset(seed=3)
    assert info == {"success": False, "moved": -1}
    for step in range(1, 11):
        center = np.asarray(env.unwrapped.state.sprites.position)[0]
        image, reward, terminated, truncated, info = env.step(np.array([*center, 0.9, 0.1], np.float32))
        assert isinstance(reward, float)
        assert image.dtype == np.uint8
        assert not terminated
        assert truncated == (step == 10)
    assert_same_image(image, spriteworld.render(env.unwrapped.state))


def test_bad_actions_leave_the_environment_untouched():
    env = gymnasium.make("cobra_rl/Sorting-v0").unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.full(4, 0.5, np.float32))
    env.reset(seed=0)
    moving = env._moving
    for bad in (np.full(4, np.nan), np.full(4, 2.0), np.full(3, 0.5), np.full((1, 4), 0.5)):
        with pytest.raises(ValueError, match="An action"):
            env.step(bad)
    assert env._moving is moving
    vector = gymnasium.make_vec("cobra_rl/Sorting-v0", num_envs=2)
    vector.reset(seed=0)
    state = vector.unwrapped.state
    with pytest.raises(ValueError, match="An action"):
        vector.step(np.array([[0.5] * 4, [0.5, np.nan, 0.5, 0.5]]))
    assert vector.unwrapped.state is state


@pytest.mark.parametrize("task", ["sorting", "exploration"])
def test_vector_environment_i_is_the_single_one_with_seed_plus_i(task):
    """Through several episodes: automatic resets come one step later and draw from the same stream."""
    count, steps, seed = 3, 25, 11
    vector = gymnasium.make_vec(gym_id(task), num_envs=count)
    assert vector.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.NEXT_STEP
    assert type(vector.unwrapped).__name__ == "SpriteworldVectorEnv"
    singles = [gymnasium.make(gym_id(task)) for _ in range(count)]
    images, _ = vector.reset(seed=seed)
    for i, env in enumerate(singles):
        assert_same_image(images[i], env.reset(seed=seed + i)[0])
    done = np.zeros(count, bool)
    rng = np.random.default_rng(0)
    resets = 0
    for _ in range(steps):
        actions = rng.uniform(size=(count, 4)).astype(np.float32)
        actions[:, :2] = np.asarray(vector.unwrapped.state.sprites.position)[:, 0]
        images, rewards, terminated, truncated, infos = vector.step(actions)
        assert vector.observation_space.contains(images)
        assert infos["_moved"].all()  # those of a reset are infos too
        for i, env in enumerate(singles):
            if done[i]:
                assert_same_image(images[i], env.reset()[0])
                assert rewards[i] == 0.0
                resets += 1
            else:
                image, reward, *ends, info = env.step(actions[i])
                assert_same_image(images[i], image)
                assert rewards[i] == pytest.approx(reward, abs=1e-4)
                assert ends == [terminated[i], truncated[i]]
                assert infos["moved"][i] == info["moved"]
        done = terminated | truncated
    assert resets >= 3 or task == "sorting"


def test_vector_seeds():
    vector = gymnasium.make_vec("cobra_rl/Clustering-v0", num_envs=3, mode="test")
    first, _ = vector.reset(seed=[5, 5, 6])
    assert_same_image(first[0], first[1])
    assert not np.array_equal(first[0], first[2])
    unseeded, _ = vector.reset()
    assert not np.array_equal(first, unseeded)
    with pytest.raises(ValueError, match="2 entries for 3 environments"):
        vector.reset(seed=[1, 2])
    assert len(gymnasium.make_vec("cobra_rl/Clustering-v0", num_envs=2, render_mode="rgb_array").unwrapped.metadata)


def test_an_environment_of_ones_own_brings_its_sizes():
    single, vector, dm = SpriteworldEnv(SMALL), SpriteworldVectorEnv(SMALL, num_envs=2), SpriteworldDm(SMALL)
    check_env(single, skip_render_check=True)
    assert single.observation_space.shape == dm.observation_spec().shape == (24, 24, 3)
    assert vector.observation_space.shape == (2, 24, 24, 3)
    assert single.action_space.shape == dm.action_spec().shape == (4,)
    assert single.reset(seed=0)[0].shape == dm.reset().observation.shape == (24, 24, 3)
    images, _ = vector.reset(seed=0)
    for step in range(1, 6):
        images, _, _, truncated, _ = vector.step(np.zeros((2, 4), np.float32))
        assert images.shape == (2, 24, 24, 3)
        assert truncated.all() == (step == 4)
    np.testing.assert_array_equal(vector.state.step, [0, 0])  # the fifth step began the next episodes


class Reordered(spriteworld.Sprites):
    """The same sprites, built from another order of arguments."""

    def __init__(self, alive, color, scale, angle, shape, position):
        self.alive, self.color, self.scale = alive, color, scale
        self.angle, self.shape, self.position = angle, shape, position


def test_the_single_environment_does_not_depend_on_the_order_of_a_sprites_fields(monkeypatch):
    spec = dataclasses.replace(SMALL, name="reordered")  # not compiled before
    core = spriteworld.Spriteworld(spec)
    monkeypatch.setattr(gym, "Sprites", Reordered)
    key = jax.random.key(3)
    key_data, moving, fixed = gym._reset(core, jax.random.key_data(key))
    state, image = core.reset(jax.random.split(key)[1])
    for name in (field.name for field in dataclasses.fields(spriteworld.Sprites)):
        value = getattr(gym._assemble(moving, fixed).sprites, name)
        np.testing.assert_allclose(value, getattr(state.sprites, name), atol=1e-6, err_msg=name)
    assert_same_image(gym._draw(core, moving, fixed), image)
    action = np.array([*state.sprites.position[0], 0.9, 0.1], np.float32)
    (position, count), _ = gym._step(core, key_data, moving, fixed=fixed, action=action)
    noise_key = jax.random.fold_in(jax.random.wrap_key_data(key_data), 0)
    np.testing.assert_allclose(position, core.step(noise_key, state, action).state.sprites.position, atol=1e-6)
    assert count == 1


class TestDmEnv(test_utils.EnvironmentTestMixin, unittest.TestCase):
    """dm_env's own conformance tests."""

    def make_object_under_test(self):
        return SpriteworldDm("goal_finding_new_shape", seed=1)


def test_the_interfaces_are_reached_as_attributes():
    """Also in a process that has imported neither of them."""
    code = "from cobra_rl import spriteworld as s; print(s.dm.SpriteworldDm.__name__, s.gym.SpriteworldEnv.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["SpriteworldDm", "SpriteworldEnv"]


def test_without_its_package_the_interface_of_dm_env_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_env", None)
    monkeypatch.delitem(sys.modules, "cobra_rl.spriteworld.dm")
    with pytest.raises(ModuleNotFoundError, match=r"needs its package; in a clone, pip install -e '\.\[dm\]'"):
        importlib.import_module("cobra_rl.spriteworld.dm")


def test_dm_env_ends():
    env = SpriteworldDm("exploration", variant="released")
    step = env.reset()
    assert step.first()
    for _ in range(10):
        step = env.step(np.full(4, 0.5, np.float32))
    assert step.last()
    assert step.discount == 1.0  # time ran out: a truncation
    assert env.step(np.full(4, 0.5, np.float32)).first()
    with pytest.raises(ValueError, match="An action"):
        env.step(np.full(4, np.nan))
    assert env.observation_spec().shape == (64, 64, 3)
