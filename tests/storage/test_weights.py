import json
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

from cobra_rl.storage import files
from cobra_rl.storage.weights import Weights, WeightsError, load_weights, read_config, save_weights, sha256

CONFIG = {"slots": 8, "sizes": [1, 2], "preset": "laptop"}


def model(seed: int = 0, width: int = 4, depth: int = 1):
    return eqx.nn.MLP(3, 2, width, depth, key=jax.random.key(seed))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_weights(tmp_path / "vision", Weights(model(), CONFIG, "vision"))
    return tmp_path / "vision"


def test_weights_and_configuration_come_back(folder: Path):
    assert {path.name for path in folder.iterdir()} == {"weights.safetensors", "config.json"}
    assert read_config(folder, "vision") == CONFIG
    assert json.loads((folder / "config.json").read_text()) == {"kind": "vision", "version": 1, **CONFIG}
    loaded = load_weights(folder, model(1), "vision")
    assert eqx.tree_equal(loaded, model(0))
    assert not eqx.tree_equal(loaded, model(1))
    assert np.array_equal(loaded(np.ones(3)), model(0)(np.ones(3)))


def test_shapes_alone_are_enough_to_load(folder: Path):
    like = eqx.filter_eval_shape(eqx.nn.MLP, 3, 2, 4, 1, key=jax.random.key(1))
    assert eqx.tree_equal(load_weights(folder, like, "vision"), model(0))
    assert "not float32[5, 3]" in refusal(folder, eqx.filter_eval_shape(eqx.nn.MLP, 3, 2, 5, 1, key=jax.random.key(1)))


def refusal(folder: Path, like=None, kind: str = "vision") -> str:
    with pytest.raises(WeightsError) as error:
        load_weights(folder, like or model(), kind)
    sentence = str(error.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def test_what_does_not_fit_is_refused_with_a_sentence(folder: Path):
    path = folder / "weights.safetensors"
    assert refusal(folder, kind="reward") == f"The weights in {folder} are of kind 'vision' and not 'reward'."
    wider = f"The weights {path} do not fit this model: its .layers[0].weight is float32[4, 3] and not float32[5, 3]."
    assert refusal(folder, model(width=5)) == wider
    deeper = eqx.tree_at(lambda m: m.layers, model(), (*model().layers, *model().layers[:1]))
    assert refusal(folder, deeper) == f"The weights {path} do not fit this model: it lacks .layers[2].bias and 1 more."
    fewer = eqx.tree_at(lambda m: m.layers, model(), model().layers[:1])
    assert "it also has .layers[1].bias and 1 more." in refusal(folder, fewer)


def test_what_is_not_there_or_damaged_is_refused_with_a_sentence(folder: Path):
    config, weights = folder / "config.json", folder / "weights.safetensors"
    assert refusal(folder / "no") == f"There are no weights in {folder / 'no'}: config.json is missing."
    weights.write_bytes(weights.read_bytes()[:-1])
    assert refusal(folder).startswith(f"The weights {weights} are damaged: it is not a whole safetensors file")
    weights.unlink()
    assert refusal(folder) == f"There are no weights in {folder}: weights.safetensors is missing."
    config.write_text(json.dumps({"kind": "vision", "version": 2}))
    assert refusal(folder) == f"The weights in {folder} are of version 2; this code reads 1."
    for text in ("{", "[]", '"kind"', '{"kind": "vision"}'):
        config.write_text(text)
        assert refusal(folder).startswith(f"{config} is not the configuration of weights")


def test_values_that_changed_on_disk_are_noticed(folder: Path):
    path = folder / "weights.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert refusal(folder) == f"The weights {path} are damaged: its checksum is wrong."


def test_older_weights_without_a_checksum_are_read(folder: Path):
    tensors = files.flatten(model())
    (folder / "weights.safetensors").write_bytes(b"".join(files.to_pieces(tensors, {"kind": "vision"})))
    assert eqx.tree_equal(load_weights(folder, model(1), "vision"), model(0))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_neither_saved_nor_loaded(folder: Path, value):
    bad = eqx.tree_at(lambda m: m.layers[1].bias, model(), np.array([0.0, value], np.float32))
    path = folder / "weights.safetensors"
    before = path.read_bytes()
    sentence = f"The weights {path} are refused: .layers[1].bias has values that are not finite."
    with pytest.raises(WeightsError) as error:
        save_weights(folder, Weights(bad, CONFIG, "vision"))
    assert str(error.value) == sentence
    assert path.read_bytes() == before
    path.write_bytes(b"".join(files.to_pieces(files.flatten(bad), {"kind": "vision"})))
    assert refusal(folder) == sentence


def test_the_same_content_has_the_same_digest_and_another_one_another(folder: Path, tmp_path: Path):
    digest = sha256(folder)
    assert len(digest) == 64
    save_weights(tmp_path / "again", Weights(model(), CONFIG, "vision"))
    save_weights(tmp_path / "other", Weights(model(1), CONFIG, "vision"))
    save_weights(tmp_path / "named", Weights(model(), CONFIG | {"preset": "paper"}, "vision"))
    assert sha256(tmp_path / "again") == digest
    assert len({sha256(tmp_path / name) for name in ("again", "other", "named")}) == 3
    (folder / "config.json").unlink()
    with pytest.raises(WeightsError, match=r"There are no weights in .*: config.json is missing\."):
        sha256(folder)


def test_a_configuration_cannot_claim_another_kind(tmp_path: Path):
    with pytest.raises(WeightsError, match="kind"):
        save_weights(tmp_path, Weights(model(), {"kind": "reward"}, "vision"))
    assert not list(tmp_path.iterdir())
