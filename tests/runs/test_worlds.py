"""The shipped world as a user meets it, and worlds as folders: what belongs together and what is refused."""

import json
import shutil
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import cobra_rl
import oracle
from cobra_rl import spriteworld
from cobra_rl.models.world import make_vision, vision_weights
from cobra_rl.runs.worlds import find_world, home_of, load_vision, load_world, seal_world, world_sha256
from cobra_rl.storage.weights import WeightsError, save_weights, sha256
from untrained import untrained

STRUCTURED = find_world("structured")
RESULTS = Path(__file__).parents[2] / "results" / "structured"
CARD = (home_of("structured") / "README.md").read_text()


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
    world = cobra_rl.load_world()
    slots, masks = world.encode(image), np.asarray(world.masks(image))[0]
    assert slots.shape == (1, 8, 12)
    np.testing.assert_allclose(masks.sum(axis=0), 1.0, atol=1e-4)
    owners = [masks[:, labels == sprite].mean(axis=1) for sprite in range(3)]
    assert len({owner.argmax() for owner in owners}) == 3
    assert min(owner.max() for owner in owners) > 0.8
    drawn = world.decode(slots)
    assert np.mean((np.asarray(drawn.image[0]) - image[0] / 255.0) ** 2) < 0.003
    assert drawn.components.shape == (1, 8, 64, 64, 3)


def test_pictures_of_another_kind_are_refused(scene):
    world = cobra_rl.load_world()
    with pytest.raises(ValueError, match="add a batch axis"):
        world.encode(scene[0][0])
    with pytest.raises(ValueError, match="must be uint8"):
        world.masks(scene[0] / 255.0)
    with pytest.raises(ValueError, match=r"\[B, 64, 64, 3\], but got uint8 \[1, 32, 32, 3\]"):
        world.encode(scene[0][:, ::2, ::2])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"decoder_width": 56}, "do not fit this model"),
        ({"wings": 2}, "it has wings, and a MonetConfig must have only slots"),
        ({"version": 99}, "of version 99"),
        ({"kind": "transition"}, "of kind 'transition'"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, sentence, tmp_path):
    shutil.copytree(STRUCTURED / "vision", tmp_path / "vision")
    config = tmp_path / "vision" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(WeightsError, match=sentence):
        load_vision(tmp_path / "vision")


def copied(world: Path, folder: Path) -> Path:
    return Path(shutil.copytree(world, folder / "copy"))


