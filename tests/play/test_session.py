"""What a session does, in a tiny, untrained world; benchmarks/speed/play.py measures what is learnt."""

import itertools
import json

import jax.numpy as jnp
import numpy as np
import pytest
from fuzz import CIRCLE, GOAL, SPRITE

import cobra_rl
from cobra_rl.agents.contract import Policy
from cobra_rl.environments import load_environment
from cobra_rl.play import inspection, protocol
from cobra_rl.play.catalogue import AgentCatalogue, LoadedAgent
from cobra_rl.play.session import Session
from cobra_rl.play.stage import factors_of
from cobra_rl.play.teach import judgement_of, reward_of, task_spec, thinned
from cobra_rl.reporting.runs import read_runs
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import Clustering, FarApart, FindGoal, NoReward, Spriteworld, Sum, env_spec
from cobra_rl.spriteworld.source import python_source

ACTION = [0.5, 0.5, 1.0, 0.5]  # on the square of `SPRITE`, to the right


@pytest.fixture(scope="module")
def catalogue(debug_world, tmp_path_factory):
    return AgentCatalogue(load_world(debug_world), debug_world, tmp_path_factory.mktemp("runs"))


@pytest.fixture
def session(catalogue):
    session = Session(catalogue)
    ask(session, type="scene", task="goal_finding_new_shape", mode="train", variant="released", seed=0)
    ask(session, type="arrange", sprites=[SPRITE, CIRCLE])
    return session


def ask(session, **message):
    """Ask as the page does; the answer must be JSON."""
    answer = session.handle(protocol.read(json.dumps(message)))
    json.dumps(answer, allow_nan=False)
    return answer


def test_every_message_has_a_handler(session):
    for kind in protocol.SCHEMA:
        assert hasattr(session, f"on_{kind}") or hasattr(session.stage, f"on_{kind}"), kind


def test_it_prepares_and_says_what_the_page_must_know(catalogue):
    session = Session(catalogue)
    assert len(list(session.prepare())) == 6
    hello = session.hello()
    assert hello["latents"][:3] == ["place, left to right", "place, down to up", "latent 2"]
    assert hello["scene"]["undo"] == 0
    assert "shipped:sorting" not in hello["agents"]  # another world than theirs


def test_a_push_moves_what_it_clicks_and_can_be_undone(session):
    before = ask(session, type="reset") and ask(session, type="arrange", sprites=[SPRITE, CIRCLE])
    imagined = ask(session, type="imagine", action=ACTION)
    pushed = ask(session, type="push", action=ACTION)
    assert pushed["moved"] == 0
    assert pushed["before"] == before["sprites"]
    assert pushed["scene"]["sprites"][0]["x"] == pytest.approx(0.625, abs=1e-3)  # the released rules have no noise
    assert pushed["scene"]["sprites"][1] == CIRCLE
    assert pushed["picture"] == imagined["picture"]
    assert pushed["true_error"] >= 0
    assert ask(session, type="undo")["sprites"] == before["sprites"]
    assert ask(session, type="push", action=[0.9, 0.9, 1, 1])["moved"] == -1


def test_noise_can_be_switched_off(session):
    told = ask(session, type="scene", task="goal_finding_new_shape", mode="train", variant="paper", seed=0)
    assert told["noise"] == told["noise_of_rules"] == 0.05
    ask(session, type="arrange", sprites=[SPRITE, CIRCLE])
    places = {ask(session, type="push", action=ACTION)["scene"]["sprites"][0]["x"]}
    ask(session, type="undo")
    assert ask(session, type="push", action=ACTION)["scene"]["sprites"][0]["x"] not in places  # the same push
    ask(session, type="undo")
    told = ask(session, type="noise", on=False)
    assert (told["noise"], told["noise_of_rules"]) == (0.0, 0.05)
    for _ in range(2):
        pushed = ask(session, type="push", action=ACTION)["scene"]["sprites"][0]
        assert (pushed["x"], pushed["y"]) == (pytest.approx(0.625, abs=1e-3), pytest.approx(0.5, abs=1e-3))
        ask(session, type="undo")
    ask(session, type="teach", way="goal", practice="canvas", parts=[GOAL], resume=False)
    assert session.learner.spec.motion_noise == 0.0  # practice is as noisy as the scene
    assert ask(session, type="noise", on=True)["noise"] == 0.0  # by the rules of what is being taught
    ask(session, type="teach", way="goal", practice="canvas", parts=[GOAL], resume=False)
    assert session.learner.spec.motion_noise == 0.05


