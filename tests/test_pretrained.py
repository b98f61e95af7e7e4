"""The shipped weights, as a user meets them."""

import json
import shutil

import jax
import numpy as np
import pytest

import cobra_rl
from cobra_rl import spriteworld
from cobra_rl.pretrained import SHIPPED, load_vision
from cobra_rl.runtime.weights import WeightsError


@pytest.fixture(scope="module")
def scene():
    sprites = [
        {"x": 0.25, "y": 0.3, "shape": "square", "scale": 0.13, "c0": 0.0, "c1": 1.0, "c2": 1.0},
        {"x": 0.7, "y": 0.25, "shape": "circle", "scale": 0.13, "c0": 0.4, "c1": 0.8, "c2": 1.0},
        {"x": 0.6, "y": 0.75, "shape": "triangle", "scale": 0.13, "c0": 0.65, "c1": 0.9, "c2": 1.0},
    ]
    state = spriteworld.state_from_sprites(sprites)
    return np.asarray(spriteworld.render(state))[None], np.asarray(spriteworld.segment(state))


def test_it_sees_three_things_and_draws_them_again(scene):
    image, labels = scene
    vision = cobra_rl.load_pretrained()
    slots, masks = vision.encode(image), np.asarray(vision.masks(image))[0]
    assert slots.shape == (1, 8, 8)
    np.testing.assert_allclose(masks.sum(axis=0), 1.0, atol=1e-4)
    owners = [masks[:, labels == sprite].mean(axis=1) for sprite in range(3)]
    assert len({owner.argmax() for owner in owners}) == 3
    assert min(owner.max() for owner in owners) > 0.8
    drawn = vision.decode(slots)
    assert np.mean((np.asarray(drawn.image[0]) - image[0] / 255.0) ** 2) < 0.003
    assert drawn.components.shape == (1, 8, 64, 64, 3)


def test_pictures_of_another_kind_are_refused(scene):
    vision = cobra_rl.load_pretrained()
    with pytest.raises(ValueError, match="add a batch axis"):
        vision.encode(scene[0][0])
    with pytest.raises(ValueError, match="must be uint8"):
        vision.masks(scene[0] / 255.0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"decoder_width": 56}, "do not fit this model"),
        ({"wings": 2}, r"knows no \['wings'\]"),
        ({"version": 99}, "of version 99"),
        ({"kind": "transition"}, "of kind 'transition'"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, sentence, tmp_path):
    shutil.copytree(SHIPPED / "vision", tmp_path / "vision")
    config = tmp_path / "vision" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(WeightsError, match=sentence):
        load_vision(tmp_path / "vision")


def test_the_model_card_and_the_results_agree():
    """The published figures are those of the shipped file: measured again here, on fewer scenes."""
    from cobra_rl.evaluation import evaluate_vision

    scores = evaluate_vision(cobra_rl.load_pretrained(), scenes=100, probes=False)
    published = json.loads((SHIPPED.parents[2] / "results" / "vision.json").read_text())
    figures = published["figures"]["paper/exploration/train"]
    assert scores["fg_ari_attention"] == pytest.approx(figures["fg_ari_attention"], abs=0.02)
    assert scores["fg_ari_decoder"] == pytest.approx(figures["fg_ari_decoder"], abs=0.02)
    assert scores["mse"] == pytest.approx(figures["mse"], rel=0.2)
    card = (SHIPPED / "vision" / "README.md").read_text()
    for name in ("fg_ari_attention", "fg_ari_decoder", "shape_accuracy"):
        assert f"{figures[name]:.3f}" in card


def test_curiosity_and_imagination_are_as_published():
    """The figures of T's and D's model cards, measured again on fewer scenes."""
    from cobra_rl.evaluation.explore import evaluate_explore

    scores = evaluate_explore(cobra_rl.load_pretrained(), scenes=60)
    published = json.loads((SHIPPED.parents[2] / "results" / "explore.json").read_text())["figures"]
    assert scores["hit_rate"] == pytest.approx(published["hit_rate"], abs=0.06)
    assert scores["sprites_struck"] == pytest.approx(published["sprites_struck"], abs=0.06)
    assert scores["position_error"] == pytest.approx(published["position_error"], abs=0.008)
    assert scores["ratio_to_unchanged"] == pytest.approx(published["ratio_to_unchanged"], abs=0.1)
    assert scores["hit_rate"] > 5 * scores["hit_rate_uniform"]
    card = (SHIPPED / "exploration" / "README.md").read_text() + (SHIPPED / "transition" / "README.md").read_text()
    for name in ("position_error", "ratio_to_encoded", "error_correlation"):
        assert f"{published[name]:.3g}" in card
    assert f"{100 * published['hit_rate']:.1f} %" in card


def test_imagine_and_propose(scene):
    agent = cobra_rl.load_pretrained()
    slots = agent.encode(scene[0])
    actions = np.asarray(agent.propose(slots[0], jax.random.key(0), 16))
    assert actions.shape == (16, 4)
    imagined = agent.imagine(slots, np.array([[0.25, 0.3, 1.0, 0.5]]))  # push the red square to the right
    assert imagined.slots.shape == slots.shape
    assert imagined.error.shape == (1,)
    moved = np.asarray(imagined.slots - slots)[0]
    pushed = np.abs(moved[:, :2]).sum(axis=1).argmax()
    assert moved[pushed, 0] == pytest.approx(4 * 0.125, abs=0.12)  # an eighth of the frame, in latents
    others = np.delete(moved, pushed, axis=0)
    assert np.abs(others[:, :2]).max() < 0.1
