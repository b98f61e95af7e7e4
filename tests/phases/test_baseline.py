"""The baselines on the debug preset, with an untrained world: what is left behind, resuming, and who sees what."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl import cli
from cobra_rl.agents import model_free
from cobra_rl.agents.mpo import Mpo, MpoParams, mpo_policy, to_environment
from cobra_rl.config import BASELINE, BASELINES
from cobra_rl.environments import Problem
from cobra_rl.models.transition import Sizes
from cobra_rl.phases import task
from cobra_rl.phases.baseline import BaselinePhase, load_baseline, train_baseline
from cobra_rl.runtime.actors import Collected, LocalActors
from cobra_rl.runtime.run import OtherRun
from cobra_rl.show.results import task_result
from cobra_rl.spriteworld import make
from cobra_rl.worlds import load_world

TASK = "goal_finding_new_shape"
PROBLEM, STEPS = Problem(TASK), 100  # in four environments
QUADRANT = [dataclasses.replace(BASELINE["debug"], features=seen, policy=done) for seen, done in BASELINES]
RAW, HANDHELD = QUADRANT[0], QUADRANT[-1]
begin, play = eqx.filter_jit(model_free.begin), eqx.filter_jit(model_free.play)


@pytest.fixture
def quick(monkeypatch):
    """What is slow to compile, and not asked about in most tests here."""
    monkeypatch.setattr(task, "context", lambda *_: {})
    monkeypatch.setattr(task, "greedy_scores", lambda *_: {"success_train": 0.5, "success_test": 0.5})
    monkeypatch.setattr(task, "normalised_reward", lambda *_: {})


@pytest.fixture(scope="module")
def world(debug_world):
    return load_world(debug_world)


def arguments(config, world, debug_world):
    used = {"world": world, "world_folder": debug_world} if config.uses_world else {"world": None}
    return {"config": config, "problem": PROBLEM, "seeds": range(1), "steps": STEPS, "final": 2, **used}


@pytest.mark.parametrize("config", [RAW, HANDHELD], ids=lambda config: config.name)
def test_a_run_that_crashed_goes_on_as_if_it_had_not(config, world, debug_world, quick, tmp_path, monkeypatch):
    run, real = arguments(config, world, debug_world), BaselinePhase.step
    whole = train_baseline(folder=tmp_path / "whole", **run)

    def crash(phase, state, step):
        if step == 17:
            raise RuntimeError("the power is gone")
        return real(phase, state, step)

    with monkeypatch.context() as power_cut:
        power_cut.setattr(BaselinePhase, "step", crash)
        with pytest.raises(RuntimeError, match="power"):
            train_baseline(folder=tmp_path / "parts", **run)
    parts_of_it = train_baseline(folder=tmp_path / "parts", **run)
    assert parts_of_it["seeds"] == whole["seeds"]
    for file in ("checkpoints/step_00000025.safetensors", "actor_critic/weights.safetensors"):
        first, second = ((tmp_path / name / "seed0" / file).read_bytes() for name in ("whole", "parts"))
        assert _without_time(first) == _without_time(second), file
    assert whole["steps"] == STEPS
    assert whole["seeds"][0]["ends"][0] <= 4 * make(TASK).max_steps
    assert whole["config"]["replay_ratio"] == 4.0
    assert task_result(whole).agent == config.name


def _without_time(data: bytes) -> bytes:
    """All of a safetensors file but its header, which holds the seconds that a run took."""
    return data[8 + int.from_bytes(data[:8], "little") :]


def test_more_steps_and_seeds_add_exactly_and_other_settings_are_refused(quick, tmp_path):
    run = arguments(RAW, None, None)
    once = train_baseline(folder=tmp_path / "once", **run | {"seeds": range(2)})
    train_baseline(folder=tmp_path / "twice", **run | {"steps": 42})  # 44: whole steps of four environments
    assert json.loads((tmp_path / "twice" / "result.json").read_text())["steps"] == 44
    more = train_baseline(folder=tmp_path / "twice", **run | {"seeds": range(2)})
    assert more["seeds"] == once["seeds"]
    with pytest.raises(OtherRun, match=r"config\.replay_ratio: 4\.0, now 8\.0"):
        train_baseline(folder=tmp_path / "once", **run | {"config": dataclasses.replace(RAW, replay_ratio=8.0)})


def aged(envs, steps):
    """The same states, so many steps after their episodes began."""
    return eqx.tree_at(lambda envs: envs.step, envs, steps)


@pytest.mark.parametrize("config", QUADRANT, ids=lambda config: config.name)
def test_what_is_not_seen_does_not_change_what_is_done(config, world):
    """Two states with the same picture (an episode's age is not seen) get the same actions, in play and in the end."""
    env, used = make(TASK), world if config.uses_world else None
    agent = Mpo(config, Sizes(3, world.sizes.latents, 4, 64))
    networks = agent.init(jax.random.key(0)).networks
    young = begin(env, config, 3, used, jax.random.key(1))
    old = young._replace(envs=aged(young.envs, young.envs.step + 7))
    (_, first), (_, second) = (play(env, config, used, networks, state) for state in (young, old))
    np.testing.assert_array_equal(first.transitions.action, second.transitions.action)
    seen = eqx.filter_eval_shape(model_free.see, env, config, first.transitions.observation)
    assert (seen.dtype, seen.shape[1:]) == {
        "pixels": (jnp.uint8, (64, 64, 3)),
        "slots": (jnp.float32, (3, world.sizes.latents)),
    }[config.features]
    images, keys = np.zeros((1, 64, 64, 3), np.uint8), jax.random.split(jax.random.key(2), 1)
    actions = eqx.filter_jit(mpo_policy(config).act)(MpoParams(used, networks), images, keys)
    assert ((actions >= 0.0) & (actions <= 1.0)).all()


def test_only_deformed_actions_are_deformed(world):
    u = jax.random.uniform(jax.random.key(0), (5, 4))
    slots = jax.random.normal(jax.random.key(1), (5, 3, world.sizes.latents))
    raw, deformed = (to_environment(config, world, slots, u) for config in QUADRANT[1::2])
    np.testing.assert_array_equal(raw, u)
    np.testing.assert_array_equal(deformed, world.deform(slots, u))


def test_an_episodes_last_step_leads_back_to_its_own_scene():
    env, config = make(TASK), RAW
    networks = Mpo(config, Sizes(0, 0, 4, 64)).init(jax.random.key(0)).networks
    state = begin(env, config, 3, None, jax.random.key(1))
    last = env.max_steps - 1
    state = state._replace(envs=aged(state.envs, jnp.array([0, last, last])))
    after, collected = play(env, config, None, networks, state)
    step = collected.transitions
    np.testing.assert_array_equal(step.truncated, [False, True, True])
    np.testing.assert_array_equal(after.envs.step, [1, 0, 0])
    np.testing.assert_array_equal(step.next_observation.step, [1, last, last])


class Chunks:
    """Actors as Ray's: chunks of 50 steps of one environment each."""

    def __init__(self, begin, play, parts, seed):
        self.actors, self.closed = LocalActors(begin, play, parts, seed), False

    def collect(self, policy, wait):
        parts = [part for _ in range(50) for part in self.actors.collect(policy)]
        steps = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(part.transitions for part in parts))
        return [Collected(steps, parts[-1].hits)]

    def close(self):
        self.closed = True


