"""The task phase on the debug preset, with an untrained world: what is left behind, resuming, more steps and seeds."""

import dataclasses
import json
import re
import shutil

import jax
import numpy as np
import pytest
from power import power_cut

import cobra_rl
from cobra_rl import Agent, cli
from cobra_rl.agents.cobra import make_reward
from cobra_rl.agents.contract import Policy
from cobra_rl.config import COBRA, CobraConfig
from cobra_rl.environments import Problem, SparseReward
from cobra_rl.models.planner import PlannerConfig
from cobra_rl.phases import task as task_phase
from cobra_rl.phases.task import TaskPhase
from cobra_rl.reporting.figures import tasks
from cobra_rl.reporting.runs import read_runs
from cobra_rl.runs import task as task_runs
from cobra_rl.runs.folder import OtherRun
from cobra_rl.runs.loop import Diverged
from cobra_rl.runs.task import solve
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import EnvSpec, FindGoal, SpriteDistribution, Spriteworld, make

PROBLEM, STEPS = Problem("goal_finding_new_shape"), 44


@pytest.fixture
def quick(monkeypatch):
    """What is slow to compile, and not asked about in most tests here."""
    monkeypatch.setattr(CobraConfig, "save_every", 10)
    monkeypatch.setattr(task_runs, "reference_scores", lambda *_, **__: {})
    monkeypatch.setattr(task_runs, "greedy_scores", lambda *_, **__: {"success_train": 0.5, "success_test": 0.5})
    monkeypatch.setattr(task_runs, "normalised_reward", lambda *_: {})


@pytest.fixture(scope="module")
def run(debug_world):
    """The arguments of a run with two seeds."""
    budget = {"seeds": range(2), "steps": STEPS, "final": 4, "side_by_side": 1}
    return {"config": COBRA["debug"], "problem": PROBLEM, "world_folder": debug_world, **budget}


def test_a_run_that_crashed_goes_on_as_if_it_had_not(run, quick, tmp_path, monkeypatch):
    whole = solve(folder=tmp_path / "whole", **run)
    with power_cut(TaskPhase, at=33):
        solve(folder=tmp_path / "parts", **run)
    parts_of_it = solve(folder=tmp_path / "parts", **run)
    assert whole["seeds"] == parts_of_it["seeds"]
    assert [len(seed["ends"]) == seed["episodes"] >= 2 for seed in whole["seeds"]] == [True, True]
    assert whole["seeds"][0]["ends"] != whole["seeds"][1]["ends"] or whole["seeds"][0] != whole["seeds"][1]
    assert json.loads((tmp_path / "whole" / "result.json").read_text())["seeds"] == whole["seeds"]
    with monkeypatch.context() as idle:
        idle.setattr(task_runs, "run", None)  # what has come to its end is not done again
        assert solve(folder=tmp_path / "whole", **run)["seeds"] == whole["seeds"]


def test_more_steps_and_more_seeds_add_to_a_run_exactly(run, quick, tmp_path, capsys):
    once = solve(folder=tmp_path / "once", **run)
    solve(folder=tmp_path / "twice", **run | {"steps": 30, "seeds": range(1)})
    more = solve(folder=tmp_path / "twice", **run)
    assert more["seeds"] == once["seeds"]
    assert "resumes at step 30 of 44" in capsys.readouterr().out
    last = solve(folder=tmp_path / "last", **run | {"seeds": range(1, 2)})
    assert last["seeds"] == once["seeds"][1:]
    with pytest.raises(ValueError, match=r"holds a run of 44 steps and cannot be made shorter \(20 asked\)"):
        solve(folder=tmp_path / "once", **run | {"steps": 20})
    for fewer in (range(1), range(1, 3)):
        with pytest.raises(
            ValueError, match=r"once holds results of seed [01], which --first-seed and --seeds leave out"
        ):
            solve(folder=tmp_path / "once", **run | {"seeds": fewer})
    with pytest.raises(OtherRun, match=r"other settings \(config.planner.proposals: 8, now 9\); give another folder"):
        solve(
            folder=tmp_path / "once", **run | {"config": dataclasses.replace(COBRA["debug"], planner=PlannerConfig(9))}
        )
    record = json.loads((tmp_path / "once" / "run.json").read_text())
    config = record["settings"]["config"]
    del config["wait_for_reward"], config["reward"]["pair_cost"]  # newer settings take their defaults, nested ones too
    (tmp_path / "once" / "run.json").write_text(json.dumps(record))
    assert solve(folder=tmp_path / "once", **run)["seeds"] == once["seeds"]


