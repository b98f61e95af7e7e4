"""Where episodes begin: boxes of positions, several sizes, and distributions that make no sense."""

import dataclasses
import math

import jax
import numpy as np
import pytest
import scipy

from cobra_rl import spriteworld
from cobra_rl.spriteworld import EnvSpec, NoReward, SpriteDistribution, Spriteworld

HERE, THERE = ((0.3, 0.3), (0.6, 0.6)), ((0.8, 0.8), (0.2, 0.2))  # boxes of no area: points
LEFT, RIGHT = ((0.0, 0.2), (0.0, 1.0)), ((0.7, 1.0), (0.0, 1.0))


def sprites(*scene: SpriteDistribution, count: int = 2000) -> spriteworld.Sprites:
    """The sprites of many episodes, in the order of the scene."""
    env = Spriteworld(EnvSpec("own", (scene,), NoReward(), max_steps=5, shuffle=False))
    states = jax.jit(jax.vmap(env.initial))(jax.random.split(jax.random.key(0), count))
    return jax.tree.map(np.asarray, states.sprites)


def test_a_sprite_at_a_point_stays_there_beside_one_with_more_boxes():
    point, anywhere = SpriteDistribution(boxes=(HERE,)), SpriteDistribution(boxes=(LEFT, RIGHT))
    position = sprites(point, anywhere).position
    np.testing.assert_allclose(position[:, 0], np.broadcast_to((0.3, 0.6), (2000, 2)), atol=1e-6)
    x = position[:, 1, 0]
    assert np.all((x <= 0.2) | (x >= 0.7))
    # by area, 0.3 of 0.5; the spread of such a share of 2000 is 0.011
    assert np.mean(x >= 0.7) == pytest.approx(0.6, abs=0.04)


def test_points_are_equally_probable():
    points, three = SpriteDistribution(boxes=(HERE, THERE)), SpriteDistribution(boxes=(LEFT, HERE, RIGHT))
    position = sprites(points, three).position[:, 0]
    here = np.all(np.abs(position - (0.3, 0.6)) < 1e-6, axis=1)
    there = np.all(np.abs(position - (0.8, 0.2)) < 1e-6, axis=1)
    assert np.all(here | there)
    assert np.mean(here) == pytest.approx(0.5, abs=0.04)  # the spread of such a share of 2000 is 0.011


def test_a_point_beside_an_area_has_no_probability():
    x = sprites(SpriteDistribution(boxes=(HERE, RIGHT, THERE))).position[:, 0, 0]
    assert x.min() >= 0.7
    assert scipy.stats.kstest((x - 0.7) / 0.3, "uniform").pvalue > 1e-4


def test_several_sizes():
    varied, fixed = SpriteDistribution(scale=(0.1, 0.3)), SpriteDistribution(scale=0.2)
    drawn = sprites(varied, fixed)
    assert scipy.stats.kstest((drawn.scale[:, 0] - 0.1) / 0.2, "uniform").pvalue > 1e-4
    np.testing.assert_allclose(drawn.scale[:, 1], 0.2, rtol=1e-6)
    for factor in (drawn.position[:, 0, 0], drawn.position[:, 0, 1], drawn.color[:, 0, 0], drawn.color[:, 0, 1]):
        # independent of the other factors; the spread of the correlation of 2000 pairs is 0.022
        assert abs(np.corrcoef(drawn.scale[:, 0], factor)[0, 1]) < 0.09
    alike = sprites(dataclasses.replace(varied, scale=0.13), fixed)  # the other factors are drawn as without a range
    for name in ("position", "shape", "angle", "color"):
        np.testing.assert_allclose(getattr(drawn, name), getattr(alike, name), atol=1e-6)


def test_sizes_are_seen():
    drawn = SpriteDistribution(shapes=("circle",), scale=(0.1, 0.5), boxes=(((0.5, 0.5), (0.5, 0.5)),))
    env = Spriteworld(EnvSpec("own", ((drawn,),), NoReward(), max_steps=5))
    states, images = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 20))
    share = np.mean(np.asarray(images).max(-1) > 127, axis=(1, 2))
    np.testing.assert_allclose(share, states.sprites.scale[:, 0] ** 2, atol=0.02)  # pixels along the outline


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"scale": 0.0}, "scale of SpriteDistribution is 0.0; it must be a finite number above 0.0 and at most 1.0"),
        ({"scale": 1.5}, "scale of SpriteDistribution is 1.5"),
        ({"scale": math.nan}, "scale of SpriteDistribution is nan"),
        ({"scale": (0.3, 0.1)}, "range of scale"),
        ({"scale": (0.0, 0.1)}, "scale of SpriteDistribution"),
        (
            {"angle": (0.0, math.inf)},
            r"angle of SpriteDistribution is \(0.0, inf\); .* \(a finite number",
        ),
        ({"angle": (math.nan, 0.0)}, "angle of SpriteDistribution"),
        ({"angle": (90.0, 0.0)}, "range of angle is .*low end must not be above"),
        ({"boxes": ()}, "boxes of SpriteDistribution is .*a list of length from 1 to 1,000"),
        ({"boxes": (HERE, ((0.0, 1.0), (0.5, 1.5)))}, "boxes of SpriteDistribution"),
        ({"hue": (math.nan, 1.0)}, "hue of SpriteDistribution"),
    ],
)
def test_bad_distributions_are_refused(factors, message):
    with pytest.raises(ValueError, match=message) as error:
        SpriteDistribution(**factors)
    assert "\n" not in str(error.value)


SCENES = ((SpriteDistribution(),),)


@dataclasses.dataclass(frozen=True)
class Listed(NoReward):
    wanted: list = dataclasses.field(default_factory=list)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenes": ()}, "scenes of EnvSpec is .*a list of length from 1 to"),
        ({"scenes": (*SCENES, ())}, "scenes of EnvSpec is .*each entry a list of length from 1 to"),
        ({"max_steps": 0}, "max_steps of EnvSpec is 0; it must be a whole number from 1 to"),
        ({"image_size": 7}, "image_size of EnvSpec is 7; it must be a whole number from 8 to 1,024"),
        ({"motion_noise": -0.1}, "motion_noise of EnvSpec is -0.1; it must be a finite number from 0.0"),
        ({"motion_noise": math.nan}, "motion_noise"),
        ({"motion_noise": math.inf}, "motion_noise"),
        ({"task": Listed()}, "'own' cannot be hashed .*; write tuples instead of lists"),
    ],
)
def test_bad_specs_are_refused(changes, message):
    spec = EnvSpec("own", SCENES, NoReward(), max_steps=5)
    with pytest.raises(ValueError, match=message) as error:
        dataclasses.replace(spec, **changes)
    assert "\n" not in str(error.value)
