"""A batch shared by several devices: the losses are those of one device, but for rounding."""

import json
import os
import subprocess
import sys

import pytest

# Devices are counted when JAX starts, so this is a process of its own, with four.
LOSSES = """
import dataclasses, gc, json, sys
gc.set_threshold(100_000, 20, 100)  # as in conftest.py
from cobra_rl.config import EXPLORE, VISION
from cobra_rl.phases import explore, schedules, vision
from cobra_rl.spriteworld import make

env = make("exploration")
assert schedules.shared_by(6) == 2 and schedules.shared_by(3) == 1
small = dataclasses.replace(VISION["debug"], batch=4, model=dataclasses.replace(VISION["debug"].model, slots=2))
seen = vision.VisionPhase(small, env, 0).init().model
phases = {
    "vision": lambda: vision.VisionPhase(small, env, 0),
    "explore": lambda: explore.ExplorePhase(EXPLORE["debug"], env, seen, "", 0),
}
losses = {}
for name, devices in json.loads(sys.argv[1]).items():
    for count in (1, *devices):
        schedules.shared_by = lambda batch, count=count: count
        for module in (vision, explore):
            module._compiled.cache_clear()
        phase = phases[name]()
        state, found = phase.init(), []
        for step in range(3):
            state, metrics = phase.step(state, step)
            found += [float(metrics[loss]) for loss in phase.columns if loss in metrics]
        losses[f"{name} {count}"] = found
        used = max(len(leaf.sharding.device_set) for leaf in vision.jax.tree.leaves(state) if hasattr(leaf, "sharding"))
        assert used == count, (name, used)
print(json.dumps(losses))
"""

DEVICES = {"vision": (2, 4), "explore": (2, 4)}  # some of those that there are, and all


@pytest.fixture(scope="module")
def losses():
    env = os.environ | {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"}
    command = [sys.executable, "-c", LOSSES, json.dumps(DEVICES)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("phase", "devices"), [(phase, count) for phase in DEVICES for count in DEVICES[phase]])
def test_losses_are_the_same(losses, phase, devices):
    assert len(losses[f"{phase} 1"]) >= 6
    assert losses[f"{phase} {devices}"] == pytest.approx(losses[f"{phase} 1"], rel=1e-4)
