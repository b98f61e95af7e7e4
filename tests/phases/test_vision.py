"""The vision phase on the debug preset: stopping, resuming, diverging, and what is left behind."""

import dataclasses
import json
import os
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from cobra_rl.config import VISION
from cobra_rl.environments import fewer_sprites
from cobra_rl.phases import vision
from cobra_rl.runs import train
from cobra_rl.runs.folder import OtherRun
from cobra_rl.runs.loop import Diverged
from cobra_rl.runs.worlds import load_vision
from cobra_rl.spriteworld import make
from running import on_one_core

TRAIN = ("train", "vision", "--preset", "debug")


def final_state(folder: Path) -> dict[str, np.ndarray]:
    """Weights, their average and the optimiser."""
    return load_file(folder / "checkpoints" / "step_00000024.safetensors")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a way to run on one core")
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with on_one_core() as cobra:
        assert str(whole / "weights") in cobra(TRAIN, whole)
        output = cobra(TRAIN, parts, stop_at=parts / "checkpoints" / "step_00000008.safetensors", code=143)
        stopped = max(int(file.stem.removeprefix("step_")) for file in (parts / "checkpoints").glob("*.safetensors"))
        assert f"Stopped at step {stopped} of 24; the same command goes on from here." in output
        assert f"resumes at step {stopped} of 24" in cobra(TRAIN, parts)
        assert "finished, 24 steps are done" in cobra(TRAIN, whole)
        assert "seed: 0, now 1" in cobra((*TRAIN, "--seed=1"), whole, code=2)
        assert "config.model.latents: 12" in cobra((*TRAIN, "--config.model.latents=16"), whole, code=2)

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
    served = load_vision(whole)
    assert served.encode(np.zeros((2, 64, 64, 3), np.uint8)).shape == (2, 3, 12)
    assert json.loads((whole / "run.json").read_text())["settings"]["config"]["model"]["slots"] == 3


def poisoned(phase_class, metric: str, after: int):
    """A phase whose metric is no number from some step on."""

    class Poisoned(phase_class):
        def step(self, state, step):
            state, metrics = super().step(state, step)
            return state, {**metrics, metric: np.float32("nan")} if step >= after else metrics

        def report(self, state, step):  # slow to compile, and not asked about here
            return vision.Report({}, {"decomposition": np.zeros((2, 2, 3), np.uint8)})

    return Poisoned


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "VisionPhase", poisoned(vision.VisionPhase, "loss", 9))
    with pytest.raises(Diverged, match="loss is nan at step 16; the checkpoint of step 8 is kept in"):
        train.train_vision(VISION["debug"], make("exploration"), tmp_path)
    assert [file.name for file in (tmp_path / "checkpoints").glob("step_*")] == ["step_00000008.safetensors"]
    assert (tmp_path / "pictures").exists()
    with pytest.raises(OtherRun, match=r"other settings \(config.steps: 24, now 25\)"):
        train.train_vision(dataclasses.replace(VISION["debug"], steps=25), make("exploration"), tmp_path)


def test_frames_are_those_of_random_play():
    env = fewer_sprites(make("exploration"), 2)
    assert env.spec.capacity == 2
    frames = np.asarray(jax.jit(lambda key: vision.random_frames(key, env, 64))(jax.random.key(0)))
    assert frames.shape == (64, 64, 64, 3)
    lit = (frames > 30).any(-1).mean((1, 2))
    # One or two sprites, some of them partly outside: over ten seeds 0.0290 +- 0.0011.
    assert 0.02 < lit.mean() < 0.04
    assert len({frame.tobytes() for frame in frames}) == 64


def test_muon_learns_all_directions_of_a_matrix_equally_fast():
    """The singular values of its first step lie near each other, though those of the gradient differ a thousandfold."""
    config = dataclasses.replace(VISION["debug"], optimiser="muon", learning_rate=1e-2, steps=100)
    optimiser = vision.make_optimiser(config)
    left, right = (np.linalg.qr(np.random.default_rng(i).normal(size=(6, 6)))[0] for i in (0, 1))
    gradient = (left * np.geomspace(1.0, 1e-3, 6)) @ right
    weights = {"matrix": jax.numpy.zeros((6, 6)), "bias": jax.numpy.zeros(6), "kernel": jax.numpy.zeros((3, 3, 2, 18))}
    kernel = np.random.default_rng(2).normal(size=(3, 3, 2, 18))
    gradients = {"matrix": gradient, "bias": np.full(6, 3.0), "kernel": kernel}
    gradients = {name: jax.numpy.asarray(value, jax.numpy.float32) for name, value in gradients.items()}
    steps, _ = optimiser.update(gradients, optimiser.init(weights), weights)

    values = np.linalg.svd(steps["matrix"], compute_uv=False)
    assert values.max() / values[:-1].min() < 3.0  # five iterations of Newton and Schulz do not lift the least of them
    of_kernel = np.linalg.svd(np.asarray(steps["kernel"]).reshape(18, 18), compute_uv=False)
    assert of_kernel.max() / np.median(of_kernel) < 2.0
    assert np.sum(np.asarray(steps["matrix"]) * gradient) < 0.0
    np.testing.assert_allclose(steps["bias"], -1e-2, rtol=0.5)  # by Adam, with Nesterov's momentum
    np.testing.assert_allclose(np.sqrt(np.mean(np.asarray(steps["kernel"]) ** 2)), 0.2 * 1e-2, rtol=0.3)


def test_pictures_of_another_size_are_refused_with_the_remedy(tmp_path):
    config = dataclasses.replace(VISION["debug"], model=dataclasses.replace(VISION["debug"].model, size=32))
    with pytest.raises(ValueError, match=r"64 pixels a side and .* expects 32; set --config\.model\.size 64"):
        train.train_vision(config, make("exploration"), tmp_path)