def test_sliders_go_from_where_to_where_latents_go(session):
    ranges = ask(session, type="look")["ranges"]
    place = session.catalogue.world.vision.place
    assert len(ranges) == session.catalogue.world.sizes.latents
    assert ranges[place.first] == ranges[place.first + 1] == pytest.approx((-0.4 * place.units, 0.4 * place.units))
    assert all(low < high for low, high in ranges)


def test_the_same_seed_gives_the_same_scene(session):
    first = ask(session, type="fresh", seed=5)["sprites"]
    assert ask(session, type="fresh", seed=6)["sprites"] != first
    assert ask(session, type="fresh", seed=5)["sprites"] == first
    ask(session, type="arrange", sprites=[CIRCLE])
    assert ask(session, type="reset")["sprites"] == first


def test_looking_inside(session):
    sizes = session.catalogue.world.sizes
    seen = ask(session, type="look")
    assert np.shape(seen["values"]) == (sizes.slots, sizes.latents)
    redrawn = ask(session, type="redraw", slot=0, latents=[0.0] * sizes.latents)
    assert len(redrawn["picture"]) == len(seen["picture"])
    with pytest.raises(ValueError, match="slots"):
        ask(session, type="redraw", slot=63, latents=[0.0])
    curiosity = ask(session, type="curiosity")
    assert curiosity["low"] <= curiosity["high"]
    proposals = ask(session, type="proposals")
    assert np.shape(proposals["actions"]) == (128, 4)
    assert proposals["scores"] is None
    with pytest.raises(ValueError, match="No agent is chosen"):
        ask(session, type="reward_map", sprite=0)
    with pytest.raises(ValueError, match="No agent is chosen"):
        ask(session, type="act")


def test_teaching_by_goal_saving_and_loading(session, tmp_path, monkeypatch):
    taught = ask(session, type="teach", way="goal", practice="canvas", parts=[GOAL], resume=False)
    assert taught["name"] == "taught"
    assert session.busy
    while session.learner.count < 3:
        session.tick()
    told = ask(session, type="learn", on=False)
    assert told["count"] == 3
    assert len(told["trying"]) == 2
    assert not session.busy
    assert ask(session, type="reward_map", sprite=1)["side"] == inspection.MAP_SIDE
    assert ask(session, type="proposals")["scores"] is not None
    acted = ask(session, type="act")
    assert acted["scene"]["expected_reward"] is not None
    kept = session.learner
    assert ask(session, type="keep")["type"] == "teaching"
    compared = ask(session, type="compare")
    assert compared["kept"]["count"] == 3
    assert 0.0 <= compared["taught"]["success"] <= 1.0
    name = f"saved-{tmp_path.name}"[:40]
    session.learner = kept
    kept.curve.append((3, 0.9))
    saved = ask(session, type="save", name=name)
    assert f"run:{name}" in saved["agents"]
    with pytest.raises(ValueError, match="already"):
        ask(session, type="save", name=name)
    (line,) = read_runs(session.catalogue.runs / name)
    assert (line.far, line.good, line.state) == ("agent", "success 90.0%", "finished")
    source = ask(session, type="source")["python"]
    assert source.endswith('if __name__ == "__main__":\n    agent = cobra_rl.Agent.learn(task, steps=200)\n')
    learnt = []
    monkeypatch.setattr(cobra_rl.Agent, "learn", lambda env, steps: learnt.append((env, steps)))
    exec(source, {"__name__": "__main__"})
    assert learnt == [(kept.spec, 200)]
    agent = cobra_rl.Agent.load(saved["folder"])
    assert agent.act(np.zeros((64, 64, 3), np.uint8)).shape == (4,)
    assert agent.problem.environments()["test"] == session.learner.env
    loaded = Session(session.catalogue)
    assert ask(loaded, type="agent", name=f"run:{name}", mode="test")["max_steps"] == 20
    assert ask(loaded, type="act")["type"] == "acted"
    resumed = ask(loaded, type="teach", way="goal", practice="canvas", parts=[GOAL], resume=True)
    assert resumed["scene"]["expected_reward"] == pytest.approx(loaded.stage.expected_reward(loaded.stage.slots))


def test_it_stops_once_it_has_learnt_and_goes_on_if_asked(session, monkeypatch):
    monkeypatch.setattr("cobra_rl.play.session.PROGRESS_EVERY", 1e9)  # it tells nothing else
    ask(session, type="teach", way="goal", practice="canvas", parts=[GOAL], resume=False)
    learner = session.learner

    def advance():
        learner.count += 20
        learner.end_episode(learner.count > 100)  # the first five fail

    learner.advance = advance
    told = None
    while session.busy:
        told = session.tick() or told
    assert told["on"] is False
    assert told["learnt_at"] == learner.count == 20 * (5 + 27)
    assert told["recent"] == pytest.approx(0.9)
    assert told["curve"][0] == (20, 0.0)
    ask(session, type="learn", on=True)
    for _ in range(5):
        session.tick()
    assert session.busy
    assert session.progress()["learnt_at"] == 20 * (5 + 27)  # it is said once


