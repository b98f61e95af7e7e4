"""An agent that is being taught on the page, by Algorithm 1 as `cobra solve` has it.

*By goal* it plays in an environment with that reward and learns from each step. *By hand* and *by showing* a person
judges scenes from 1 (bad) to 5 (as wanted), and the judgement is the reward of the scene.
"""

import dataclasses
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cobra_rl.agent import Agent
from cobra_rl.agents.base import Experience, begin, compiled_agent, step
from cobra_rl.agents.cobra import Cobra, CobraState
from cobra_rl.config import TASK
from cobra_rl.environments import Problem
from cobra_rl.evaluation.task import SIDE_BY_SIDE, WINDOW, play_episodes
from cobra_rl.models.reward import Reward
from cobra_rl.models.world import WorldModel
from cobra_rl.play import mind
from cobra_rl.play.house import Wish
from cobra_rl.spriteworld.env import EnvState, Spriteworld
from cobra_rl.spriteworld.source import python_source
from cobra_rl.spriteworld.suite import EnvSpec

CONFIG = dataclasses.replace(TASK["laptop"], memory=4000)
BEST_REWARD, PER_POINT = 3.0, 6.0  # reward of a scene that is judged 5, and of each point less: as goals reward
UPDATES = 30  # gradient steps per judgement: judgements are rarer than steps of an environment
TRIES = 20  # actions of an episode that is judged by hand
AS_WANTED = 4.75  # a scene that is judged so good is followed by a fresh one

Slots = Float[Array, "K M"]


def reward_of(judgement: float) -> float:
    """Return the reward that a judgement from 1 to 5 stands for."""
    return BEST_REWARD + PER_POINT * (judgement - 5.0)


def judgement_of(reward: float) -> float:
    """Return the judgement that a reward stands for; it may lie outside 1 to 5."""
    return 5.0 + (reward - BEST_REWARD) / PER_POINT


class Learner:
    """What all that is taught has in common: a world, a spec, an agent; and how it got on."""

    state: CobraState  # of the agent; learning uses it up

    def __init__(self, world: WorldModel, spec: EnvSpec):
        self.world, self.spec, self.config = world, spec, CONFIG
        self.env, self.cobra = Spriteworld(spec), Cobra(CONFIG)
        self.curve: list[tuple[int, float]] = []  # steps or judgements, and how well it did then
        self.count = 0  # rewarded steps, or judgements

    @property
    def wish(self) -> Wish:
        """What it has learnt to want."""
        return Wish(self.state.predictor, self.config)

    def scores(self, seed: int) -> dict[str, float]:
        """Play greedy episodes in its own environment: the share that succeeds, and the mean of the last rewards."""
        params = self.cobra.params(self.world, self.state)
        played = play_episodes(self.cobra.policy, params, self.env, SIDE_BY_SIDE, seed)
        return {"success": float(played.success.mean()), "reward": float(played.reward.mean())}

    def save(self, folder: Path, world_folder: Path | str | None) -> None:
        """Save the agent as a run folder, and its task as `task.py` within."""
        if folder.exists():
            raise ValueError(f"There is a run {folder.name!r} already; choose another name.")
        problem, source = Problem(folder.name), python_source(self.spec)
        Agent(self.world, self.state.predictor, self.config, problem, world_folder, source).save(folder)


class GoalLearner(Learner):
    """It is told its reward by a task."""

    def __init__(self, world: WorldModel, spec: EnvSpec, seed: int, predictor: Reward | None = None):
        super().__init__(world, spec)
        playing = begin(self.cobra, self.env, world, jax.random.key(seed))
        self.state = _resumed(playing.agent, predictor)
        self.playing = playing._replace(agent=self.state)
        self.successes: list[bool] = []
        self.action: list[float] | None = None  # the latest

    def advance(self) -> None:
        """Take one step of the environment and learn from it."""
        self.playing, outcome, _ = step(self.cobra, self.env, self.world, self.playing)
        outcome, self.state = jax.device_get(outcome), self.playing.agent
        self.action = outcome.action.tolist()
        self.count += 1
        if outcome.done:
            self.successes.append(bool(outcome.success))
            self.curve.append((self.count, self.recent))

    @property
    def recent(self) -> float:
        """The share of the latest episodes that succeeded."""
        return float(np.mean(self.successes[-WINDOW:])) if self.successes else 0.0


class JudgedLearner(Learner):
    """It is told its reward by a person, a scene at a time."""

    def __init__(self, world: WorldModel, spec: EnvSpec, seed: int, predictor: Reward | None = None):
        super().__init__(world, spec)
        self._update = compiled_agent(Cobra(dataclasses.replace(CONFIG, updates=UPDATES)))[2]
        self._key = jax.random.key(seed)
        nothing = jnp.zeros((world.sizes.slots, world.sizes.latents))
        self.state = _resumed(self.cobra.init(self._key, world, nothing), predictor)
        self._before: tuple[Slots, list[float]] | None = None  # a scene and what was done there, not yet judged
        self._tries = 0

    def choose(self, slots: Slots) -> list[float]:
        """Choose an action in a scene, now and then at random, and always before the first judgement."""
        epsilon = jnp.float32(self.config.epsilon if self.count else 1.0)
        action = np.asarray(mind.plan(self.wish, self.world, slots, self._fresh_key(), epsilon).action).tolist()
        self._before = (slots, action)
        return action

    def judge(self, slots: Slots, judgement: float) -> bool:
        """Learn what a person thinks of a scene; return whether a fresh scene should follow."""
        before, action = self._before or (slots, [0.5] * self.world.sizes.action)
        reward, nothing = jnp.float32(reward_of(judgement)), jnp.float32(0.0)
        experience = Experience(before, nothing, jnp.asarray(action), slots, reward, jnp.bool_(False))
        self.state, _ = self._update((self.world, experience, self._fresh_key()), self.state)
        self.count += 1
        self.curve.append((self.count, judgement))
        self._tries = self._tries + 1 if self._before else 0
        over = self._tries >= TRIES or (self._tries > 0 and judgement >= AS_WANTED)
        self._before, self._tries = None, 0 if over else self._tries
        return over

    def fresh(self) -> EnvState:
        """Draw a scene to practise in."""
        return self.env.reset(self._fresh_key())[0]

    def _fresh_key(self) -> Array:
        self._key, key = jax.random.split(self._key)
        return key


def _resumed(state: CobraState, predictor: Reward | None) -> CobraState:
    """Put a predictor that was learnt before into a fresh state; its buffers are copied, for learning uses them up."""
    if predictor is None:
        return state
    copies = (jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, predictor) for _ in range(3))
    return state._replace(predictor=next(copies), latest=next(copies), target=next(copies))
