"""Baselines whose experience Ray actors collect: the debug preset, with an untrained world."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from cobra_rl import cli
from cobra_rl.agents.mpo import Mpo
from cobra_rl.collect.actors import LocalActors
from cobra_rl.config import MPO
from cobra_rl.environments import Problem
from cobra_rl.phases.task import TaskPhase
from cobra_rl.reporting.figures import tasks
from cobra_rl.runs import task as task_runs
from cobra_rl.runs.folder import OtherRun
from cobra_rl.runs.task import prepare

TASK = "goal_finding_new_shape"
RAW = MPO["debug"]
STEPS, CHUNK = 80, 10


class Chunks:
    """Two actors in this process that send `CHUNK` steps at a time, as Ray actors do; they die after `lives` calls."""

    replaced = 0

    def __init__(self, begin, play, parts, seed, lives=10**6):
        self._actors = [LocalActors(begin, play, parts, seed + number) for number in range(2)]
        self.policies, self.lives, self.closed = [], lives, False

    def collect(self, policy, wait):
        if len(self.policies) == self.lives:
            raise ChildProcessError("3 actors failed in a row: no room.")
        self.policies.append(policy)
        return [self._chunk(actor, policy) for actor in self._actors]

    def _chunk(self, actor, policy):
        parts = [part for _ in range(CHUNK) for part in actor.collect(policy)]
        chunk = jax.tree.map(lambda *leaves: np.concatenate([np.atleast_1d(leaf) for leaf in leaves]), *parts)
        return chunk._replace(hits=chunk.hits.mean())

    def close(self):
        self.closed = True


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """What is slow to compile, and not asked about here."""
    monkeypatch.setattr(task_runs, "reference_scores", lambda *_, **__: {})
    monkeypatch.setattr(task_runs, "greedy_scores", lambda *_, **__: {"success_train": 0.5, "success_test": 0.5})
    monkeypatch.setattr(task_runs, "normalised_reward", lambda *_: {})


def asked(folder, made, check_every=0, **options):
    """A run of one seed whose actors are added to the list `made`."""

    def make_actors(*given):
        made.append(Chunks(*given, **options))
        return made[-1]

    options_of_run = {"steps": STEPS, "final": 2, "check_every": check_every, "make_actors": make_actors}
    return prepare(RAW, Problem(TASK), folder, **options_of_run)


def lines(folder):
    return [json.loads(line) for line in (folder / "seed0" / "log.jsonl").read_text().splitlines()]


def test_actors_play_no_more_than_was_asked_for_and_get_the_newest_policy(tmp_path):
    made = []
    result = asked(tmp_path, made).solve()
    (actors,) = made
    assert actors.closed
    assert len(actors.policies) == STEPS // (2 * CHUNK)
    assert lines(tmp_path)[-1]["env_steps"] == STEPS
    assert result["actors"] == "ray"
    first, *_, last = (jax.tree.leaves(policy)[0] for policy in actors.policies)
    assert not np.array_equal(first, last)


def test_checks_come_when_they_are_due_though_several_chunks_come_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(TaskPhase, "_greedy_success", lambda *_: 0.5)
    (row,) = asked(tmp_path, [], check_every=30).solve()["seeds"]
    assert row["checks"] == [[40, 0.5], [60, 0.5]]


def test_as_much_is_learnt_from_what_actors_send_as_from_what_is_played_here(tmp_path):
    run = asked(tmp_path, [])
    learner = Mpo(RAW).with_actors(run.make_actors, run.train_env, None, 0)
    state, sizes, updates = learner.begin(run.train_env, None, [0]), [], []
    for _ in range(STEPS // RAW.envs):
        state, outcome, metrics = learner.step(run.train_env, None, state)
        sizes.append(int(state.replay.size))
        updates.append("td" in metrics)
        assert outcome.done.shape[1] in (0, 2 * CHUNK)
    assert sizes[:6] == [20, 20, 20, 20, 20, 40]  # 20 steps at a time, for 4, 8, ... 24 that are due
    assert updates == [(step + 1) * RAW.envs >= RAW.warmup_steps for step in range(STEPS // RAW.envs)]
    ratio = np.diff([0, *(int((step + 1) * RAW.envs * RAW.replay_ratio / RAW.batch) for step in range(20))])
    assert int(ratio.sum()) == STEPS * RAW.replay_ratio / RAW.batch


def test_a_run_whose_actors_fail_for_good_is_saved_and_goes_on(tmp_path):
    made = []
    with pytest.raises(ChildProcessError, match="Stopped at step 10 of 20; the same command goes on"):
        asked(tmp_path, made, lives=2).solve()
    assert made[0].closed
    asked(tmp_path, made).solve()
    assert len(made[1].policies) == 2  # the other half
    assert [line["step"] for line in lines(tmp_path)][-1] == STEPS // RAW.envs


def test_a_folder_of_actors_is_not_continued_without_them(tmp_path):
    asked(tmp_path, []).solve()
    with pytest.raises(OtherRun, match="actors: ray, now local"):
        prepare(RAW, Problem(TASK), tmp_path, steps=STEPS, final=2).solve()


def test_options_of_actors_that_contradict_each_other_are_refused(capsys):
    def refused(*options):
        with pytest.raises(SystemExit):
            cli.main(["baseline", TASK, "--preset", "debug", *options])
        return capsys.readouterr().err

    assert "only Ray uses it" in refused("--actors", "2")
    assert "give one of them" in refused("--runtime", "ray", "--actors", "2", "--workers", "2")


@pytest.mark.slow
def test_ray_actors_collect_for_a_baseline_that_encodes(tmp_path, debug_world, monkeypatch, capsys):
    ray = pytest.importorskip("cobra_rl.collect.ray_start").ray
    monkeypatch.setattr(tasks, "FILM_FRAMES", 3)
    out, kind = tmp_path / "run", ["--features", "slots", "--policy", "deformed", "--world", str(debug_world)]
    budget = ["--preset", "debug", "--steps", "120", "--final", "2", "--config.capacity", "128"]
    command = ["baseline", TASK, *kind, *budget, "--runtime", "ray", "--actors", "1", "--out", str(out)]
    cli.main(command)
    assert not ray.is_initialized()
    result = json.loads((out / "result.json").read_text())
    assert (result["agent"], result["actors"]) == ("mpo_handheld", "ray")
    assert result["seeds"][0]["episodes"] >= 120 // 20 - 1
    assert lines(out)[-1]["env_steps"] == 150  # fifty at a time
    capsys.readouterr()
    cli.main(command)
    assert "finished, 120 steps are done" in capsys.readouterr().out


def test_the_networks_of_the_other_features_are_refused(capsys):
    for features, option in (("pixels", "actor-slot-layers"), ("slots", "hidden")):
        with pytest.raises(SystemExit):
            cli.main(["baseline", TASK, "--features", features, f"--config.networks.{option}", "32"])
        assert f"--config.networks.{option} is of no use with --features {features}" in capsys.readouterr().err


def test_a_world_that_would_not_be_used_is_refused(debug_world, tmp_path):
    with pytest.raises(ValueError, match="mpo_raw uses no world model; leave --world out"):
        prepare(RAW, Problem(TASK), tmp_path, world_folder=debug_world)
    assert Mpo(dataclasses.replace(RAW, policy="deformed")).uses_world
