"""The world model: where a slot is, sizes that are stated once, and what it refuses."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl import load_world, spriteworld
from cobra_rl.agents.cobra import make_reward
from cobra_rl.config import EXPLORE, VISION
from cobra_rl.models import component
from cobra_rl.models.exploration import ExplorationConfig
from cobra_rl.models.monet import Monet, MonetConfig
from cobra_rl.models.nets import coordinates
from cobra_rl.models.reward import ObjectConfig
from cobra_rl.models.transition import LawConfig, Sizes, TransitionConfig
from cobra_rl.models.vision import PLACE, Place, VisionModelConfig
from cobra_rl.models.world import WorldModel, make_exploration, make_transition, make_vision
from untrained import untrained

PAPER = MonetConfig(attention_channels=(4, 4), attention_mlp=8, encoder_hidden=8, decoder_width=4)
CENTRED = dataclasses.replace(VISION["debug"].model, encoder_window=24)  # V_enc and V_dec agree on the latents of PLACE


def build(vision, action: int, transition: TransitionConfig, net: str = "per_slot") -> WorldModel:
    model, exploration = untrained(lambda key: make_vision(vision, key)), ExplorationConfig(net=net, hidden=(8,))
    return WorldModel(
        model,
        untrained(lambda key: make_transition(transition, model, action, key)),
        untrained(lambda key: make_exploration(exploration, model, action, key)),
        action,
    )


# Where a slot is ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("place", [PLACE, Place(first=3, units=2.0)])
def test_a_place_goes_round(place):
    point = np.random.default_rng(0).uniform(-1.0, 1.0, (5, 2)).astype(np.float32)
    slots = jnp.zeros((5, 8)).at[:, place.first : place.first + 2].set(place.from_canvas(jnp.asarray(point)))
    np.testing.assert_allclose(place.canvas(slots), point, atol=1e-6)
    np.testing.assert_allclose(place.of(slots), 0.5 * point + 0.5, atol=1e-6)
    np.testing.assert_array_equal(place.latents(slots), slots[:, place.first : place.first + 2])


def test_the_corners_of_the_frame_are_two_away_from_the_middle():
    corners = jnp.array([[-2.0, -2.0], [2.0, 2.0], [0.0, 0.0]])
    np.testing.assert_allclose(PLACE.of(jnp.pad(corners, ((0, 0), (0, 6)))), [[0, 0], [1, 1], [0.5, 0.5]], atol=1e-6)


def test_the_encoder_puts_the_centroid_where_the_decoder_draws():
    """Untrained, with all silenced that learns: what is left is the agreement on PLACE."""
    model = untrained(lambda key: Monet(CENTRED, key))
    size = CENTRED.size
    mask = jnp.zeros((1, size, size)).at[0, 10:14, 40:46].set(1.0)  # rows from the top
    head = model.encoder.head.layers[-1]
    silent = eqx.tree_at(lambda m: m.encoder.head.layers[-1].weight, model, jnp.zeros_like(head.weight))
    mean = eqx.filter_jit(silent.encoder)(jnp.zeros((1, size, size, 3)), mask)[:, : CENTRED.latents]
    noise = np.exp(-4.0) + (component.PIXELS / 24.1) ** 4  # of a reading: as it starts, and as 24 pixels have it
    share = 24.0**2 / (24.0**2 + 4.0) / (1.0 + noise)  # empty masks give nothing
    centroid = np.array([43.0, size - 12.0]) / size
    np.testing.assert_allclose(PLACE.of(mean)[0], 0.5 + share * (centroid - 0.5), atol=1e-5)

    rows = model.decoder.half_planes.layers[0].weight.at[PLACE.first : PLACE.first + 2].set(0.0)
    blind = eqx.tree_at(lambda m: m.decoder.half_planes.layers[0].weight, model, rows)  # shapes do not depend on place
    slot = jax.random.normal(jax.random.key(1), (1, CENTRED.latents)).at[:, :2].set(0.0)
    there = slot.at[:, :2].set(PLACE.from_canvas(jnp.array([[8.0, 4.0]]) * 2.0 / size))  # 8 pixels right, 4 up
    draw = eqx.filter_jit(blind.decoder)
    picture, logit = draw(slot)
    moved, moved_logit = draw(there)
    np.testing.assert_allclose(moved_logit[:, :-4, 8:], logit[:, 4:, :-8], atol=1e-4)
    np.testing.assert_allclose(moved[:, :-4, 8:], picture[:, 4:, :-8], atol=1e-4)
    assert np.ptp(logit) > 1e-2  # there is something to move


def test_the_shipped_slots_are_where_the_sprites_are():
    """The encoder's place, the decoder's masks and the sprites agree, in the median of two sprites in eight scenes.

    Over ten seeds the medians are 0.0055 (masks) and 0.0051 frame widths (sprites), with standard deviations of 0.0004
    and 0.0005: the bar is more than ten of them away.
    """
    world = load_world()
    env = spriteworld.make("sorting")
    states, images = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 8))
    slots = world.encode(images)
    masks = np.asarray(world.decode(slots).masks)
    area = masks.sum((2, 3))
    things = (area > 20) & (area < 1000)  # pixels: neither empty nor the background
    assert 12 <= things.sum() <= 20  # 16 for all ten seeds
    place = np.asarray(world.vision.place.of(slots))
    drawn = np.einsum("bkhw,hwc->bkc", masks, np.asarray(coordinates(64))) / area[..., None] / 2 + 0.5
    assert np.median(np.linalg.norm(place - drawn, axis=-1)[things]) < 0.012
    truth, alive = np.asarray(states.sprites.position), np.asarray(states.sprites.alive)
    distance = np.linalg.norm(place[:, :, None] - truth[:, None], axis=-1)
    assert np.median(np.where(alive[:, None], distance, np.inf).min(-1)[things]) < 0.012


# Sizes ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("vision", "transition", "net", "action"),
    [
        (dataclasses.replace(PAPER, slots=5, latents=16, size=32), TransitionConfig(hidden=(8,)), "joint", 3),
        (dataclasses.replace(CENTRED, slots=5, latents=16, size=32), LawConfig(hidden=(8,), law=4), "per_slot", 3),
    ],
    ids=["paper", "law"],
)
def test_a_world_of_other_sizes(vision, transition, net, action):
    world = build(vision, action, transition, net)
    K, M, H = vision.slots, vision.latents, vision.size
    assert world.sizes == Sizes(K, M, action, H)
    images = np.random.default_rng(0).integers(0, 256, (2, H, H, 3), np.uint8)
    actions = np.random.default_rng(1).random((2, action))
    slots = world.encode(images)
    assert slots.shape == (2, K, M)
    assert world.masks(images).shape == (2, K, H, H)
    decoded = world.decode(slots)
    assert decoded.image.shape == (2, H, H, 3)
    assert decoded.components.shape == (2, K, H, H, 3)
    assert decoded.masks.shape == (2, K, H, H)
    imagined = world.imagine(slots, actions)
    assert imagined.slots.shape == (2, K, M)
    assert imagined.error.shape == (2,)
    assert world.propose(slots, jax.random.key(0), 7).shape == (2, 7, action)
    assert world.propose(slots[0], jax.random.key(0), 7).shape == (7, action)
    assert world.deform(slots, actions).shape == (2, action)
    assert world.deform(slots[0], actions[0]).shape == (action,)
    assert world.pixel_error(slots, images).shape == (2,)
    predictor = make_reward(ObjectConfig(pair_layers=(8,), object_layers=(8,)), M, jax.random.key(2))
    assert predictor(imagined.slots).shape == (2,)


def test_a_law_on_a_vision_without_places_is_refused():
    with pytest.raises(ValueError, match="needs slots that say where they are"):
        build(PAPER, 4, EXPLORE["debug"].transition)


def test_a_vision_that_nobody_registered_is_refused():
    with pytest.raises(ValueError, match=r"VisionModelConfig belongs to no vision; there are monet"):
        make_vision(VisionModelConfig(), jax.random.key(0))


# What it does ---------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def small():
    return build(CENTRED, 4, LawConfig(hidden=(8,), law=4))


def test_without_its_policy_proposals_are_uniform(small):
    world = small.without_policy()
    slots = jax.random.normal(jax.random.key(0), (2, CENTRED.slots, CENTRED.latents))
    actions = np.asarray(world.propose(slots, jax.random.key(1), 250))
    assert actions.shape == (2, 250, 4)
    assert ((actions >= 0.0) & (actions <= 1.0)).all()
    assert abs(actions.mean() - 0.5) < 0.04  # six standard deviations of the mean of 2,000 uniform numbers
    u = np.random.default_rng(0).random((2, 4)).astype(np.float32)
    np.testing.assert_array_equal(world.deform(slots, u), u)
    assert world.sizes == small.sizes


def test_its_methods_can_be_used_within_compiled_code(small):
    slots = jax.random.normal(jax.random.key(0), (3, CENTRED.slots, CENTRED.latents))
    actions = jax.random.uniform(jax.random.key(1), (3, 4))
    outside = small.imagine(slots, actions).slots
    inside = eqx.filter_jit(lambda w, s, a: jax.vmap(w.imagine)(s, a).slots)(small, slots, actions)
    np.testing.assert_allclose(outside, inside, atol=1e-5)


def test_pixel_error_is_the_squared_distance_to_what_is_drawn(small):
    images = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), np.uint8)
    slots = jax.random.normal(jax.random.key(0), (2, CENTRED.slots, CENTRED.latents))
    expected = ((np.asarray(small.decode(slots).image) - images / 255.0) ** 2).sum((1, 2, 3))
    np.testing.assert_allclose(small.pixel_error(slots, images), expected, rtol=1e-4)


# Empty slots ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("transition", [LawConfig(hidden=(8,), law=4), TransitionConfig(hidden=(8,))], ids=type)
@pytest.mark.parametrize("used", [2, 3, 5, 6])
def test_scenes_after_an_action_are_imagined_as_well_without_their_empty_slots(transition, used):
    world = build(dataclasses.replace(CENTRED, slots=8), 4, transition)
    slots = jax.random.normal(jax.random.key(1), (6, 8, 12)).at[:, used:].set(0.0)
    actions = jax.random.uniform(jax.random.key(2), (6, 4))
    expected = world.imagine(slots, actions).slots
    np.testing.assert_allclose(world.scenes_after(slots, actions), expected, atol=1e-5)
    of_seeds = eqx.filter_jit(lambda world, slots, actions: jax.vmap(world.scenes_after)(slots, actions))
    found = of_seeds(world, slots.reshape(2, 3, 8, 12), actions.reshape(2, 3, 4))
    np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-5)