def test_seeds_side_by_side_leave_what_seeds_one_by_one_leave(run, quick, tmp_path, capsys):
    alone = solve(folder=tmp_path / "alone", **run)
    with power_cut(TaskPhase, at=33):
        solve(folder=tmp_path / "both", **run | {"side_by_side": 2})
    assert (tmp_path / "both" / "seeds0-1" / "log.jsonl").exists()
    both = solve(folder=tmp_path / "both", **run)  # they were begun together, and so they go on
    assert [seed["ends"] for seed in both["seeds"]] == [seed["ends"] for seed in alone["seeds"]]
    assert "seeds 0 to 1 side by side: resumes at step 30 of 44" in capsys.readouterr().out
    for seed in range(2):
        first, second = (Agent.load(tmp_path / name, seed).predictor for name in ("alone", "both"))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), first, second)
    (line,) = read_runs(tmp_path / "both")
    assert (line.far, line.state) == ("88/88", "finished")
    more = solve(folder=tmp_path / "both", **run | {"seeds": range(3), "steps": 50})
    assert [seed["seed"] for seed in more["seeds"]] == [0, 1, 2]
    assert (tmp_path / "both" / "seed2" / "log.jsonl").exists()
    last = json.loads((tmp_path / "both" / "seeds0-1" / "log.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 50
    assert {"success_seed0", "success_seed1"} <= last.keys()


def test_a_run_is_loaded_with_its_own_world_and_all_its_settings(run, quick, tmp_path, debug_world):
    config = dataclasses.replace(COBRA["debug"], epsilon=0.3, weight_decay=0.1, discount=0.5)
    folder = tmp_path / "run"
    solve(folder=folder, **run | {"config": config, "seeds": range(1), "steps": 10})
    moved = shutil.copytree(folder, tmp_path / "moved")
    agent = Agent.load(moved)
    assert agent.config == config
    assert agent.problem == PROBLEM
    assert agent.world.sizes.slots == 3  # the world of the run, not the shipped one with its 8 slots
    assert Agent.load(moved, world=debug_world).world.sizes.slots == 3
    with pytest.raises(ValueError, match=r"learnt in another world than .*; give its folder, by --world FOLDER"):
        Agent.load(moved, world=cobra_shipped())
    shutil.rmtree(moved / "world")
    record = json.loads((moved / "run.json").read_text())
    record["settings"]["world"]["path"] = "gone"
    (moved / "run.json").write_text(json.dumps(record))
    with pytest.raises(
        FileNotFoundError, match=r"is no longer there \(gone\); give its folder, by --world FOLDER .* or world= "
    ):
        Agent.load(moved)
    with pytest.raises(FileNotFoundError, match="holds no agent of seed 7 yet"):
        Agent.load(folder, seed=7)


def cobra_shipped():
    from cobra_rl.runs.worlds import find_world

    return find_world("structured")


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no run of `cobra solve`"):
        Agent.load(tmp_path)


@pytest.mark.parametrize(
    ("problem", "value", "name"),
    [
        (Problem("sorting"), False, "sorting"),
        (Problem("sorting", "released"), True, "sorting-released-value"),
        (Problem("sorting", sparse=True), True, "sorting-sparse"),
        (Problem("sorting", sparse=True, exploration_policy=False), False, "sorting-sparse-reward-uniform"),
    ],
)
def test_folders_say_what_was_asked_for(problem, value, name):
    assert problem.name(value) == name


def test_a_sparse_reward_is_that_of_success():
    env = make("goal_finding_new_shape")
    state = jax.jit(env.initial)(jax.random.key(0))
    action = np.full(4, 0.5, np.float32)
    dense, sparse = (jax.jit(kind.advance)(jax.random.key(1), state, action) for kind in (env, SparseReward(env)))
    assert float(sparse.reward) == float(dense.terminated)
    assert float(dense.reward) != 0.0


@pytest.fixture(scope="module")
def agent(debug_world):
    config, world = COBRA["debug"], load_world(debug_world)
    predictor = make_reward(config.reward, world.sizes.latents, jax.random.key(2))
    return Agent(world, predictor, config, world_folder=debug_world)


def test_an_agent_acts_on_what_it_sees(agent):
    action = agent.act(np.zeros((64, 64, 3), np.uint8))
    assert action.shape == (4,)
    assert ((action >= 0.0) & (action <= 1.0)).all()
    with pytest.raises(ValueError, match="must be uint8"):
        agent.act(np.zeros((64, 64, 3)))
    with pytest.raises(ValueError, match="for a batch use `act_batch`"):
        agent.act(np.zeros((2, 64, 64, 3), np.uint8))


def test_acting_is_pure_batched_and_compiled_once_for_all_epsilons(agent):
    images = jax.random.randint(jax.random.key(0), (3, 64, 64, 3), 0, 255).astype(np.uint8)
    keys = jax.random.split(jax.random.key(1), 3)
    from cobra_rl.runs import agent as module

    before = agent.act_batch(images, keys, 0.1)
    compiled = module._choose._cached._cache_size()
    again = agent.act_batch(images, keys, 0.1)
    agent.act_batch(images, keys, 0.7)
    assert module._choose._cached._cache_size() == compiled
    np.testing.assert_array_equal(before, again)
    within = jax.jit(lambda images, keys: agent.act_batch(images, keys))(images, keys)
    np.testing.assert_allclose(within, agent.act_batch(images, keys), atol=1e-6)
    assert isinstance(agent.policy, Policy)
    np.testing.assert_allclose(agent.policy.act(agent.params, images, keys), within, atol=1e-6)


def test_an_agent_is_saved_and_loaded(agent, tmp_path):
    folder = agent.save(tmp_path / "mine")
    back = Agent.load(folder)
    image = np.full((64, 64, 3), 99, np.uint8)
    keys = jax.random.split(jax.random.key(3), 1)
    np.testing.assert_array_equal(agent.act_batch(image[None], keys), back.act_batch(image[None], keys))
    assert back.config == agent.config


SQUARE = SpriteDistribution(shapes=("square",))
SPEC = EnvSpec("to the left", scenes=((SQUARE,),), task=FindGoal((0.2, 0.5)), max_steps=20)


def test_an_own_task_is_learnt_with_all_that_a_run_has(debug_world, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tasks, "FILM_FRAMES", 4)
    options = {"config": COBRA["debug"], "world": debug_world, "final": 2, "report": cobra_rl.report_run}
    agent = Agent.learn(SPEC, steps=12, folder=tmp_path, **options)
    assert "Learning to the left" in (tmp_path / "learning_curve.txt").read_text()
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("learning_curve.png", "film.gif"))
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["problem"]["task"] == "to the left"
    assert result["seeds"][0].keys() >= {"success_train", "success_test", "ends", "steps_to_90"}
    assert (tmp_path / "seed0" / "log.jsonl").exists()
    assert agent.act(np.zeros((64, 64, 3), np.uint8)).shape == (4,)
    output = capsys.readouterr().out
    assert "compiling" in output
    assert "12/12" in output
    with pytest.raises(ValueError, match="report is given, but no folder"):
        Agent.learn(SPEC, steps=12, **options)


def test_without_a_folder_nothing_is_scored(debug_world, capsys, monkeypatch):
    """Nobody would see it, and to score takes longer than to learn a few hundred steps."""
    monkeypatch.setattr("cobra_rl.runs.task.reference_scores", lambda *given: pytest.fail("reference policies play"))
    monkeypatch.setattr("cobra_rl.runs.task.greedy_scores", lambda *given, **more: pytest.fail("the agent plays"))
    agent = Agent.learn(SPEC, steps=12, config=COBRA["debug"], world=debug_world)
    assert "12/12" in capsys.readouterr().out
    assert agent.act(np.zeros((64, 64, 3), np.uint8)).shape == (4,)
    assert re.fullmatch(r"Agent\('to the left', world='world\d*', reward='\w+', planner='one_step'\)", repr(agent))


@pytest.mark.parametrize("keeps", [True, False])
def test_an_own_task_is_watched_and_evaluated_wherever_its_run_lies(keeps, quick, debug_world, tmp_path, capsys):
    options = {"config": COBRA["debug"], "world": debug_world, "final": 2}
    agent = Agent.learn(SPEC, steps=6, folder=tmp_path / "run" if keeps else None, **options)
    folder = tmp_path / "run" if keeps else agent.save(tmp_path / "run")
    moved = folder.rename(tmp_path / "moved")
    copied = Agent.load(moved).save(tmp_path / "copied")
    for place in (moved, copied):
        assert Agent.load(place).problem.environments() == {mode: Spriteworld(SPEC) for mode in ("train", "test")}
    cli.main(["watch", "--run", str(copied), "--frames", "2", "--out", str(tmp_path / "film.gif")])
    assert (tmp_path / "film.gif").exists()
    cli.main(["evaluate", str(copied), "--episodes", "2"])
    assert "to the left" in capsys.readouterr().out
    if keeps:  # a run that was moved goes on
        Agent.learn(SPEC, steps=8, folder=moved, **options)
        assert "resumes at step 6 of 8" in capsys.readouterr().out


def test_checks_say_from_when_on_the_greedy_agent_keeps_to_90_percent(run, quick, tmp_path, monkeypatch):
    monkeypatch.setattr(task_phase, "CONFIRM", 4)
    result = solve(folder=tmp_path, **run | {"seeds": range(1), "steps": 6, "check_every": 3})
    row = result["seeds"][0]
    assert [step for step, _ in row["checks"]] == [3, 6]
    assert all(0.0 <= success <= 1.0 for _, success in row["checks"])
    assert row["steps_to_90_kept"] is None  # it has learnt nothing
    kept = task_phase._kept
    assert kept([(25, 0.95), (50, 0.8), (75, 0.9), (100, 1.0)]) == 75
    assert kept([(25, 0.95), (50, 0.9)]) == 25
    assert kept([(25, 0.95), (50, 0.5)]) is None


def test_rewards_that_are_no_numbers_are_refused(debug_world, tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Broken(FindGoal):
        def __call__(self, sprites):
            reward, success = super().__call__(sprites)
            return reward * np.float32("nan"), success

    env = Spriteworld(dataclasses.replace(SPEC, task=Broken()))
    with pytest.raises(Diverged, match="gives rewards that are not finite"):
        Agent.learn(env, steps=5, config=COBRA["debug"], world=debug_world, folder=tmp_path, final=2)


def test_rewards_above_the_cap_are_said(quick, debug_world, tmp_path, capsys):
    @dataclasses.dataclass(frozen=True)
    class Generous(FindGoal):
        def __call__(self, sprites):
            return jax.numpy.float32(7.0), jax.numpy.bool_(False)

    generous = dataclasses.replace(SPEC, task=Generous())
    config = dataclasses.replace(COBRA["debug"], reward_cap=0.5)
    Agent.learn(generous, steps=5, config=config, world=debug_world, folder=tmp_path, final=2)
    assert "5 rewards were above config.reward_cap (0.5) and were learnt as that" in capsys.readouterr().out
    with pytest.raises(
        ValueError, match=r"'to the left' is no task of the suite, and where .* is not known; give your"
    ):
        Agent.load(tmp_path).problem.environments()  # a reward of one's own cannot be written to a file
