"""The baselines on the debug preset, with an untrained world: what is left behind, resuming, and who sees what."""

import dataclasses
import functools
import json
import os
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from power import power_cut

from cobra_rl import Agent, cli
from cobra_rl.agents import model_free
from cobra_rl.agents.model_free import to_environment
from cobra_rl.agents.mpo import Mpo, MpoParams, mpo_policy
from cobra_rl.config import BASELINES, MPO
from cobra_rl.environments import Problem
from cobra_rl.models.transition import Sizes
from cobra_rl.models.world import WorldModel
from cobra_rl.phases import task as task_phase
from cobra_rl.phases.task import TaskPhase
from cobra_rl.play import inspection
from cobra_rl.play.catalogue import AgentCatalogue, GivenRun
from cobra_rl.reporting.figures import tasks
from cobra_rl.reporting.results import task_result
from cobra_rl.reporting.runs import read_runs
from cobra_rl.runs import task as task_runs
from cobra_rl.runs.folder import OtherRun
from cobra_rl.runs.load import OtherAgent, learnt_seeds, load_agent
from cobra_rl.runs.settings import task_settings
from cobra_rl.runs.task import prepare
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import make

TASK = "goal_finding_new_shape"
PROBLEM, STEPS = Problem(TASK), 100  # in four environments
QUADRANT = [dataclasses.replace(MPO["debug"], features=seen, policy=done) for seen, done in BASELINES]
RAW, HANDHELD = QUADRANT[0], QUADRANT[-1]


@pytest.fixture
def quick(monkeypatch):
    """What is slow to compile, and not asked about in most tests here."""
    monkeypatch.setattr(task_runs, "reference_scores", lambda *_, **__: {})
    monkeypatch.setattr(task_runs, "greedy_scores", lambda *_, **__: {"success_train": 0.5, "success_test": 0.5})
    monkeypatch.setattr(task_runs, "normalised_reward", lambda *_: {})


@pytest.fixture(scope="module")
def world(debug_world):
    return load_world(debug_world)


def asked(folder, config=RAW, world=None, **changes):
    """A run of one seed, small enough for a test."""
    options = {"seeds": range(1), "steps": STEPS, "final": 2, "world_folder": world} | changes
    return prepare(config, PROBLEM, folder, **options)


def test_a_run_that_crashed_goes_on_as_if_it_had_not(debug_world, quick, tmp_path):
    config = HANDHELD
    whole = asked(tmp_path / "whole", config, debug_world).solve()
    with power_cut(TaskPhase, at=17):
        asked(tmp_path / "parts", config, debug_world).solve()
    assert asked(tmp_path / "parts", config, debug_world).solve()["seeds"] == whole["seeds"]
    for file in ("checkpoints/step_00000025.safetensors", "actor_critic/weights.safetensors"):
        first, second = ((tmp_path / name / "seed0" / file).read_bytes() for name in ("whole", "parts"))
        assert _without_time(first) == _without_time(second), file
    assert whole["steps"] == STEPS
    assert whole["seeds"][0]["ends"][0] <= 4 * make(TASK).max_steps
    assert whole["config"]["replay_ratio"] == 4.0
    result = task_result(whole)
    assert (result.agent, result.replay_ratio) == (config.name, 4.0)
    assert 0 < result.seeds[0].curve[0][-1] <= STEPS


def _without_time(data: bytes) -> bytes:
    """All of a safetensors file but its header, which holds the seconds that a run took."""
    return data[8 + int.from_bytes(data[:8], "little") :]


def test_more_steps_and_seeds_add_exactly_and_other_settings_are_refused(quick, tmp_path):
    once = asked(tmp_path / "once", seeds=range(2)).solve()
    asked(tmp_path / "twice", steps=42).solve()  # 44: whole steps of four environments
    assert json.loads((tmp_path / "twice" / "result.json").read_text())["steps"] == 44
    assert asked(tmp_path / "twice", seeds=range(2)).solve()["seeds"] == once["seeds"]
    for file in ("checkpoints/step_00000025.safetensors", "actor_critic/weights.safetensors"):
        first, second = ((tmp_path / name / "seed0" / file).read_bytes() for name in ("once", "twice"))
        assert _without_time(first) == _without_time(second), file
    assert once["world"] is None
    with pytest.raises(OtherRun, match=r"config\.replay_ratio: 4\.0, now 8\.0"):
        asked(tmp_path / "once", dataclasses.replace(RAW, replay_ratio=8.0)).solve()
    far = pickle.loads(pickle.dumps(asked(tmp_path / "far", seeds=range(2))))  # as Ray sends it to a worker
    assert far.learn(range(1, 2))[0].items() <= once["seeds"][1].items()


