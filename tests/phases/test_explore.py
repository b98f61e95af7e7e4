"""The explore phase on the debug preset: stopping, resuming, diverging, and what is left behind."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from cobra_rl.config import EXPLORE
from cobra_rl.phases import explore, training
from cobra_rl.pretrained import load_curious, load_vision
from running import cobra

TRAIN = ("train", "explore", "--preset", "debug")


def weights(folder: Path) -> dict[str, np.ndarray]:
    parts = ("transition", "exploration")
    loaded = {part: load_file(folder / "weights" / part / "weights.safetensors") for part in parts}
    return {f"{part}{name}": array for part in parts for name, array in loaded[part].items()}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a way to run on one core")
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, debug_vision):
    """Replay, priorities and unfinished episodes included: everything after the stop depends on them."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train = (*TRAIN, "--vision", str(debug_vision))
    cobra(train, whole)
    output = cobra(train, parts, stop_at=parts / "checkpoints" / "step_00000008.safetensors.zz")
    assert "of 24; the same command goes on from here." in output
    cobra(train, parts)
    expected, found = weights(whole), weights(parts)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(expected[name], found[name], err_msg=name)
    logs = [[json.loads(line) for line in (f / "log.jsonl").read_text().splitlines()] for f in (whole, parts)]
    assert [row["step"] for row in logs[0]] == [8, 16, 24]
    own = {"minutes", "hits"}  # the share of hits is of what was played since the process began
    for one, other in zip(*logs, strict=True):
        assert {k: v for k, v in one.items() if k not in own} == {k: v for k, v in other.items() if k not in own}
    agent = load_curious(load_vision(debug_vision), whole / "weights")
    slots = agent.encode(np.zeros((2, 64, 64, 3), np.uint8))
    assert agent.imagine(slots, np.full((2, 4), 0.5)).slots.shape == slots.shape


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(tmp_path, monkeypatch, debug_vision):
    real = explore.make_update

    def make_update(*arguments):
        update, calls = real(*arguments), []

        def poisoned(*state):
            calls.append(1)
            learner, memory, metrics = update(*state)
            return learner, memory, metrics | {"transition": np.float32("nan")} if len(calls) > 9 else metrics

        return poisoned

    monkeypatch.setattr(explore, "make_update", make_update)
    monkeypatch.setattr(explore, "quick_explore_scores", lambda *_: {})  # slow to compile, and not asked about here
    monkeypatch.setattr(explore, "clicks", lambda *_: np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(training.Diverged, match="transition is nan at step 16; the last good checkpoint is kept in"):
        explore.train(EXPLORE["debug"], load_vision(debug_vision), tmp_path, curious=False)
    assert [file.name for file in (tmp_path / "checkpoints").iterdir()] == ["step_00000008.safetensors.zz"]
