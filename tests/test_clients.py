"""Clients that nobody here wrote: vector environments, picklers, processes, recorders, learners.

Those marked `clients` are run by `make test-clients` only, which installs what they need; Gymnasium's and dm_env's
checkers are in spriteworld/test_gym.py.
"""

import multiprocessing
import pickle
import subprocess
import sys

import cloudpickle
import dm_env
import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from cobra_rl import spriteworld
from cobra_rl.spriteworld.dm import SpriteworldDm
from cobra_rl.spriteworld.gym import SpriteworldEnv, SpriteworldVectorEnv
from cobra_rl.spriteworld.suite import env_spec

SMALL = spriteworld.EnvSpec(
    "small", ((spriteworld.SpriteDistribution(scale=0.3),),), spriteworld.FindGoal(), max_steps=4, image_size=16
)  # reached by chance now and then
ACTIONS = np.random.default_rng(0).uniform(size=(14, 3, 4)).astype(np.float32)


def same(one, other):
    """Equal, up to what another order of sums does to pictures and rewards."""
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape
    assert np.allclose(one.astype(float), other.astype(float), atol=1 if one.dtype == np.uint8 else 1e-4)


def same_infos(ours, theirs):
    """The same entries with the same masks; where a mask is false, an entry says nothing."""
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if isinstance(value, dict):
            same_infos(ours[name], value)
        elif name.startswith("_"):
            np.testing.assert_array_equal(ours[name], value)
        else:
            for i in np.flatnonzero(theirs[f"_{name}"]):
                same(ours[name][i], value[i])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_vector_environment_does_what_gymnasiums_does(mode):
    """Observations, rewards, ends and infos, through several episodes, and resets of some environments only."""
    ours = SpriteworldVectorEnv(SMALL, num_envs=3, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: SpriteworldEnv(SMALL)] * 3, autoreset_mode=mode)
    assert ours.metadata["autoreset_mode"] == mode
    seen = ours.reset(seed=3), theirs.reset(seed=3)
    same(seen[0][0], seen[1][0])
    same_infos(seen[0][1], seen[1][1])
    ends = 0
    for number, actions in enumerate(ACTIONS):
        one, other = ours.step(actions), theirs.step(actions)
        for index in range(4):
            same(one[index], other[index])
        same_infos(one[4], other[4])
        done = one[2] | one[3]
        ends += done.sum()
        if mode == AutoresetMode.DISABLED and done.any():
            with pytest.raises(gymnasium.error.ResetNeeded, match="reset_mask"):
                ours.step(actions)
        if (mode == AutoresetMode.DISABLED and done.any()) or number == 6:
            mask = done if done.any() else np.array([False, True, False])
            one, other = (env.reset(seed=[7, 8, 9], options={"reset_mask": mask.copy()}) for env in (ours, theirs))
            same(one[0], other[0])
            same_infos(one[1], other[1])
    assert ends >= 6


def test_environments_are_pickled_in_the_middle_of_an_episode():
    core = spriteworld.Spriteworld(SMALL)
    assert pickle.loads(pickle.dumps(core)) == core
    single, vector, dm = SpriteworldEnv(SMALL), SpriteworldVectorEnv(SMALL, 3), SpriteworldDm(SMALL, seed=2)
    single.reset(seed=1), vector.reset(seed=1), dm.reset()
    for pickler in (pickle, cloudpickle):
        for env, action in ((single, ACTIONS[0, 0]), (vector, ACTIONS[0]), (dm, ACTIONS[0, 0])):
            copy = pickler.loads(pickler.dumps(env))
            first, second = env.step(action), copy.step(action)
            images = (
                (first.observation, second.observation) if isinstance(first, dm_env.TimeStep) else (first[0], second[0])
            )
            np.testing.assert_array_equal(*images)
    wrapped = gymnasium.make("cobra_rl/Sorting-v0", render_mode="rgb_array")
    assert pickle.loads(pickle.dumps(wrapped)).reset(seed=0)[0].shape == (64, 64, 3)


ASYNC = """
import sys
import gymnasium
import numpy as np
import cobra_rl

if __name__ == "__main__":
    first, _ = gymnasium.make("cobra_rl/GoalFindingNewShape-v0").reset(seed=0)  # JAX has run in this process
    context = {"context": sys.argv[1]}
    env = gymnasium.make_vec("cobra_rl/GoalFindingNewShape-v0", 2, vectorization_mode="async", vector_kwargs=context)
    try:
        images, _ = env.reset(seed=0)
        assert np.abs(images[0].astype(int) - first).max() <= 1
        print("worked", env.step(np.full((2, 4), 0.5, np.float32))[0].shape)
    except RuntimeError as error:
        print("refused:", error)
    env.close(terminate=True)
"""


@pytest.mark.clients
@pytest.mark.parametrize(("context", "said"), [("spawn", "worked (2, 64, 64, 3)"), ("fork", "{'context': 'spawn'}")])
def test_environments_in_processes_of_their_own_work_or_say_how(context, said, tmp_path):
    if context not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this machine cannot {context}")
    script = tmp_path / "client.py"
    script.write_text(ASYNC)
    words = [sys.executable, "-W", "ignore", str(script), context]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert said in done.stdout, done.stdout + done.stderr


@pytest.mark.clients
@pytest.mark.filterwarnings("ignore")
def test_gymnasiums_recorder_films_episodes(tmp_path):
    moviepy = pytest.importorskip("moviepy", reason="RecordVideo needs moviepy: make test-clients installs it")
    assert moviepy.__version__ >= "2"
    env = gymnasium.wrappers.RecordVideo(
        SpriteworldEnv(SMALL, render_mode="rgb_array"), str(tmp_path), episode_trigger=lambda _: True
    )
    for seed in range(2):
        env.reset(seed=seed)
        while not any(env.step(env.action_space.sample())[2:4]):
            pass
    env.close()
    films = sorted(tmp_path.glob("*.mp4"))
    assert len(films) == 2
    assert all(film.stat().st_size > 1000 for film in films)


@pytest.mark.clients
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("count", [1, 4])
def test_stable_baselines_learns_in_it(count):
    baselines = pytest.importorskip("stable_baselines3", reason="not installed: make test-clients installs it")
    from stable_baselines3.common.env_checker import check_env as check
    from stable_baselines3.common.env_util import make_vec_env

    def easy():
        return SpriteworldEnv(env_spec("goal_finding_new_shape"))

    check(easy())
    model = baselines.PPO("CnnPolicy", make_vec_env(easy, n_envs=count, seed=0), n_steps=64, batch_size=64, n_epochs=1)
    before = {name: value.clone() for name, value in model.policy.named_parameters()}
    model.learn(256)
    assert model.num_timesteps == 256
    assert any(not before[name].equal(value) for name, value in model.policy.named_parameters())
    action, _ = model.predict(easy().reset(seed=0)[0])
    assert action.shape == (4,)
