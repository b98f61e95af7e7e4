"""What training needs of an environment: the protocol, time steps, automatic resets, equality, names, imports."""

import ast
import dataclasses
import inspect
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl import spriteworld
from cobra_rl.spriteworld import Environment, EnvSpec, Spriteworld, TimeStep, auto_reset


class Lamp(NamedTuple):
    brightness: jax.Array
    step: jax.Array


@dataclasses.dataclass(frozen=True)
class Dimmer:
    """A world without sprites: the action is the brightness of the next image; a bright one ends the episode."""

    image_size: int = 8
    max_steps: int = 3
    action_size: int = 1

    def initial(self, key):
        return Lamp(jax.random.uniform(key), jnp.int32(0))

    def advance(self, key, state, action):
        after = Lamp(action[0], state.step + 1)
        bright = after.brightness > 0.9
        return TimeStep(after, None, after.brightness, bright, (after.step >= self.max_steps) & ~bright, {})

    def draw(self, state):
        return jnp.full((self.image_size, self.image_size, 3), 255 * state.brightness).astype(jnp.uint8)


@pytest.mark.parametrize("env", [spriteworld.make("sorting"), Dimmer()], ids=["spriteworld", "another world"])
def test_environments_fulfil_the_protocol(env):
    assert isinstance(env, Environment)
    state = jax.jit(env.initial)(jax.random.key(0))
    step = jax.jit(env.advance)(jax.random.key(0), state, jnp.full(env.action_size, 0.5))
    assert step.image is None
    assert not step.done
    assert jax.tree.structure(step.state) == jax.tree.structure(state)
    image = jax.jit(env.draw)(step.state)
    assert image.shape == (env.image_size, env.image_size, 3)
    assert image.dtype == jnp.uint8
    assert hash(env) == hash(pickle.loads(pickle.dumps(env)))


def test_what_lacks_a_part_is_no_environment():
    class Blind:
        action_size, image_size, max_steps = 4, 64, 10
        initial, advance = Dimmer.initial, Dimmer.advance

    assert not isinstance(Blind(), Environment)


def test_a_step_is_an_advance_and_its_image():
    env = spriteworld.make("clustering")
    state, _ = env.reset(jax.random.key(0))
    action = jnp.array([*state.sprites.position[0], 0.9, 0.2])
    step = env.step(jax.random.key(0), state, action)
    after, image, reward, terminated, truncated, info = step
    assert step.state is after
    assert step.info is info
    advanced = jax.jit(env.advance)(jax.random.key(0), state, action)
    np.testing.assert_allclose(after.sprites.position, advanced.state.sprites.position, atol=1e-6)
    assert reward == pytest.approx(float(advanced.reward), abs=1e-4)
    assert step.done == (terminated | truncated)
    seen = spriteworld.render(after).astype(int)
    assert np.abs(np.asarray(image).astype(int) - np.asarray(seen)).max() <= 1


@pytest.mark.parametrize(("terminated", "truncated"), [(False, False), (True, False), (False, True)])
def test_done_is_either_end(terminated, truncated):
    step = TimeStep(None, None, jnp.float32(0), jnp.bool_(terminated), jnp.bool_(truncated), {})
    assert bool(step.done) == (terminated or truncated)


def test_auto_reset_begins_anew_where_an_episode_is_over():
    env = Dimmer()
    keys = jax.random.split(jax.random.key(0), 3)
    states = Lamp(jnp.array([0.1, 0.2, 0.3]), jnp.array([0, 0, 2]))
    steps = jax.vmap(env.advance)(keys, states, jnp.array([[0.5], [0.95], [0.5]]))
    np.testing.assert_array_equal(steps.done, [False, True, True])  # under way, terminated, truncated
    following = jax.vmap(auto_reset, in_axes=(None, 0, 0))(env, keys, steps)
    np.testing.assert_allclose(following.brightness, [0.5, *jax.vmap(jax.random.uniform)(keys)[1:]], rtol=1e-6)
    np.testing.assert_array_equal(following.step, [1, 0, 0])


def test_auto_reset_of_sprites():
    env = spriteworld.make("exploration")
    reset = jax.jit(auto_reset, static_argnums=0)
    state, _ = env.reset(jax.random.key(0))
    step = env.step(jax.random.key(0), state, np.full(4, 0.5))
    same = reset(env, jax.random.key(1), step)
    jax.tree.map(np.testing.assert_array_equal, same, step.state)
    fresh = reset(env, jax.random.key(1), step._replace(truncated=jnp.bool_(True)))
    expected, _ = env.reset(jax.random.key(1))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-6), fresh, expected)
    assert not np.array_equal(fresh.sprites.position, state.sprites.position)


TRACES = []


@dataclasses.dataclass(frozen=True)
class CountsTraces(spriteworld.NoReward):
    def __call__(self, sprites):
        TRACES.append(sprites)
        return super().__call__(sprites)


