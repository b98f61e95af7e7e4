"""The vision phase on the debug preset: stopping, resuming, diverging, and what is left behind."""

import json
import os
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from cobra_rl.config import VISION
from cobra_rl.phases import training, vision
from cobra_rl.pretrained import load_vision
from running import cobra

TRAIN = ("train", "vision", "--preset", "debug")


def final_state(folder: Path) -> dict[str, np.ndarray]:
    """Weights, their average and the optimiser."""
    return load_file(folder / "checkpoints" / "step_00000024.safetensors")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a way to run on one core")
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert str(whole / "weights") in cobra(TRAIN, whole)
    output = cobra(TRAIN, parts, stop_at=parts / "checkpoints" / "step_00000008.safetensors")
    stopped = max(int(file.stem.removeprefix("step_")) for file in (parts / "checkpoints").glob("*.safetensors"))
    assert f"Stopped at step {stopped} of 24; the same command goes on from here." in output
    cobra(TRAIN, parts)

    expected, found = final_state(whole), final_state(parts)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(expected[name], found[name], err_msg=name)
    logs = [[json.loads(line) for line in (f / "log.jsonl").read_text().splitlines()] for f in (whole, parts)]
    assert [row["step"] for row in logs[0]] == [8, 16, 24]
    for one, other in zip(*logs, strict=True):
        assert {k: v for k, v in one.items() if k != "minutes"} == {k: v for k, v in other.items() if k != "minutes"}

    kept = [load_file(folder / "weights" / "weights.safetensors") for folder in (whole, parts)]
    for name in kept[0]:
        np.testing.assert_array_equal(kept[0][name], kept[1][name], err_msg=name)

    served = load_vision(whole / "weights")
    images = np.zeros((2, 64, 64, 3), np.uint8)
    assert served.encode(images).shape == (2, 3, 8)
    with pytest.raises(ValueError, match=r"Images must be uint8 \[B, 64, 64, 3\].*add a batch axis"):
        served.encode(images[0])


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    real = vision.make_step

    def make_step(config, stage):
        step = real(config, stage)
        calls = []

        def poisoned(state, key, loss_weights):
            calls.append(1)
            state, metrics = step(state, key, loss_weights)
            return state, metrics | {"loss": np.float32("nan")} if len(calls) > 9 else metrics

        return poisoned

    monkeypatch.setattr(vision, "make_step", make_step)
    with pytest.raises(training.Diverged, match="loss is nan at step 16; the last good checkpoint is kept in"):
        vision.train(VISION["debug"], tmp_path)
    assert [file.name for file in (tmp_path / "checkpoints").iterdir()] == ["step_00000008.safetensors"]
    assert (tmp_path / "pictures").exists()


def test_frames_are_those_of_random_play():
    env = vision.exploration(2)
    assert env.spec.capacity == 2
    frames = np.asarray(jax.jit(lambda key: vision.random_frames(key, env, 64))(jax.random.key(0)))
    assert frames.shape == (64, 64, 64, 3)
    lit = (frames > 30).any(-1).mean((1, 2))
    assert 0.005 < lit.mean() < 0.04  # one or two sprites, some of them partly outside
    assert len({frame.tobytes() for frame in frames}) == 64
