"""`FarApart`: the least distance of two sprites that count."""

import pytest

from cobra_rl.spriteworld import FarApart, state_from_sprites

PLACES = {"square": (0.1, 0.1), "circle": (0.1, 0.5), "triangle": (0.9, 0.1)}


@pytest.fixture(scope="module")
def scene():
    """Return three sprites at these places."""
    factors = [{"x": x, "y": y, "shape": shape, "c0": 0.5} for shape, (x, y) in PLACES.items()]
    return state_from_sprites(factors, capacity=6).sprites


def test_the_nearest_two_decide(scene):
    reward, success = FarApart(distance=0.5, multiplier=10.0)(scene)
    assert float(reward) == pytest.approx(10.0 * (0.4 - 0.5), abs=1e-4)
    assert not success


def test_only_sprites_that_pass_the_filter_count(scene):
    reward, success = FarApart(shapes=("square", "triangle"), distance=0.5, multiplier=10.0)(scene)
    assert float(reward) == pytest.approx(3.0, abs=1e-4)
    assert success


def test_fewer_than_two_ask_for_nothing(scene):
    for task in (FarApart(shapes=("circle",)), FarApart(hue=(0.0, 0.1))):
        reward, success = task(scene)
        assert float(reward) == 0.0
        assert success
