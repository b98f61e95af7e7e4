"""The contract of a vision module: one that has only what it asks for works with all other parts, or is refused."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from cobra_rl import load_world
from cobra_rl.agents.cobra import CobraParams, cobra_policy, make_reward
from cobra_rl.collect.transition import Transition
from cobra_rl.config import COBRA, EXPLORE
from cobra_rl.models.exploration import Deformation, ExplorationConfig
from cobra_rl.models.reward import ObjectConfig, RelationConfig
from cobra_rl.models.transition import SlotTransition, TransitionConfig
from cobra_rl.models.vision import is_empty
from cobra_rl.models.world import WorldModel, make_transition, sizes_of
from cobra_rl.parts import load_module
from cobra_rl.play.catalogue import LoadedAgent, RewardHead
from cobra_rl.play.stage import SceneStage
from cobra_rl.reporting.films import SLOTS, colored_masks
from cobra_rl.spriteworld import make

columns = load_module(str(Path(__file__).parents[2] / "docs" / "examples" / "columns.py"))
CONFIG = columns.ColumnsConfig()
SIZES = sizes_of(CONFIG, 4)


@pytest.fixture(scope="module")
def vision():
    return columns.Columns(CONFIG, jax.random.key(0))


@pytest.fixture(scope="module")
def images():
    env = make("exploration")
    return np.asarray(jax.jit(lambda keys: jax.lax.map(lambda key: env.reset(key)[1], keys))(keys(3)))


def keys(count):
    return jax.random.split(jax.random.key(1), count)


def test_what_a_module_need_not_say_has_a_default(vision, images):
    assert vision.place is None
    assert vision.patch == 0
    assert vision.latent_names == ["latent 0", "latent 1", "latent 2"]
    np.testing.assert_array_equal(vision.background(vision.masks(images)), 2)
    assert not is_empty(vision.encode(images)).any()


def test_a_slot_of_zeros_is_empty_and_no_other():
    np.testing.assert_array_equal(is_empty(jnp.array([[0.0, 0.0], [2e-3, 0.0], [-1.0, 1.0]])), [True, False, False])


@pytest.mark.parametrize("net", ["joint", "per_slot"])
@pytest.mark.parametrize("reward", [RelationConfig(pair_layers=(8,)), ObjectConfig(pair_layers=(8,))])
def test_all_parts_but_the_law_work_with_it(vision, images, net, reward):
    """They also learn: no gradient is lost or infinite because no slot is empty and none says where it is."""
    transition = SlotTransition(TransitionConfig(hidden=(8,)), SIZES, vision.place, jax.random.key(0))
    policy = Deformation(ExplorationConfig(net=net, hidden=(8,)), SIZES, jax.random.key(1))
    world = WorldModel(vision, transition, policy, action_size=4)
    predictor = make_reward(reward, CONFIG.latents, jax.random.key(2))
    slots = world.encode(images)
    actions = world.propose(slots, jax.random.key(3), 5)[:, 0]
    batch = Transition(slots, actions, jnp.asarray(images))
    losses = {
        "transition": (transition, lambda part: part.loss(vision, batch, jnp.ones(3))),
        "policy": (
            policy,
            lambda part: part.loss(lambda *seen: world.imagine(*seen).error, slots, jax.random.key(4), click_cost=1.0),
        ),
        "predictor": (predictor, lambda part: part.loss(slots, jnp.arange(3.0))),
    }
    for part, loss in losses.values():
        gradients = jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(loss, has_aux=True))(part)[0])
        assert all(np.isfinite(leaf).all() for leaf in gradients)
        assert any(np.any(leaf) for leaf in gradients)


def test_the_law_refuses_it_with_a_sentence(vision):
    with pytest.raises(ValueError, match=r"needs slots that say where they are .*--config\.transition paper"):
        make_transition(EXPLORE["debug"].transition, vision, 4, jax.random.key(0))


def test_the_background_is_dark_whichever_slot_holds_it(vision, images):
    painted = colored_masks(vision, images)
    dark, *colors = (np.array(to_rgb(color)) for color in SLOTS)
    np.testing.assert_allclose(painted[:, :, 20:], np.broadcast_to(dark, (3, 64, 44, 3)))
    np.testing.assert_allclose(painted[0, 0, 0], colors[1])  # the first slot has the colour that the last had
    np.testing.assert_allclose(painted[0, 0, 10], colors[0])


def test_the_shipped_modules_background_is_its_first_slot(images):
    shipped = load_world().vision
    np.testing.assert_array_equal(shipped.background(shipped.masks(images)), 0)


def test_the_page_looks_into_it_and_refuses_what_needs_a_place(vision):
    transition = SlotTransition(TransitionConfig(hidden=(8,)), SIZES, vision.place, jax.random.key(0))
    world = WorldModel(vision, transition, None, action_size=4)
    predictor = make_reward(ObjectConfig(pair_layers=(8,)), CONFIG.latents, jax.random.key(1))
    config = COBRA["debug"]
    params = CobraParams(world, predictor)
    agent = LoadedAgent(make("sorting"), world, cobra_policy(config), params, RewardHead(predictor, config))
    stage = SceneStage(world, lambda: agent)
    assert stage.on_look()["background"] == 2
    with pytest.raises(ValueError, match="does not say where a slot is"):
        stage.on_reward_map(0)
