"""Films: of Spriteworld and of any other environment, of agents that see pictures and of the bound that sees states."""

import json
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from cobra_rl.agents.cobra import make_reward
from cobra_rl.config import COBRA
from cobra_rl.evaluation.task import episodes, random_policy, true_state_search
from cobra_rl.reporting.figures.tasks import FILM_FRAMES, report_run
from cobra_rl.reporting.films import PAUSE, film, film_random, picture, save_gif, watch
from cobra_rl.reporting.results import results_of
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import make
from cobra_rl.spriteworld.base import TimeStep


@dataclass(frozen=True)
class Lamp:
    """A picture as bright as its only dimension of action was last; solved when bright enough."""

    action_size: int = 1
    image_size: int = 64
    max_steps: int = 4

    def initial(self, key):
        return jnp.float32(0.0), jnp.int32(0)

    def advance(self, key, state, action):
        light, step = action[0], state[1] + 1
        terminated = light > 0.9
        return TimeStep((light, step), None, light, terminated, (step >= self.max_steps) & ~terminated, {})

    def draw(self, state):
        return jnp.full((self.image_size, self.image_size, 3), 255.0 * state[0]).astype(jnp.uint8)


@pytest.fixture(scope="module")
def agent(debug_world):
    """Untrained and tiny: it compiles in a fraction of the time."""
    world = load_world(debug_world)
    return Agent(world, make_reward(COBRA["debug"].reward, world.sizes.latents, jax.random.key(0)), COBRA["debug"])


def test_any_environment_is_filmed():
    env = Lamp()
    episode = next(episodes(random_policy(1), None, env, seed=0))
    assert len(episode.states) == len(episode.actions) + 1 <= env.max_steps + 1
    assert episode.success == (float(episode.actions[-1][0]) > 0.9)
    frame = picture(env, episode.states[-1], 96)
    assert frame.shape == (96, 96, 3)
    assert (frame == int(255 * float(episode.states[-1][0]))).all()
    frames = film(random_policy(1), None, env, frames=9, seed=0, size=80)
    assert [frame.shape for frame in frames] == [(80, 80, 3)] * 9
    assert len(film_random(env, steps=5, seed=0, size=32, click_on_sprites=True)) == 5


def test_the_bound_plays_on_states_and_its_end_is_framed():
    env = make("goal_finding_new_shape")
    episode = next(episodes(true_state_search(env), None, env, seed=0))  # the first of the film
    assert episode.success
    frames = film(true_state_search(env), None, env, len(episode.actions) + PAUSE, seed=0, size=64)
    green = [tuple(frame[0, 0]) == (0x35, 0xB7, 0x79) for frame in frames]
    assert green == [False] * len(episode.actions) + [True] * PAUSE


def test_goals_and_actions_are_drawn_in_spriteworld():
    env = make("sorting")
    state, seen = env.reset(jax.random.key(0))
    plain, with_action = picture(env, state, 128), picture(env, state, 128, jnp.array([0.2, 0.2, 0.9, 0.9]))
    assert plain.shape == (128, 128, 3)
    assert (plain != with_action).any()
    assert (np.asarray(seen) > 0).mean() < (plain > 0).mean()  # goals, which agents never see


def test_watching_shows_scene_slots_and_imagination(agent, tmp_path):
    told = []
    env = make("goal_finding_new_shape")
    frames = watch(agent, env, 5, seed=0, size=64, progress=lambda done, total: told.append((done, total)))
    assert len(frames) == 5
    assert frames[0].shape[1] == 3 * (64 + 8)
    assert told[-1] == (5, 5)
    save_gif(frames, tmp_path / "new" / "watch.gif", fps=3.0)
    with Image.open(tmp_path / "new" / "watch.gif") as gif:
        assert gif.size == frames[0].shape[1::-1]


def test_a_finished_run_is_drawn(agent, tmp_path):
    published = json.loads((results_of("structured") / "demo.json").read_text())
    result = published | {"final": 4}  # as many are played together
    envs = {mode: make("goal_finding_new_shape", mode) for mode in ("train", "test")}
    curve_file, film_file = report_run(result, tmp_path, agent, envs)
    with Image.open(film_file) as gif:
        assert gif.n_frames <= FILM_FRAMES
        assert gif.width > 2 * gif.height * 0.9
    with Image.open(curve_file) as curve:
        assert np.asarray(curve.convert("RGB")).std() > 10.0
    caption = curve_file.with_suffix(".txt").read_text()
    assert "goal finding, new position" in caption
    assert "(a fifth of the actions is random among the proposals)" in caption