def test_actors_elsewhere_bring_chunks(quick, tmp_path):
    made = []

    def make_actors(*given):
        made.append(Chunks(*given))
        return made[-1]

    run = arguments(RAW, None, None) | {"make_actors": make_actors, "seeds": range(2)}
    result = train_baseline(folder=tmp_path, **run)
    assert [actors.closed for actors in made] == [True, True]
    assert result["actors"] == "ray"
    assert {end % 50 for seed in result["seeds"] for end in seed["ends"]} == {0}


def test_the_command_leaves_a_result_a_curve_and_a_film(debug_world, quick, tmp_path, capsys):
    options = ["--preset", "debug", "--steps", "44", "--final", "2", "--world", str(debug_world)]
    out = tmp_path / "run"
    cli.main(["baseline", TASK, "--features", "slots", "--policy", "deformed", *options, "--out", str(out)])
    assert str(out / "film.gif") in capsys.readouterr().out
    assert (out / "learning_curve.png").exists()
    assert "samples of the policy" in (out / "learning_curve.txt").read_text()
    result = json.loads((out / "result.json").read_text())
    assert result["agent"] == "mpo_handheld"
    policy, params = load_baseline(out, 0, load_world(debug_world))
    images, keys = jnp.zeros((1, 64, 64, 3), jnp.uint8), jax.random.split(jax.random.key(0), 1)
    assert eqx.filter_jit(policy.act)(params, images, keys).shape == (1, 4)