def test_a_curve_is_thinned_out_and_not_cut_off():
    curve = [(n, n / 5000) for n in range(5000)]
    sent = thinned(curve)
    assert len(sent) == 300
    assert (sent[0], sent[-1]) == (curve[0], curve[-1])
    assert max(b[0] - a[0] for a, b in itertools.pairwise(sent)) < 20
    assert thinned(curve[:200]) == curve[:200]


def test_teaching_by_hand_and_by_showing(session):
    ask(session, type="teach", way="hand", practice="recoloured", parts=[], resume=False)
    tried = ask(session, type="try")
    assert tried["type"] == "tried"
    told = ask(session, type="judge", value=2)
    assert told["curve"] == [(1, 2.0)]
    assert told["scene"]["sprites"] == tried["scene"]["sprites"]
    ask(session, type="try")
    assert ask(session, type="judge", value=5)["scene"]["sprites"] != session.stage._history[-1]  # a fresh scene
    assert not session.busy
    ask(session, type="teach", way="showing", practice="environment", parts=[], resume=False)
    shown = ask(session, type="judge", value=1)
    assert shown["scene"]["sprites"] == session.stage.factors
    with pytest.raises(ValueError, match="goal"):
        ask(session, type="teach", way="goal", practice="environment", parts=[], resume=False)


def test_any_policy_can_be_watched(session, monkeypatch):
    """An agent without a reward predictor acts, and is not asked what it wants."""
    still = Policy(lambda params, images, keys: jnp.full((len(images), 4), 0.5))
    env, world = Spriteworld(env_spec("sorting")), session.catalogue.world
    monkeypatch.setattr(AgentCatalogue, "load", lambda catalogue, name, mode: LoadedAgent(env, world, still, None))
    assert ask(session, type="agent", name="run:baseline", mode="train")["scene"]["expected_reward"] is None
    assert ask(session, type="act")["action"] == [0.5] * 4
    assert ask(session, type="proposals")["scores"] is None
    with pytest.raises(ValueError, match="no reward predictor"):
        ask(session, type="reward_map", sprite=0)


def test_nothing_taught_is_said(session):
    for kind in ({"type": "learn", "on": True}, {"type": "forget"}, {"type": "source"}, {"type": "save", "name": "x"}):
        with pytest.raises(ValueError, match="Nothing is being taught"):
            ask(session, **kind)
    with pytest.raises(ValueError, match="no agent"):
        ask(session, type="agent", name="run:elsewhere", mode="train")
    with pytest.raises(ValueError, match="no agent"):
        ask(session, type="agent", name="shipped:sorting", mode="train")


def test_a_task_is_the_sum_of_its_parts_and_runs_as_python(tmp_path):
    parts = [
        GOAL,
        GOAL | {"kind": "apart", "shapes": [], "colour": "red"},
        GOAL | {"kind": "alike", "colour": "blue", "other": "green"},
    ]
    spec = task_spec(parts, "canvas", [SPRITE, CIRCLE], chosen=env_spec("sorting"))
    assert isinstance(spec.task, Sum)
    assert [type(task) for task in spec.task.tasks] == [FindGoal, FarApart, Clustering]
    path = tmp_path / "task.py"
    path.write_text(python_source(spec))
    assert load_environment(f"{path}:task") == Spriteworld(spec)
    assert isinstance(task_spec([], "environment", [SPRITE], chosen=env_spec("sorting")).task, NoReward)
    assert task_spec([GOAL], "environment", [SPRITE], chosen=env_spec("sorting")).scenes == env_spec("sorting").scenes
    with pytest.raises(ValueError, match="two different colours"):
        task_spec([GOAL | {"kind": "alike"}], "canvas", [SPRITE], chosen=env_spec("sorting"))


def test_judgements_are_rewards():
    assert judgement_of(reward_of(3.3)) == pytest.approx(3.3)
    assert reward_of(5.0) > reward_of(1.0)


def test_factors_of_a_scene_are_those_it_was_made_of(session):
    assert factors_of(session.stage.sprites) == [
        {name: pytest.approx(value) if name != "shape" else value for name, value in sprite.items()}
        for sprite in (SPRITE, CIRCLE)
    ]
