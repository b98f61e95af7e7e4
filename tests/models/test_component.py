"""The component VAE of the laptop: each latent belongs to one factor, by construction, whatever the weights are."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.models import component
from cobra_rl.models.component import FactoredDecoder, FactoredEncoder
from cobra_rl.models.vision import PLACE
from cobra_rl.spriteworld import coverage, make
from cobra_rl.spriteworld.sprites import SHAPES

M = 12


@pytest.fixture(scope="module")
def encoder():
    return eqx.filter_jit(FactoredEncoder)(M, jax.random.key(0), window=24, hidden=16)


@pytest.fixture(scope="module")
def decoder():
    return eqx.filter_jit(FactoredDecoder)(64, M, jax.random.key(0), width=8, layers=1, patch=2)


COUNT = 60  # sprites looked at in a test: the same in all, so that one program serves them
ENV = make("exploration")


@eqx.filter_jit
def draw(rows):
    """Return the pictures and masks of single sprites with the factors of each row."""

    def one(row):
        state = ENV.initial(jax.random.key(0))
        changed = {name: getattr(state.sprites, name).at[0].set(value) for name, value in row.items()}
        alive = jnp.zeros_like(state.sprites.alive).at[0].set(True)
        scene = dataclasses.replace(state, sprites=dataclasses.replace(state.sprites, alive=alive, **changed))
        return ENV.draw(scene) / 255.0, coverage(scene, 64)[..., 0].astype(jnp.float32)

    return jax.vmap(one)(rows)


def things(**factors):
    """Return pictures and masks of COUNT single sprites; a factor that is not given is the same for all."""
    rows = {"position": [0.5, 0.5], "angle": 0.0, "shape": SHAPES.index("square"), "color": [0.0, 1.0, 1.0]} | factors
    dtypes = {"shape": jnp.int32}
    full = {name: np.broadcast_to(value, (COUNT, *np.shape(value)[name in factors :])) for name, value in rows.items()}
    return draw({name: jnp.asarray(value, dtypes.get(name, jnp.float32)) for name, value in full.items()})


apply = eqx.filter_jit(lambda net, *inputs: net(*inputs))  # one program for all nets of the same sizes


def means(encoder, pictures, masks):
    return np.split(np.asarray(apply(encoder, pictures, masks)), 2, axis=-1)[0]


def test_the_place_is_the_sprites(encoder):
    position = np.random.default_rng(0).uniform(0.15, 0.85, (COUNT, 2))
    fresh = eqx.tree_at(lambda net: net.head.layers[-1].weight, encoder, replace_fn=jnp.zeros_like)
    slots = means(fresh, *things(position=position))
    # The prior draws it to the middle by 0.018 of the distance, 0.006 at most; these masks have no soft edges, and half
    # a pixel is 0.008.
    np.testing.assert_allclose(PLACE.of(jnp.asarray(slots)), position, atol=0.014)


def test_hue_is_a_circle_and_black_has_none(encoder):
    hue = np.linspace(0.0, 1.0, COUNT, endpoint=False)
    color = np.stack([hue, np.tile([1.0, 0.4], COUNT // 2), np.ones(COUNT)], axis=1)
    read = means(encoder, *things(color=color))[:, component.HUE : component.HUE + 2]
    turns = np.arctan2(read[:, 1], read[:, 0]) / (2 * np.pi)
    assert (
        np.abs((turns - hue + 0.5) % 1.0 - 0.5).max() < 0.02
    )  # of a turn: hue runs along a hexagon, and the drawing is sharpened
    radius = np.linalg.norm(read, axis=1)
    assert radius.std() < 0.05 * radius.mean()  # the same for full and for pale colours
    black = means(encoder, *things(color=color * 0.0))
    assert np.abs(black[:, component.HUE : component.HUE + 2]).max() < 1e-3


def test_shape_is_read_alike_at_all_angles_and_places():
    """Random weights carry the shape to sixteen latents; a straight line fitted at some angles reads it at others."""
    encoder = eqx.filter_jit(FactoredEncoder)(component.SHAPE + 16, jax.random.key(0), window=24, hidden=64)
    rng = np.random.default_rng(1)
    halves = []
    for angles in ((0.0, 45.0), (45.0, 360.0)):
        shape = rng.choice([SHAPES.index(name) for name in ("triangle", "square", "circle")], COUNT)
        scene = things(shape=shape, angle=rng.uniform(*angles, COUNT), position=rng.uniform(0.2, 0.8, (COUNT, 2)))
        halves.append((np.c_[means(encoder, *scene)[:, component.SHAPE :], np.ones(COUNT)], shape))
    (fitted, shape), (tested, truth) = halves
    shapes = np.unique(shape)
    weight = np.linalg.lstsq(fitted, shape[:, None] == shapes, rcond=None)[0]
    assert np.mean(shapes[(tested @ weight).argmax(axis=1)] == truth) > 0.9


def test_angle_turns_with_the_sprite(encoder):
    angle = np.linspace(0.0, 90.0, COUNT, endpoint=False)  # a square looks the same after 90 degrees
    read = means(encoder, *things(angle=angle))[:, component.SHAPE - 2 : component.SHAPE]
    turns = np.unwrap(np.arctan2(read[:, 1], read[:, 0])) / (2 * np.pi)
    np.testing.assert_allclose(np.abs(turns - turns[0]), angle / 90.0, atol=0.06)


def test_a_latent_that_nothing_is_known_about_is_at_the_priors_mean(encoder):
    last = encoder.head.layers[-1]
    bias = last.bias.at[-M:].set(jnp.where(jnp.arange(M) == 3, 50.0, 0.0))  # the noise of one latent is endless
    deaf = eqx.tree_at(lambda net: net.head.layers[-1].bias, encoder, bias)
    scene = things(angle=np.arange(COUNT))
    hearing, silent = (np.split(np.asarray(apply(net, *scene)), 2, axis=-1) for net in (encoder, deaf))
    np.testing.assert_allclose(silent[0][:, 3], 0.0, atol=1e-2)
    np.testing.assert_allclose(silent[1][:, 3], 0.0, atol=1e-2)  # log-variance of the prior
    others = np.arange(M) != 3
    np.testing.assert_allclose(silent[0][:, others], hearing[0][:, others], atol=1e-6)


def test_only_things_that_the_border_cuts_are_corrected(encoder):
    position = np.random.default_rng(2).uniform(0.2, 0.8, (COUNT, 2))
    position[: COUNT // 2, 0] = 0.02
    scene = things(position=position)
    loud = eqx.tree_at(lambda net: net.border.layers[-1].bias, encoder, replace_fn=lambda bias: bias + 1.0)
    changed = np.abs(means(loud, *scene) - means(encoder, *scene)).max(axis=1)
    assert changed[: COUNT // 2].min() > 0.5
    assert changed[COUNT // 2 :].max() == 0.0
    gradient = eqx.filter_jit(eqx.filter_grad(lambda net: jnp.sum(net(*scene) ** 2)))(encoder)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradient.border))


def test_colour_and_silhouette_do_not_mix(decoder):
    z = jax.random.normal(jax.random.key(0), (1, M))
    color, logit = apply(decoder, z)
    recoloured = apply(decoder, z.at[:, component.HUE : component.SIZE].add(1.0))
    np.testing.assert_array_equal(recoloured[1], logit)
    assert np.abs(recoloured[0] - color).max() > 0.1
    reshaped = apply(decoder, z.at[:, component.SIZE :].add(1.0))
    for drawn in (color, reshaped[0]):  # one colour, darker towards the edge
        shade = drawn[..., 1] / color[0, 0, 0, 1]
        np.testing.assert_allclose(drawn, shade[..., None] * color[0, 0, 0], atol=1e-5)
    assert np.abs(reshaped[1] - logit).max() > 0.1


def test_a_moved_thing_is_drawn_the_same_elsewhere(decoder):
    z = jax.random.normal(jax.random.key(0), (1, M)).at[:, :2].set(0.0)
    moved = z.at[0, 0].add(PLACE.units * 8 / 64)  # 8 pixels to the right
    np.testing.assert_allclose(apply(decoder, moved)[1][:, :, 8:], apply(decoder, z)[1][:, :, :-8], atol=1e-4)