def test_equal_specs_make_equal_environments_that_are_compiled_once():
    spec = EnvSpec("counted", ((spriteworld.SpriteDistribution(),),), CountsTraces(), max_steps=5)
    one, other = Spriteworld(spec), Spriteworld(dataclasses.replace(spec))
    assert one is not other
    assert one == other
    assert hash(one) == hash(other)
    for changed in ({"image_size": 32}, {"max_steps": 6}, {"motion_noise": 0.1}):
        assert one != Spriteworld(dataclasses.replace(spec, **changed))
    assert one != "counted"
    TRACES.clear()
    state, _ = one.reset(jax.random.key(0))
    one.step(jax.random.key(0), state, np.full(4, 0.5))
    traced = len(TRACES)
    assert traced > 0
    other.step(jax.random.key(0), other.reset(jax.random.key(0))[0], np.full(4, 0.5))
    assert len(TRACES) == traced
    assert spriteworld.make("sorting") == Spriteworld(spriteworld.env_spec("sorting"))


def test_a_pickle_is_the_spec():
    env = spriteworld.make("sorting", "test")
    env.reset(jax.random.key(0))  # also after something was compiled
    stored = pickle.dumps(env)
    assert len(stored) < 5000
    again = pickle.loads(stored)
    assert again == env
    assert again.spec == env.spec
    np.testing.assert_array_equal(again.reset(jax.random.key(0))[1], env.reset(jax.random.key(0))[1])


@pytest.mark.parametrize("size", [8, 32, 100])
def test_the_spec_says_how_large_images_are(size):
    spec = dataclasses.replace(spriteworld.env_spec("exploration"), image_size=size)
    env = Spriteworld(spec)
    state, image = env.reset(jax.random.key(0))
    step = env.step(jax.random.key(0), state, np.full(4, 0.5))
    assert env.image_size == size
    assert image.shape == step.image.shape == (size, size, 3)
    assert spriteworld.make("exploration").image_size == 64


def test_names():
    assert list(spriteworld.SUITE) == list(spriteworld.TASKS)
    assert ["exploration", *spriteworld.REWARDED] == list(spriteworld.TASKS)
    assert spriteworld.SUITE["exploration"].steps == 0
    assert all(spriteworld.SUITE[task].steps > 0 for task in spriteworld.REWARDED)
    assert spriteworld.SUITE["goal_finding_new_shape"].title == "goal finding, new shape"
    assert len({entry.title for entry in spriteworld.SUITE.values()}) == len(spriteworld.TASKS) == 7
    for task in spriteworld.TASKS:
        for mode in spriteworld.MODES:
            for variant in spriteworld.VARIANTS:
                spec = spriteworld.env_spec(task, mode, variant)
                assert (spec.name, spec.mode, spec.variant) == (task, mode, variant)


def in_a_package_of_its_own(code: str) -> str:
    """Run code in a process where `cobra_rl` holds nothing but Spriteworld."""
    folder = str(Path(spriteworld.__file__).parents[1])
    alone = f"package = sys.modules['cobra_rl'] = types.ModuleType('cobra_rl'); package.__path__ = [{folder!r}]"
    lines = f"import sys, types\n{alone}\n{code}"
    run = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_names_and_registration_do_without_jax():
    loaded = in_a_package_of_its_own(
        "from cobra_rl.spriteworld.names import TASKS\n"
        "print('numpy' in sys.modules)\n"
        "from cobra_rl.spriteworld.registration import gym_id, register\n"
        "register()\n"
        "import gymnasium\n"
        "print(sum(gym_id(task) in gymnasium.registry for task in TASKS), 'jax' in sys.modules)"
    )
    assert loaded.split() == ["False", "7", "False"]


def test_spriteworld_needs_only_the_check_of_values_and_the_cache_of_the_rest():
    loaded = in_a_package_of_its_own(
        "from cobra_rl.spriteworld import *\n"
        "import cobra_rl.spriteworld.gym, cobra_rl.spriteworld.dm\n"
        "print(*(name for name in sys.modules if name.startswith('cobra_rl.')))"
    )
    assert {name.split(".")[1] for name in loaded.split()} == {"spriteworld", "bounds", "cache"}


def test_lazy_names_are_those_that_type_checkers_see():
    tree = ast.parse(inspect.getsource(spriteworld))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in checked.body for alias in node.names}
    assert sorted(seen) == sorted(spriteworld.__all__)
    assert seen == {name: f"cobra_rl.spriteworld.{module}" for name, module in spriteworld._MODULE_OF_NAME.items()}
    assert set(spriteworld.__all__) <= set(dir(spriteworld))
    for name in spriteworld.__all__:
        assert getattr(spriteworld, name) is not None
    assert not {module.name for module in pkgutil.iter_modules(spriteworld.__path__)} & set(spriteworld.__all__)
    with pytest.raises(AttributeError, match=r"'cobra_rl\.spriteworld' has no attribute 'mke'"):
        spriteworld.mke  # noqa: B018
