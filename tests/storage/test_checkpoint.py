import json
import os
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from safetensors.numpy import load_file

from cobra_rl.storage import checkpoint, files
from cobra_rl.storage.checkpoint import CheckpointMismatch, restore, save


def training_state(seed: int) -> dict:
    key = jax.random.key(seed)
    model = eqx.nn.MLP(3, 2, 4, 1, activation=jax.nn.relu, key=key)
    return {
        "model": model,
        "half": jax.random.normal(key, (3, 5)).astype(jnp.bfloat16),
        "keys": (key, jax.random.split(key, 3), jax.random.key(seed, impl="rbg")),
        "odd": jnp.array([jnp.nan, -0.0, jnp.inf, 1e-45]),
        "empty": jnp.zeros((0, 4)),
        "scalar": jnp.int32(seed),
        "flag": jnp.array(seed % 2 == 0),
        "bytes": np.arange(6, dtype=np.uint8).reshape(2, 3).T + np.uint8(seed),  # not contiguous
        "long": np.array([2**40 + seed]),
        "numbers": (seed, 0.1 * seed, seed > 1),
        "nothing": None,
    }


def assert_same(one, other) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if not eqx.is_array(a):
            assert type(a) is type(b)
            assert a == b
            continue
        assert a.dtype == b.dtype  # for a PRNG key, its implementation too
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        assert a.shape == b.shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def small(value: float) -> dict:
    return {"a": jnp.full(4, value, jnp.float32), "n": jnp.int32(7)}


def test_a_training_state_comes_back_bit_for_bit(tmp_path: Path):
    state = training_state(5)
    meta = {"preset": "debug", "best": 0.25, "history": [1, 2], "by_step": {2: "a", 10: "b"}}
    path = save(tmp_path / "new" / "folder", 1234, state, meta=meta)
    assert path.name == "step_00001234.safetensors"
    step, tree, back = restore(tmp_path / "new" / "folder", training_state(6))
    assert step == 1234
    assert back == meta | {"by_step": {"2": "a", "10": "b"}}  # as JSON has it
    assert_same(tree, state)
    assert isinstance(tree["bytes"], jax.Array)
    assert tree["long"].dtype == np.int64
    assert np.array_equal(jax.random.normal(tree["keys"][0]), jax.random.normal(state["keys"][0]))


def test_an_optimiser_state_comes_back_and_training_goes_on_the_same(tmp_path: Path):
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.linear_schedule(0.1, 0.0, 10)))

    def fresh(seed: int):
        model = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(seed))
        return model, optimiser.init(eqx.filter(model, eqx.is_array)), jax.random.key(seed)

    @eqx.filter_jit
    def train(state):
        model, opt_state, key = state
        key, here = jax.random.split(key)
        x = jax.random.normal(here, (8, 3))
        gradient = eqx.filter_grad(lambda m: jnp.mean((jax.vmap(m)(x) - x[:, :2]) ** 2))(model)
        updates, opt_state = optimiser.update(gradient, opt_state)
        return eqx.apply_updates(model, updates), opt_state, key

    half = train(train(fresh(0)))
    save(tmp_path, 2, half, meta={})
    restored = restore(tmp_path, fresh(1))
    assert_same(restored.tree, half)
    assert_same(train(restored.tree), train(half))


def test_a_bare_array_is_a_tree(tmp_path: Path):
    save(tmp_path, 0, jnp.arange(3), meta={})
    assert restore(tmp_path, jnp.zeros(3, int)).tree.tolist() == [0, 1, 2]


def test_shapes_alone_are_enough_to_restore(tmp_path: Path):
    state = training_state(5)
    del state["long"]  # evaluating its shape, JAX would make it 32 bits
    del state["keys"]  # only a real key tells its implementation
    save(tmp_path, 1, state, meta={})
    assert_same(restore(tmp_path, eqx.filter_eval_shape(lambda: state)).tree, state)


def test_no_folder_and_an_empty_folder_have_no_checkpoint(tmp_path: Path, capsys):
    (tmp_path / "step_what.safetensors").touch()
    (tmp_path / "step_00000001.safetensors.tmp").touch()
    assert restore(tmp_path, small(0)) is None
    assert restore(tmp_path / "none", small(0)) is None
    assert capsys.readouterr().err == ""


def damage_end(data: bytes) -> bytes:
    return data[:-3]


def damage_middle(data: bytes) -> bytes:
    middle = len(data) - 8
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [damage_end, damage_middle, lambda data: b"", lambda data: b"hello" * 9])
def test_a_damaged_file_is_refused_and_the_one_before_used(tmp_path: Path, capsys, damage):
    save(tmp_path, 1, small(1), meta={})
    newest = save(tmp_path, 2, small(2), meta={})
    newest.write_bytes(damage(newest.read_bytes()))
    restored = restore(tmp_path, small(0))
    assert restored.step == 1
    assert_same(restored.tree, small(1))
    printed = capsys.readouterr().err
    assert printed.startswith(f"The checkpoint {newest} is damaged: ")
    assert printed.count("\n") == 1


def test_no_flip_of_a_bit_goes_unnoticed(tmp_path: Path):
    save(tmp_path, 1, small(1), meta={"here": "before"})
    newest = save(tmp_path, 2, small(2), meta={"here": "now"})
    data = newest.read_bytes()
    for place in range(len(data)):
        newest.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        said = []
        restored = restore(tmp_path, small(0), said.append)
        assert (restored.step, restored.meta, len(said)) == (1, {"here": "before"}, 1), place


