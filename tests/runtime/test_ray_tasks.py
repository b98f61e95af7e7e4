"""Jobs in Ray's processes: retried where a worker dies, done where others fail, the same as without Ray."""

import functools
import json

import jobs
import pytest

from cobra_rl.config import TASK
from cobra_rl.environments import Problem
from cobra_rl.phases.solving import learn_elsewhere
from cobra_rl.phases.task import prepare
from cobra_rl.worlds import load_world


def test_a_dead_worker_is_replaced_and_a_failure_is_said_when_the_others_are_done(tmp_path, capsys):
    ray_tasks = pytest.importorskip("cobra_rl.runtime.ray_tasks")
    calls = {"dies": functools.partial(jobs.die_once, tmp_path), "fails": jobs.fail}
    with pytest.raises(ChildProcessError, match="1 of 2 failed, such as fails: ValueError: there is no such thing"):
        ray_tasks.spread(calls, dict.fromkeys(calls, tmp_path / "log"), workers=1)
    assert "dies: done, 1 of 2" in capsys.readouterr().out


def test_two_workers_learn_what_none_learn(tmp_path, debug_world):
    pytest.importorskip("ray")

    def solving(folder):
        task, steps = Problem("goal_finding_new_shape"), {"seeds": range(2), "steps": 12, "final": 1}
        return prepare(TASK["debug"], load_world(debug_world), task, folder, **steps, world_folder=debug_world)

    alone, together = (solving(tmp_path / name) for name in ("alone", "together"))
    alone.solve()
    learn_elsewhere([together], workers=2)
    for seed in (0, 1):
        assert (together.folder / f"seed{seed}" / "scores.json").exists()  # before anything is gathered
    together.solve()
    results = [json.loads((each.folder / "result.json").read_text()) for each in (alone, together)]
    assert results[0] | {"minutes": 0} == results[1] | {"minutes": 0}
    for path in alone.folder.glob("seed*/reward/weights.safetensors"):
        assert path.read_bytes() == (together.folder / path.relative_to(alone.folder)).read_bytes()
