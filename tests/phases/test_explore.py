"""The explore phase on the debug preset: stopping, resuming, diverging, and what is left behind."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from cobra_rl.config import EXPLORE
from cobra_rl.phases import explore
from cobra_rl.runs import train
from cobra_rl.runs.loop import Diverged
from cobra_rl.runs.worlds import find_vision, load_world, world_sha256
from cobra_rl.spriteworld import make
from running import on_one_core

TRAIN = ("train", "explore", "--preset", "debug")


def weights(folder: Path) -> dict[str, np.ndarray]:
    parts = ("transition", "exploration")
    loaded = {part: load_file(folder / "world" / part / "weights.safetensors") for part in parts}
    return {f"{part}{name}": array for part in parts for name, array in loaded[part].items()}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a way to run on one core")
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, debug_vision):
    """Replay, priorities and unfinished episodes included: everything after the stop depends on them."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train = (*TRAIN, "--vision", str(debug_vision))
    with on_one_core() as cobra:
        assert f"World: {whole / 'world'}" in cobra(train, whole)
        output = cobra(train, parts, stop_at=parts / "checkpoints" / "step_00000008.safetensors.zz", code=143)
        assert "of 24; the same command goes on from here." in output
        cobra(train, parts)
        assert "vision: " in cobra(TRAIN, whole, code=2)  # the shipped vision is another one
    expected, found = weights(whole), weights(parts)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(expected[name], found[name], err_msg=name)
    logs = [[json.loads(line) for line in (f / "log.jsonl").read_text().splitlines()] for f in (whole, parts)]
    assert [row["step"] for row in logs[0]] == [8, 16, 24]
    for one, other in zip(*logs, strict=True):
        assert {k: v for k, v in one.items() if k != "minutes"} == {k: v for k, v in other.items() if k != "minutes"}
    world = load_world(whole)
    slots = world.encode(np.zeros((2, 64, 64, 3), np.uint8))
    assert world.imagine(slots, np.full((2, 4), 0.5)).slots.shape == slots.shape
    assert world_sha256(whole) == world_sha256(parts)


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch, debug_vision):
    class Poisoned(explore.ExplorePhase):
        def step(self, state, step):
            state, metrics = super().step(state, step)
            return state, {**metrics, "transition": np.float32("nan")} if step >= 9 else metrics

        def report(self, state, step):  # slow to compile, and not asked about here
            return explore.Report({})

    monkeypatch.setattr(train, "ExplorePhase", Poisoned)
    with pytest.raises(Diverged, match="transition is nan at step 16; the checkpoint of step 8 is kept in"):
        train.train_explore(EXPLORE["debug"], make("exploration"), find_vision(debug_vision), tmp_path)
    assert [file.name for file in (tmp_path / "checkpoints").glob("step_*")] == ["step_00000008.safetensors.zz"]
