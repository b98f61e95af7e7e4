"""What counts as a number, wherever one is taken: in specs, sprites, seeds and configurations."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import cobra_rl  # noqa: F401  registers the environments
from cobra_rl import spriteworld
from cobra_rl.bounds import Count, NonNegative, Seed, Share, conform
from cobra_rl.config import COBRA
from spriteworld import sprite as original

WHOLE = {
    "int": lambda: 3,
    "np.int64": lambda: np.int64(3),
    "np.uint8": lambda: np.uint8(3),
    "NumPy array": lambda: np.array(3),
    "JAX array": lambda: jnp.array(3),
}
FRACTIONS = {
    "float": lambda: 0.25,
    "np.float32": lambda: np.float32(0.25),
    "np.float64": lambda: np.float64(0.25),
    "NumPy array": lambda: np.array(0.25, np.float32),
    "JAX array": lambda: jnp.array(0.25),
}
NO_NUMBERS = {
    "bool": lambda: True,
    "np.bool_": lambda: np.True_,
    "array of a bool": lambda: np.array(True),
    "JAX array of a bool": lambda: jnp.array(True),
    "text": lambda: "3",
    "array of text": lambda: np.array("3"),
    "array with an axis": lambda: np.array([3]),
    "JAX array with an axis": lambda: jnp.array([3]),
    "complex": lambda: 3 + 0j,
    "array of a complex number": lambda: np.array(3 + 0j),
    "NaN": lambda: np.array(np.nan),
    "None": lambda: None,
}


@pytest.fixture(autouse=True)
def _as_users_have_it():
    """Users have no types checked at run time: what counts is what our own checks say."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE)
def test_whole_numbers(make):
    for kind in (Count, Seed, Share | Count):
        found = conform(kind, make(), "it")
        assert found == 3
        assert type(found) is int
    assert type(conform(NonNegative, make(), "it")) is float


@pytest.mark.parametrize("make", FRACTIONS.values(), ids=FRACTIONS)
def test_fractions(make):
    found = conform(Share, make(), "it")
    assert found == 0.25
    assert type(found) is float
    with pytest.raises(ValueError, match="whole number"):
        conform(Count, make(), "it")


@pytest.mark.parametrize("make", NO_NUMBERS.values(), ids=NO_NUMBERS)
@pytest.mark.parametrize("kind", [Count, NonNegative], ids=["whole", "fraction"])
def test_no_numbers(kind, make):
    with pytest.raises(ValueError, match=r"it is .* must be"):
        conform(kind, make(), "it")


def test_a_number_that_jax_only_traces_is_none():
    with pytest.raises(ValueError, match="must be a finite number"):
        jax.jit(lambda x: conform(Share, x, "it"))(0.5)


def test_true_and_false_of_numpy_and_jax():
    assert conform(bool, np.False_, "it") is False
    assert conform(bool, jnp.array(True), "it") is True


def test_sprites_of_the_real_package():
    """Its own factors hold scalars and arrays of NumPy."""
    theirs = original.Sprite(x=0.3, y=np.float32(0.4), shape="circle", c0=np.array(0.02882045, np.float32), c1=1, c2=1)
    state = spriteworld.state_from_sprites([{name: theirs.factors[name] for name in spriteworld.FACTORS}])
    np.testing.assert_allclose(state.sprites.position[0], [0.3, 0.4], rtol=1e-6)
    np.testing.assert_allclose(state.sprites.color[0], [0.02882045, 1.0, 1.0], rtol=1e-6)


def test_specs_and_configurations():
    square = spriteworld.SpriteDistribution(hue=(np.float32(0.25), jnp.array(0.5)), scale=np.array(0.125))
    assert square == spriteworld.SpriteDistribution(hue=(0.25, 0.5), scale=0.125)
    spec = spriteworld.EnvSpec("mine", ((square,),), spriteworld.NoReward(), max_steps=jnp.array(7))
    assert type(spec.max_steps) is int
    assert dataclasses.replace(COBRA["debug"], batch=np.array(4)) == COBRA["debug"]


@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE)
def test_seeds(make):
    with gymnasium.make("cobra_rl/Sorting-v0") as env:
        image, _ = env.reset(seed=make())
        expected, _ = env.reset(seed=3)
    np.testing.assert_array_equal(image, expected)
    envs = gymnasium.make_vec("cobra_rl/Sorting-v0", num_envs=2)
    images, _ = envs.reset(seed=make())
    np.testing.assert_array_equal(images[0], expected)
