"""The notebook runs from its first cell to its last, and what it says is true."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOUR = ROOT / "notebooks" / "tour.py"
TEXT = TOUR.read_text()

# In a process of its own, as a person runs it.
FACTS = """
import gc, json, runpy, sys
gc.set_threshold(100_000, 20, 100)  # as in conftest.py
import matplotlib.pyplot as plt
import numpy as np

tour = runpy.run_path(sys.argv[1])
contrast = []
for number in plt.get_fignums():
    canvas = plt.figure(number).canvas
    canvas.draw()
    contrast.append(float(np.asarray(canvas.buffer_rgba())[..., :3].std()))
e_pred, on_sprite = np.asarray(tour["e_pred"]), tour["on_sprite"]
truth, predicted, _ = (values.ravel() for values in tour["maps"].values())
facts = {
    "contrast": contrast,
    "error": float(np.mean(tour["difference"] ** 2)),
    "distance": float(tour["distance"].max()),
    "slots": len(tour["sprite_slots"]),
    "sprites": len(tour["truth"]),
    "e_pred": [float(e_pred[where].mean()) for where in (on_sprite, ~on_sprite)],
    "hits": [float(tour["uniform_hits"]), float(tour["curious_hits"])],
    "share": {name: float(np.mean(values)) for name, values in tour["share"].items()},
    "likeness": float(np.corrcoef(truth, predicted)[0, 1]),
}
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def facts():
    settings = {"TOUR_STEPS": "150", "TOUR_EPISODES": "6", "TOUR_CLICKS": "100", "MPLBACKEND": "Agg"}
    env = {name: value for name, value in os.environ.items() if name != "DISPLAY"} | settings
    command = [sys.executable, "-W", "error", "-c", FACTS, str(TOUR)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_all_pictures_are_drawn(facts):
    assert len(facts["contrast"]) >= 12
    assert min(facts["contrast"]) > 20.0


@pytest.mark.slow
def test_it_looks(facts):
    assert facts["error"] < 0.001
    assert facts["slots"] == facts["sprites"]
    assert facts["distance"] < 0.02


@pytest.mark.slow
def test_it_explores(facts):
    on_sprites, elsewhere = facts["e_pred"]
    assert on_sprites > 3.0 * elsewhere
    uniform, curious = facts["hits"]
    # Over ten seeds of the clicks 0.066 and 0.934, standard deviations 0.011 and 0.012: twelve and more to the bars.
    assert uniform < 0.2
    assert curious > 0.7


@pytest.mark.slow
def test_it_wants_and_acts(facts):
    # Over ten seeds of learning and play, likeness is 0.88 (standard deviation 0.054) and cobra solves 0.94 more than
    # random play does (0.069): ten standard deviations and more to the bars.
    assert facts["likeness"] > 0.3  # of what it predicts all over the frame to the truth
    assert facts["share"]["cobra"] > facts["share"]["random"] + 0.2


def test_cells_are_few_and_each_is_introduced():
    cells = re.findall(r"^# %%(.*)$", TEXT, re.MULTILINE)
    assert 15 <= cells.count("") <= 25
    assert cells == [" [markdown]", ""] * (len(cells) // 2)


def test_the_files_it_names_exist():
    named = re.findall(r"`((?:src|docs|notebooks)/[\w/.-]+)`", TEXT)
    assert len(named) >= 3
    for name in named:
        assert (ROOT / name).exists(), name
