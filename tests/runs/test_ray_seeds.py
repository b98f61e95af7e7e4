"""Jobs in Ray's processes: retried where a worker dies, done where others fail, the same as without Ray."""

import dataclasses
import functools
import json

import jobs
import pytest

from cobra_rl import cli
from cobra_rl.cli.learning import Learning
from cobra_rl.cli.options import command_line
from cobra_rl.config import COBRA, MPO
from cobra_rl.environments import Problem
from cobra_rl.runs import task as task_runs
from cobra_rl.runs.task import prepare


@pytest.mark.slow
def test_a_dead_worker_is_replaced_and_a_failure_is_said_when_the_others_are_done(tmp_path, capsys):
    ray_tasks = pytest.importorskip("cobra_rl.runs.ray_seeds")
    log = tmp_path / "log"
    calls = {"dies": (functools.partial(jobs.die_once, tmp_path), log), "fails": (jobs.fail, log)}
    with pytest.raises(ChildProcessError, match="1 of 2 failed, such as fails: ValueError: there is no such thing"):
        ray_tasks.spread(calls, workers=1)
    assert "dies: done, 1 of 2" in capsys.readouterr().out


@pytest.mark.slow
def test_two_workers_learn_what_none_learn(tmp_path, debug_world, capsys):
    """Of a task by the command line, and of a baseline; both in the processes of one start of Ray."""
    ray = pytest.importorskip("cobra_rl.collect.ray_start").ray
    task, given = Problem("goal_finding_new_shape"), {"final": 1, "world_folder": debug_world}
    command = ["solve", task.task, "--preset", "debug", "--world", str(debug_world), "--steps", "12", "--final", "1"]

    def solve(folder):
        seeds = {"seeds": range(2), "steps": 12, "command": command_line(), "side_by_side": 1}
        return prepare(COBRA["debug"], task, folder, **given, **seeds)

    def baseline(folder):
        config = dataclasses.replace(MPO["debug"], features="slots", policy="deformed")
        return prepare(config, task, folder, seeds=range(2, 3), steps=24, **given)

    solve(tmp_path / "alone").solve()
    baseline(tmp_path / "baseline-alone").solve()
    learn = task_runs.learn_elsewhere

    def learn_both(solvings, *options):
        learn([*solvings, baseline(tmp_path / "baseline-together")], *options)
        for place in ("together/seed0", "together/seed1", "baseline-together/seed2"):
            assert (tmp_path / place / "scores.json").exists()  # before anything is gathered

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_runs, "learn_elsewhere", learn_both)
        patch.setattr(Learning, "show", lambda *_: None)
        cli.main([*command, "--seeds", "2", "--runtime", "ray", "--workers", "2", "--out", str(tmp_path / "together")])
    assert not ray.is_initialized()
    baseline(tmp_path / "baseline-together").solve()
    for alone in (tmp_path / "alone", tmp_path / "baseline-alone"):
        together = alone.with_name(alone.name.replace("alone", "together"))
        results = [json.loads((folder / "result.json").read_text()) for folder in (alone, together)]
        assert results[0] | {"minutes": 0} == results[1] | {"minutes": 0}
        weights = sorted(alone.glob("seed*/*/weights.safetensors"))
        assert weights
        for path in weights:
            assert path.read_bytes() == (together / path.relative_to(alone)).read_bytes()