def test_all_damaged_is_none_with_a_sentence_each(tmp_path: Path):
    for step in (1, 2):
        save(tmp_path, step, small(step), meta={}).write_bytes(b"")
    said = []
    assert restore(tmp_path, small(0), said.append) is None
    assert len(said) == 2


@pytest.mark.parametrize(
    ("make_like", "says"),
    [
        (lambda: {"a": jnp.zeros(5), "n": jnp.int32(0)}, "its ['a'] is float32[4] and not float32[5]"),
        (lambda: {"a": jnp.zeros(4, jnp.float16), "n": jnp.int32(0)}, "its ['a'] is float32[4] and not float16[4]"),
        (lambda: {"a": jnp.zeros(4)}, "it also has ['n']"),
        (lambda: small(0) | {"b": jnp.zeros(1)}, "it lacks ['b']"),
        (lambda: small(0) | {"b": jnp.zeros(1), "c": jnp.zeros(1)}, "it lacks ['b'] and 1 more"),
    ],
)
def test_a_checkpoint_of_another_model_is_an_error_that_says_what_to_do(tmp_path: Path, make_like, says):
    save(tmp_path, 1, small(1), meta={})
    path = save(tmp_path, 2, small(2), meta={})
    with pytest.raises(CheckpointMismatch) as error:
        restore(tmp_path, make_like())
    assert str(error.value) == (
        f"{path} is not a checkpoint of this model: {says}; use another folder, or the preset it was made with."
    )


def test_another_format_version_is_an_error(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT_VERSION", 9)
    save(tmp_path, 1, small(1), meta={})
    monkeypatch.undo()
    with pytest.raises(CheckpointMismatch, match="its format version is 9 and not 1; use another folder"):
        restore(tmp_path, small(0))


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_an_interrupted_save_leaves_the_previous_ones(tmp_path: Path, monkeypatch, call):
    for step in (1, 2):
        save(tmp_path, step, small(step), meta={})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=r"disk is full: .*step_00000003\.safetensors"):
        save(tmp_path, 3, small(3), meta={})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert restore(tmp_path, small(0)).step == 2


def test_everything_is_on_disk_before_it_has_its_name_and_older_ones_go_last(tmp_path: Path, monkeypatch):
    for step in (1, 2):
        save(tmp_path, step, small(step), meta={})
    order = []

    def spy(owner, name):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, **kw: (order.append(name), real(*args, **kw))[1])

    spy(os, "fsync")
    spy(os, "replace")
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok=False: order.append(f"unlink {path.name}"))
    save(tmp_path, 3, small(3), meta={})
    assert [name for name in order if not name.endswith(".tmp")] == [
        "fsync", "replace", "fsync", "unlink step_00000001.safetensors"
    ]  # fmt: skip


def test_only_the_newest_are_kept(tmp_path: Path):
    unfinished = {"history.tmp", "step_1.safetensors.0123abcd.tmp"}  # perhaps being written; `open_run` clears up
    for name in unfinished:
        (tmp_path / name).touch()
    for step in (5, 10, 99_999_999, 100_000_000):
        save(tmp_path, step, small(step), meta={})
    names = {path.name for path in tmp_path.iterdir()}
    assert names == unfinished | {"step_99999999.safetensors", "step_100000000.safetensors"}
    assert restore(tmp_path, small(0)).step == 100_000_000


def test_a_run_that_went_back_keeps_its_new_checkpoints(tmp_path: Path):
    for step in (100, 200):
        save(tmp_path, step, small(step), meta={})
    (tmp_path / "step_00000200.safetensors").write_bytes(b"damaged")
    for step in (110, 120):
        save(tmp_path, step, small(step), meta={})
    kept = [int(path.stem[5:]) for path in sorted(tmp_path.iterdir())]
    assert kept == [110, 120, 200]
    said = []
    assert restore(tmp_path, small(0), said.append).step == 120
    assert len(said) == 1


@pytest.mark.parametrize("damage", [damage_end, lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:]])
def test_a_compressed_checkpoint_comes_back_and_is_small(tmp_path: Path, damage):
    black = {"images": jnp.zeros((3, files.PIECE // 2), jnp.uint8).at[1, 7].set(9)}  # more than one piece
    save(tmp_path, 1, small(1), meta={}, compressed=True)
    path = save(tmp_path, 2, black, meta={"a": 1}, compressed=True)
    assert path.name == "step_00000002.safetensors.zz"
    assert path.stat().st_size < 200_000
    restored = restore(tmp_path, black)
    assert (restored.step, restored.meta) == (2, {"a": 1})
    assert_same(restored.tree, black)
    path.write_bytes(damage(path.read_bytes()))
    assert restore(tmp_path, small(0), lambda _: None).step == 1


def test_the_file_is_plain_safetensors_with_json_in_its_header(tmp_path: Path):
    tensors, metadata = files.from_bytes(save(tmp_path, 3, training_state(0), meta={"a": 1}).read_bytes())
    header = json.loads(metadata["checkpoint"])
    assert (header["version"], header["step"], header["meta"]) == (1, 3, {"a": 1})
    assert tensors["['model'].layers[0].weight"].shape == (4, 3)
    assert not any("activation" in name for name in tensors)
    save(tmp_path, 4, small(4), meta={})
    loaded = load_file(tmp_path / "step_00000004.safetensors")
    np.testing.assert_array_equal(loaded["['a']"], np.full(4, 4, np.float32))
