"""Where reward is lost: agents that lack one thing lose by that one."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.experiments.causes import CAUSES, four_searches, show
from cobra_rl.evaluation.task import random_policy, true_state_search, visited_states
from cobra_rl.models.planner import Choice
from cobra_rl.reporting.results import results_of
from cobra_rl.spriteworld import make

ENV = make("goal_finding_new_shape")  # one sprite, to be brought to the centre
SCENES, PROPOSALS = 32, 128  # as many proposals as the search that knows all has


def near_the_centre(images):
    """What a picture is worth to an eye that is never wrong: how near the bright pixels are to the centre."""
    weight = images.astype(jnp.float32).sum(-1)
    size = weight.shape[1]
    row, column = jnp.mgrid[0:size, 0:size]
    total = weight.sum((1, 2))
    centre = [(weight * place).sum((1, 2)) / total for place in (row, column)]
    middle = (size - 1) / 2
    return -jnp.hypot(centre[0] - middle, centre[1] - middle)


def an_agent(clicks, scores):
    """Of its proposals, `clicks` says where; `scores` is how the agent ranks them."""

    def find(_, state, key):
        click_key, motion_key, score_key = jax.random.split(key, 3)
        click = clicks(state, click_key)
        actions = jnp.concatenate([click, jax.random.uniform(motion_key, (PROPOSALS, 2))], axis=1)
        ranked = scores(state, actions, score_key)
        return Choice(actions[jnp.argmax(ranked)], actions, ranked)

    return find


def on_the_sprite(state, _):
    return jnp.broadcast_to(state.sprites.position[state.sprites.alive.argmax()], (PROPOSALS, 2))


def beside_it(state, _):
    place = state.sprites.position[state.sprites.alive.argmax()]
    return jnp.broadcast_to(jnp.mod(place + 0.5, 1.0), (PROPOSALS, 2))


def truly(state, actions, key):
    still = make("goal_finding_new_shape", variant="released")  # the same rewards, no motion noise
    return jax.vmap(lambda action: still.advance(key, state, action).reward)(actions)


def blindly(_, actions, key):
    return jax.random.uniform(key, actions.shape[:1])


def nothing(images):
    return jnp.zeros(images.shape[0])


LACKING = {  # what an agent has that lacks one thing
    "proposals": (beside_it, truly, near_the_centre),
    "vision and reward": (on_the_sprite, truly, nothing),
    "imagination": (on_the_sprite, blindly, near_the_centre),
}


def lost_by(cause, seed):
    """What there was to gain, and the share of it that an agent loses by each cause if it lacks one thing."""
    clicks, scores, look = LACKING[cause]
    states = visited_states(random_policy(ENV.action_size), None, ENV, scenes=SCENES, seed=seed)
    keys = jax.random.split(jax.random.key(seed), SCENES)
    search = four_searches(ENV, an_agent(clicks, scores), lambda _, images: look(images))
    worth = jax.device_get(jax.jit(search)(None, states, keys))
    gain = np.mean(worth.ideal - worth.now)
    lost = zip(CAUSES, worth[1:], worth[2:], strict=False)
    return {"gain": gain} | {name: np.mean(more - less) / gain for name, more, less in lost}


@pytest.mark.slow
@pytest.mark.parametrize("cause", CAUSES)
def test_who_lacks_one_thing_loses_by_it(cause):
    lost = lost_by(cause, seed=0)
    assert lost.pop("gain") > 1.0
    assert lost.pop(cause) > 0.5
    if cause != "vision and reward":  # there, imagination that is right makes good what seeing lost
        assert all(abs(share) < 0.15 for share in lost.values())


def test_scenes_are_those_of_play():
    states = visited_states(true_state_search(ENV), None, ENV, scenes=SCENES, seed=0)
    assert states.step.shape == (SCENES,)
    assert (states.step[:16] == 0).all()
    assert (states.step < ENV.max_steps).all()
    assert not jax.vmap(ENV.evaluate)(states)[1][states.step > 0].any()


@pytest.mark.parametrize("width", [60, 80])
def test_causes_are_printed(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    seeds = json.loads((results_of("structured") / "causes_sorting_released.json").read_text())["figures"]["seeds"]
    show(seeds, 64)
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text  # nothing is cut off
    for part in ("to gain", "imagination", *(f"{seed['to gain, test']:.2f}" for seed in seeds)):
        assert part in text
