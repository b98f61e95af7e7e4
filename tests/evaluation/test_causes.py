"""Where reward is lost: agents that lack one thing lose by that one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.agents.search import Choice
from cobra_rl.evaluation.causes import CAUSES, four_searches
from cobra_rl.evaluation.task import knowing, random_policy, visited
from cobra_rl.spriteworld import make

ENV = make("goal_finding_new_shape")  # one sprite, to be brought to the centre
SCENES = 32


def near_the_centre(images):
    """What a picture is worth to an eye that is never wrong: how near the bright pixels are to the centre."""
    weight = images.astype(jnp.float32).sum(-1)
    row, column = jnp.mgrid[0:64, 0:64]
    total = weight.sum((1, 2))
    centre = [(weight * place).sum((1, 2)) / total for place in (row, column)]
    return -jnp.hypot(centre[0] - 31.5, centre[1] - 31.5)


def an_agent(clicks, scores):
    """Of 32 proposals, `clicks` says where; `scores` is how the agent ranks them."""

    def find(_, state, key):
        click_key, motion_key, score_key = jax.random.split(key, 3)
        click = clicks(state, click_key)
        actions = jnp.concatenate([click, jax.random.uniform(motion_key, (32, 2))], axis=1)
        ranked = scores(state, actions, score_key)
        return Choice(actions[jnp.argmax(ranked)], actions, ranked)

    return find


def on_the_sprite(state, _):
    return jnp.broadcast_to(state.sprites.position[state.sprites.alive.argmax()], (32, 2))


def beside_it(state, _):
    place = state.sprites.position[state.sprites.alive.argmax()]
    return jnp.broadcast_to(jnp.mod(place + 0.5, 1.0), (32, 2))


def truly(state, actions, key):
    still = make("goal_finding_new_shape", variant="released")  # the same rewards, no motion noise
    return jax.vmap(lambda action: still.advance(key, state, action)[1])(actions)


def blindly(_, actions, key):
    return jax.random.uniform(key, actions.shape[:1])


def nothing(images):
    return jnp.zeros(images.shape[0])


@pytest.mark.parametrize(
    ("clicks", "scores", "look", "cause"),
    [
        (beside_it, truly, near_the_centre, "proposals"),
        (on_the_sprite, truly, nothing, "vision and reward"),
        (on_the_sprite, blindly, near_the_centre, "imagination"),
    ],
)
def test_who_lacks_one_thing_loses_by_it(clicks, scores, look, cause):
    states = visited(random_policy, None, ENV, SCENES, seed=0)
    keys = jax.random.split(jax.random.key(0), SCENES)
    search = four_searches(ENV, an_agent(clicks, scores), lambda _, images: look(images))
    worth = jax.device_get(jax.jit(search)(None, states, keys))
    lost = {name: np.mean(more - less) for name, more, less in zip(CAUSES, worth[1:], worth[2:], strict=False)}
    gain = np.mean(worth.ideal - worth.now)
    assert gain > 1.0
    assert lost.pop(cause) > 0.5 * gain
    if cause != "vision and reward":  # there, imagination that is right makes good what seeing lost
        assert all(abs(value) < 0.15 * gain for value in lost.values())


def test_scenes_are_those_of_play():
    states = visited(knowing(ENV), None, ENV, SCENES, seed=0)
    assert states.step.shape == (SCENES,)
    assert (states.step[:16] == 0).all()
    assert (states.step < ENV.spec.max_steps).all()
    assert not jax.vmap(ENV.evaluate)(states)[1][states.step > 0].any()