def edit_config(folder: Path, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_world_that_is_copied_is_the_same_world(debug_world, tmp_path):
    copy = copied(debug_world, tmp_path)
    assert world_sha256(copy) == world_sha256(debug_world)
    first, second = load_world(debug_world), load_world(copy)
    assert eqx.tree_equal(*jax.device_get((first, second)))  # by NumPy, which compiles nothing
    assert first.sizes == (3, 12, 4, 64)
    moved = tmp_path / "run"
    moved.mkdir()
    copy.rename(moved / "world")
    assert find_world(moved) == moved / "world"  # a run of `cobra train explore`
    assert world_sha256(moved) == world_sha256(debug_world)


def test_another_world_has_another_sha256(debug_world):
    assert world_sha256() == world_sha256(STRUCTURED)
    assert world_sha256() != world_sha256(debug_world)
    record = json.loads((STRUCTURED / "world.json").read_text())
    assert record["sha256"] == world_sha256()
    assert record["parts"] == {part: sha256(STRUCTURED / part) for part in ("vision", "transition", "exploration")}


@pytest.mark.parametrize("part", ["transition", "exploration"])
def test_a_part_of_another_vision_is_refused(part, debug_vision, debug_world, tmp_path):
    """Of the same sizes, so that nothing but the record can tell."""
    copy = copied(debug_world, tmp_path)
    config = load_vision(debug_vision).config
    other = untrained(lambda key: make_vision(config, key), seed=1)
    save_weights(copy / "vision", vision_weights(other))
    rest = {"transition", "exploration"} - {part}
    edit_config(copy / rest.pop(), vision=sha256(copy / "vision"))
    seal_world(copy)
    with pytest.raises(WeightsError, match=f"The {part} model .* was trained on another vision"):
        load_world(copy)


@pytest.mark.parametrize("part", ["vision", "transition", "exploration"])
def test_a_part_that_changed_is_refused(part, debug_world, tmp_path):
    copy = copied(debug_world, tmp_path)
    edit_config(copy / part, note="by hand")
    with pytest.raises(WeightsError, match=f"is not whole: its {part} changed after it was made"):
        load_world(copy)


def test_a_changed_record_is_refused(debug_world, tmp_path):
    copy = copied(debug_world, tmp_path)
    record = json.loads((copy / "world.json").read_text())
    (copy / "world.json").write_text(json.dumps(record | {"sha256": "0" * 64}))
    with pytest.raises(WeightsError, match=r"is not whole: its world\.json changed"):
        world_sha256(copy)


def test_a_folder_that_is_no_world_is_refused(debug_vision, tmp_path):
    with pytest.raises(WeightsError, match=r"is no world: it has no world\.json"):
        load_world(debug_vision)
    with pytest.raises(WeightsError, match="There are no vision weights in"):
        load_vision(tmp_path)


def test_a_vision_can_be_taken_from_a_world(debug_vision, debug_world):
    assert eqx.tree_equal(*jax.device_get((load_vision(debug_world), load_vision(debug_vision))))


# Published metrics, measured again on fewer scenes. The comments give the standard deviation over ten seeds of as many
# scenes; each tolerance leaves at least three of them, beside the difference of their mean from what is published.
def test_the_vision_card_and_the_results_agree():
    from cobra_rl.evaluation.vision import evaluate_vision

    scores = evaluate_vision(cobra_rl.load_world(), scenes=100, probes=False)
    published = json.loads((RESULTS / "vision.json").read_text())["figures"]["paper/exploration/train"]
    assert scores["fg_ari_attention"] == pytest.approx(published["fg_ari_attention"], abs=0.02)  # 0.0041
    assert scores["fg_ari_decoder"] == pytest.approx(published["fg_ari_decoder"], abs=0.02)  # 0.0039
    assert scores["mse"] == pytest.approx(published["mse"], abs=0.0007)  # 0.0002: a few scenes weigh much
    for name in ("fg_ari_attention", "fg_ari_decoder", "shape_accuracy"):
        assert f"{published[name]:.3f}" in CARD


@pytest.mark.slow
def test_curiosity_and_imagination_are_as_published():
    from cobra_rl.evaluation.explore import evaluate_explore

    scores = evaluate_explore(cobra_rl.load_world(), scenes=60)
    published = json.loads((RESULTS / "explore.json").read_text())["figures"]
    assert scores["hit_rate"] == pytest.approx(published["hit_rate"], abs=0.06)  # 0.017
    assert scores["sprites_struck"] == pytest.approx(published["sprites_struck"], abs=0.06)  # 0.0062
    assert -0.012 < scores["position_error"] - published["position_error"] < 0.005
    assert scores["ratio_to_unchanged"] == pytest.approx(published["ratio_to_unchanged"], abs=0.1)  # 0.014
    assert scores["hit_rate"] > 5 * scores["hit_rate_uniform"]  # 17 times, 0.017 and 0.0056
    for name in ("position_error", "ratio_to_encoded", "error_correlation"):
        assert f"{published[name]:.3g}" in CARD
    assert f"{100 * published['hit_rate']:.1f} %" in CARD


def test_imagine_and_propose(scene):
    world = cobra_rl.load_world()
    slots = world.encode(scene[0])
    actions = np.asarray(world.propose(slots[0], jax.random.key(0), 16))
    assert actions.shape == (16, 4)
    imagined = world.imagine(slots, np.array([[0.25, 0.3, 1.0, 0.5]]))  # push the red square to the right
    assert imagined.slots.shape == slots.shape
    assert imagined.error.shape == (1,)
    moved = np.asarray(imagined.slots - slots)[0]
    pushed = np.abs(moved[:, :2]).sum(axis=1).argmax()
    assert moved[pushed, 0] == pytest.approx(4 * 0.125, abs=0.12)  # an eighth of the frame, in latents
    others = np.delete(moved, pushed, axis=0)
    assert np.abs(others[:, :2]).max() < 0.1


def test_a_shipped_agent_solves_a_task_of_the_real_package():
    """Pictures, moves and rewards are the package's own; 50 of 50 episodes in results/structured/real_package.json."""
    env, agent = (
        oracle.make("goal_finding_new_shape", "test"),
        cobra_rl.Agent.pretrained("goal_finding_new_shape", "released"),
    )
    np.random.seed(0)
    for _ in range(2):
        step = env.reset()
        while not step.last():
            step = env.step(agent.act(np.asarray(step.observation["image"])))
        assert env.success()