def test_checks_are_counted_in_environment_steps(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(task_phase, "CONFIRM", 1)
    row = asked(tmp_path, steps=24, check_every=10).solve()["seeds"][0]
    assert [step for step, _ in row["checks"]] == [12, 20]  # after the whole steps of four environments


def test_what_does_not_fit_is_refused_before_a_folder_is_made(tmp_path, monkeypatch):
    with monkeypatch.context() as small:
        small.setattr(os, "sysconf", lambda _: 100)  # a machine of 10 kB
        with pytest.raises(ValueError, match=r"take a smaller --config\.capacity"):
            asked(tmp_path / "run")
    networks = dataclasses.replace(RAW.networks, shrink=5)
    with pytest.raises(ValueError, match="Pictures of 64 pixels cannot be cut into patches of 5"):
        asked(tmp_path / "run", dataclasses.replace(RAW, networks=networks))
    with pytest.raises(ValueError, match="2 sides for 1 channels; there must be one for each"):
        dataclasses.replace(RAW.networks, patches=(2, 2))
    with pytest.raises(ValueError, match=r"capacity of MpoConfig is 3; it must be at least envs \(4\)"):
        dataclasses.replace(RAW, capacity=3)
    assert not (tmp_path / "run").exists()


def aged(acting, steps):
    """The same states, so many steps after their episodes began."""
    return acting._replace(envs=eqx.tree_at(lambda envs: envs.step, acting.envs, steps))


def seed_of(config, folder, world):
    """The description of a run, its learner, and the first state of a seed."""
    run = asked(folder, config, world if Mpo(config).uses_world else None)
    learner = Mpo(config)
    return run, learner.begin(run.train_env, run.world, [0])


@pytest.mark.parametrize("config", [RAW, HANDHELD], ids=lambda config: config.name)
def test_what_is_not_seen_does_not_change_what_is_done(config, debug_world, tmp_path):
    """Two states with the same picture (an episode's age is not seen) get the same actions."""
    run, state = seed_of(config, tmp_path, debug_world)
    young = state.acting
    old = aged(young, young.envs.step + 7)
    move = functools.partial(model_free.move, run.train_env, config, run.world, state.agent.networks)
    first, second = (move(state)[1].action for state in (young, old))
    np.testing.assert_array_equal(first, second)
    assert ((first >= 0.0) & (first <= 1.0)).all()


@pytest.mark.parametrize(("changes", "untouched"), [([], 12), ([3], 4), ([1, 4, 6, 11], 4), ([*range(12)], 0)])
def test_scenes_that_have_changed_are_encoded_again_and_no_more_groups(changes, untouched, debug_world):
    world = load_world(debug_world)
    images = np.random.default_rng(0).integers(0, 255, (2, 12, 64, 64, 3), np.uint8)
    now = images[0].copy()
    now[changes] = images[1][changes]
    old = np.full((12, *world.sizes[:2]), 7.0, np.float32)
    slots = np.asarray(model_free.encode_changed(world, old, images[0], now))
    encoded = (slots != 7.0).any((1, 2))
    assert encoded[changes].all()
    assert (~encoded).sum() == untouched  # groups of 8
    np.testing.assert_allclose(slots[encoded], np.asarray(world.encode(now))[encoded], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", QUADRANT, ids=lambda config: config.name)
def test_the_quadrant_is_what_is_seen_and_what_is_done(config, world):
    env, used = make(TASK), world if Mpo(config).uses_world else None
    networks = eqx.filter_eval_shape(Mpo(config).init, world.sizes, jax.random.key(0)).networks
    acting = eqx.filter_eval_shape(model_free.begin, env, 3, None, jax.random.key(0))
    slots = None if used is None else jax.ShapeDtypeStruct((3, *world.sizes[:2]), jnp.float32)
    move = functools.partial(model_free.move, env, config)
    _, step, _ = eqx.filter_eval_shape(move, used, networks, acting._replace(slots=slots))
    seen = eqx.filter_eval_shape(model_free.policy_input, env, config, step.observation)
    assert (seen.dtype, seen.shape) == {
        "pixels": (jnp.uint8, (3, 64, 64, 3)),
        "slots": (jnp.float32, (3, *world.sizes[:2])),
    }[config.features]
    assert step.action.shape == (3, 4)
    images, keys = np.zeros((2, 64, 64, 3), np.uint8), jax.random.split(jax.random.key(2), 2)
    assert eqx.filter_eval_shape(mpo_policy(config).act, MpoParams(used, networks), images, keys).shape == (2, 4)


def test_only_deformed_actions_are_deformed(world):
    u = jax.random.uniform(jax.random.key(0), (5, 4))
    slots = jax.random.normal(jax.random.key(1), (5, 3, world.sizes.latents))
    raw, deformed = (to_environment(config, world, slots, u) for config in QUADRANT[1::2])
    np.testing.assert_array_equal(raw, u)
    np.testing.assert_array_equal(deformed, world.deform(slots, u))


def test_sampled_actions_are_those_of_the_gaussian():
    networks = Mpo(RAW).init(Sizes(0, 0, 4, 64), jax.random.key(0)).networks
    images, keys = jnp.zeros((1000, 64, 64, 3), jnp.uint8), jax.random.split(jax.random.key(1), 1000)
    mean, sampled = (mpo_policy(RAW, drawn).act(MpoParams(None, networks), images, keys) for drawn in (False, True))
    of = networks.policy(images[:1])
    np.testing.assert_allclose(mean[0], of.mean[0], atol=1e-6)
    for share, deviation in ((0.25, -0.6745), (0.5, 0.0), (0.75, 0.6745)):  # quartiles of a Gaussian
        expected = (of.mean + deviation * of.scale)[0]
        np.testing.assert_allclose(np.quantile(sampled, share, axis=0), expected, atol=0.05)


def test_an_episodes_last_step_leads_back_to_its_own_scene(tmp_path):
    run, state = seed_of(RAW, tmp_path, None)
    last = run.train_env.max_steps - 1
    acting = aged(state.acting, jnp.array([0, last, last, 3]))
    after, step, _ = model_free.move(run.train_env, RAW, None, state.agent.networks, acting)
    np.testing.assert_array_equal(step.truncated, [False, True, True, False])
    np.testing.assert_array_equal(after.envs.step, [1, 0, 0, 4])
    np.testing.assert_array_equal(model_free.with_next(RAW, step, after).next_observation.step, [1, last, last, 4])


@pytest.fixture(scope="module")
def runs(debug_world, tmp_path_factory):
    """What the command left of MPO handheld and MPO raw, by name."""
    folder = tmp_path_factory.mktemp("runs")
    options = ["--preset", "debug", "--steps", "44", "--final", "2"]
    kinds = {"handheld": ["--features", "slots", "--policy", "deformed", "--world", str(debug_world)], "raw": []}
    with pytest.MonkeyPatch.context() as quicker:
        quicker.setattr(task_runs, "reference_scores", lambda *_, **__: {})
        quicker.setattr(tasks, "FILM_FRAMES", 3)
        for name, kind in kinds.items():
            cli.main(["baseline", TASK, *kind, *options, "--out", str(folder / name)])
    return folder


def test_the_command_leaves_a_result_a_curve_and_a_film(runs, debug_world):
    out = runs / "handheld"
    assert (out / "film.gif").exists()
    assert (out / "learning_curve.png").exists()
    assert "samples of the policy" in (out / "learning_curve.txt").read_text()
    assert json.loads((out / "result.json").read_text())["agent"] == "mpo_handheld"
    player = load_agent(out)
    assert isinstance(player, OtherAgent)
    assert player.name == f"{TASK}-mpo_handheld"
    assert player.world.sizes.slots == 3  # the run brought its own world along
    assert learnt_seeds(out) == [0]
    assert task_settings(runs / "raw").world is None
    with pytest.raises(ValueError, match="was learnt by mpo_handheld, not by COBRA"):
        Agent.load(out)
    lines = {line.folder.name: line for line in read_runs(runs)}
    assert lines["raw"][1:3] == ("mpo raw, goal finding new shape, 1 seed", "44/44")
    assert lines["handheld"].state == "finished"


@pytest.mark.parametrize(("name", "columns"), [("handheld", 2), ("raw", 1)])
def test_a_run_is_measured_filmed_and_watched(runs, name, columns, debug_world, tmp_path, monkeypatch):
    monkeypatch.setattr(WorldModel, "masks", lambda *_: jnp.zeros((1, 4, 64, 64)))  # slow to compile
    film = tmp_path / "film.gif"
    cli.main(["watch", "--run", str(runs / name), "--frames", "2", "--out", str(film)])
    with Image.open(film) as gif:
        assert gif.width == columns * 200  # the scene, and the slots if it sees any
    catalogue = AgentCatalogue(load_world(debug_world), debug_world, tmp_path, {name: GivenRun(runs / name)})
    chosen = catalogue.load(f"run:{name}", "test")
    assert chosen.reward_head is None
    assert (chosen.params.world is catalogue.world) == (name == "handheld")
    if name == "raw":
        measured = tmp_path / "metrics.json"
        cli.main(["evaluate", str(runs / name), "--episodes", "2", "--out", str(measured)])
        assert task_result(json.loads(measured.read_text())["figures"]).agent == "mpo_raw"
        cli.main(["evaluate", str(runs / name), "--episodes", "2", "--sampled", "--out", str(measured)])
        assert json.loads(measured.read_text())["figures"]["sampled"]
        image = inspection.draw_scene(chosen.env.initial(jax.random.key(0)).sprites, 64)
        assert inspection.act(chosen.policy, chosen.params, image, key=jax.random.key(0)).shape == (4,)
