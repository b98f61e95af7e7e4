"""An agent that is being taught on the page, by Algorithm 1 as `cobra solve` has it, and the task that it is taught.

*By goal* it plays in an environment with that reward and learns from each step. *By hand* and *by showing* a person
judges scenes from 1 (bad) to 5 (as wanted), and the judgement is the reward of the scene.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cobra_rl.agents.cobra import Cobra, CobraState
from cobra_rl.collect.transition import Transition
from cobra_rl.config import COBRA
from cobra_rl.environments import Problem
from cobra_rl.evaluation.task import SIDE_BY_SIDE, WINDOW, play_episodes, reaches_criterion
from cobra_rl.models.reward import Reward
from cobra_rl.models.world import WorldModel
from cobra_rl.play.catalogue import LoadedAgent, RewardHead
from cobra_rl.play.inspection import SceneSlots, fresh_keys, plan
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.log import LOG
from cobra_rl.spriteworld import (
    MODES,
    Clustering,
    EnvSpec,
    EnvState,
    FarApart,
    FindGoal,
    NoReward,
    SpriteDistribution,
    Spriteworld,
    Sum,
    hue_range,
)
from cobra_rl.spriteworld.source import python_source
from cobra_rl.spriteworld.tasks import Task
from cobra_rl.storage.files import write_atomically

TEACHING = dataclasses.replace(COBRA["laptop"], memory=4000)
BEST_REWARD = 3.0  # of a scene that is judged 5: as goals reward
REWARD_PER_POINT = 6.0
UPDATES_PER_JUDGEMENT = 30  # gradient steps: judgements are rarer than steps of an environment
JUDGED_STEPS = 20  # actions of an episode that is judged by hand
AS_WANTED = 4.75  # a scene that is judged so good is followed by a fresh one
MAX_STEPS = 20  # of an episode with one part; each further part adds ten
HUE_SPREAD = 0.03  # practice sprites differ this much from the canvas's: less than the ranges that colours' names have
SEVERAL_MULTIPLIER = 20.0  # of each part of several, as in the suite's sorting
SEVERAL_BONUS = 5.0
MIN_STEPS = 200  # of learning a task again, in Python
CURVE_POINTS = 300  # of a learning curve: more than a screen shows
Part = Mapping[str, Any]  # as protocol.SCHEMA has it


def task_spec(
    parts: Sequence[Part], practice: str, sprites: Sequence[Mapping[str, Any]], *, chosen: EnvSpec
) -> EnvSpec:
    """Build the environment to learn in.

    Args:
        parts: What is wanted; rewards add up. Without any, nothing is rewarded.
        practice: "canvas": scenes with the canvas's sprites in other places; "recoloured": of any colour too;
            "environment": the scenes of `chosen`.
        sprites: What stands on the canvas.
        chosen: The environment that is chosen on the page; its rules say how noisy motion is.
    """
    scenes = chosen.scenes if practice == "environment" else (_scene(sprites, recolour=practice == "recoloured"),)
    tasks = tuple(_task(part, several=len(parts) > 1) for part in parts)
    task = Sum(tasks, SEVERAL_BONUS) if len(tasks) > 1 else (tasks[0] if tasks else NoReward())
    steps = MAX_STEPS + 10 * max(len(parts) - 1, 0)
    return EnvSpec("my_task", scenes, task, max_steps=steps, motion_noise=chosen.motion_noise)


def thinned(curve: Sequence[tuple[int, float]], most: int = CURVE_POINTS) -> list[tuple[int, float]]:
    """Leave points out of a curve, evenly, until it has few enough to be sent; the first and the last one stay."""
    if len(curve) <= most:
        return list(curve)
    return [curve[round(place)] for place in np.linspace(0, len(curve) - 1, most)]


def reward_of(judgement: float) -> float:
    """Return the reward that a judgement from 1 to 5 stands for."""
    return BEST_REWARD + REWARD_PER_POINT * (judgement - 5.0)


def judgement_of(reward: float) -> float:
    """Return the judgement that a reward stands for; it may lie outside 1 to 5."""
    return 5.0 + (reward - BEST_REWARD) / REWARD_PER_POINT


class PageLearner:
    """What both ways of teaching have in common: a world, a spec, an agent, and how it got on."""

    state: CobraState  # of the agent; learning uses it up
    measure = "judgement"  # what the curve is of, in the log of a saved agent

    def __init__(self, world: WorldModel, spec: EnvSpec):
        self.world = world
        self.spec = spec
        self.env = Spriteworld(spec)
        self.cobra = Cobra(TEACHING)
        self.curve: list[tuple[int, float]] = []  # steps or judgements, and how well it did then
        self.count = 0  # rewarded steps, or judgements

    @property
    def reward_head(self) -> RewardHead:
        """What it has learnt to want."""
        return RewardHead(self.state.predictor, TEACHING)

    @property
    def agent(self) -> LoadedAgent:
        """The agent as it is now."""
        params = self.cobra.params(self.world, self.state)
        return LoadedAgent(self.env, self.world, self.cobra.policy, params=params, reward_head=self.reward_head)

    def scores(self, seed: int) -> dict[str, float]:
        """Play greedy episodes in its own environment: the share that succeeds, and the mean of the last rewards."""
        agent = self.agent
        results = play_episodes(agent.policy, agent.params, self.env, episodes=SIDE_BY_SIDE, seed=seed)
        return {"success": float(results.success.mean()), "reward": float(results.reward.mean())}

    def python(self) -> str:
        """Write the task as a Python file that defines it and, if it is run, learns it."""
        return f"{python_source(self.spec)}\n# A person judged the scenes: the task itself rewards nothing.\n"

    def save(self, folder: Path, world_folder: Path | str | None) -> None:
        """Save the agent as a run folder, with its task as data, as `task.py` to be read, and with its curve as log."""
        if folder.exists():
            raise ValueError(f"There is a run {folder.name!r} already; choose another name.")
        problem = Problem(folder.name).with_data(dict.fromkeys(MODES, self.env))
        Agent(self.world, self.state.predictor, TEACHING, problem, world_folder).save(folder)
        lines = (json.dumps({"step": count, self.measure: value}) + "\n" for count, value in self.curve)
        write_atomically(folder / "seed0" / LOG, "".join(lines).encode())


class GoalLearner(PageLearner):
    """It is told its reward by a task."""

    measure = "success"  # as in the log of `cobra solve`: the share of the latest episodes

    def __init__(self, world: WorldModel, spec: EnvSpec, seed: int, *, predictor: Reward | None = None):
        super().__init__(world, spec)
        playing = self.cobra.begin(self.env, world, [seed])
        self.state = _resumed(self.cobra.agent_of(playing, 0), predictor)
        self.playing = playing._replace(agent=jax.tree.map(lambda leaf: leaf[None], self.state))
        self.successes: list[bool] = []
        self.learnt_at: int | None = None  # rewarded steps after which 27 of 30 episodes had succeeded
        self.action: list[float] | None = None  # the latest

    def advance(self) -> None:
        """Take one step of the environment and learn from it."""
        self.playing, outcome, _ = self.cobra.step(self.env, self.world, self.playing)
        self.state = self.cobra.agent_of(self.playing, 0)
        (action,), _, (success,), (done,) = (values[0] for values in jax.device_get(outcome))
        self.action = action.tolist()
        self.count += 1
        if done:
            self.end_episode(bool(success))

    def end_episode(self, success: bool) -> None:
        """Note how an episode ended, and whether that was enough to say that it has learnt."""
        self.successes.append(success)
        self.curve.append((self.count, self.recent_success))
        if self.learnt_at is None and reaches_criterion(self.successes):
            self.learnt_at = self.count

    def python(self) -> str:
        """Write the task as a Python file that defines it and, if it is run, learns it in as many steps as here."""
        steps = max(MIN_STEPS, -(-(self.learnt_at or self.count) // 100) * 100)
        learn = f"agent = cobra_rl.Agent.learn(task, steps={steps})"
        return f'import cobra_rl\n{python_source(self.spec)}\nif __name__ == "__main__":\n    {learn}\n'

    @property
    def scene(self) -> EnvState:
        """The scene that it practises in."""
        return jax.tree.map(lambda leaf: leaf[0], self.playing.env)

    @property
    def recent_success(self) -> float:
        """The share of the latest episodes that succeeded."""
        return float(np.mean(self.successes[-WINDOW:])) if self.successes else 0.0


class JudgedLearner(PageLearner):
    """It is told its reward by a person, a scene at a time."""

    def __init__(self, world: WorldModel, spec: EnvSpec, seed: int, *, predictor: Reward | None = None):
        super().__init__(world, spec)
        self._update = eqx.filter_jit(Cobra(dataclasses.replace(TEACHING, updates=UPDATES_PER_JUDGEMENT)).update)
        key = jax.random.key(seed)
        self._keys = fresh_keys(key)
        empty = jnp.zeros((world.sizes.slots, world.sizes.latents))
        self.state = _resumed(self.cobra.init(key, world, empty), predictor)
        self._before: tuple[SceneSlots, list[float]] | None = None  # a scene and what was done there, not yet judged
        self._steps = 0  # of the present episode

    def choose(self, slots: SceneSlots) -> list[float]:
        """Choose an action in a scene, now and then at random, and always before the first judgement."""
        epsilon = jnp.float32(TEACHING.epsilon if self.count else 1.0)
        choice = plan(self.reward_head, self.world, slots, key=next(self._keys), epsilon=epsilon)
        self._before = (slots, np.asarray(choice.action).tolist())
        return self._before[1]

    def judge(self, slots: SceneSlots, judgement: float) -> bool:
        """Learn what a person thinks of a scene; return whether a fresh scene should follow."""
        before, action = self._before or (slots, [0.5] * self.world.sizes.action)
        transition = Transition(
            before,
            jnp.asarray(action),
            slots,
            reward=jnp.float32(reward_of(judgement)),
            reward_before=jnp.float32(0.0),
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
        )
        self.state, _ = self._update(self.world, self.state, transition, next(self._keys))
        self.count += 1
        self.curve.append((self.count, judgement))
        steps = self._steps + 1 if self._before else 0
        is_over = steps >= JUDGED_STEPS or (steps > 0 and judgement >= AS_WANTED)
        self._steps = 0 if is_over else steps
        self._before = None
        return is_over

    def fresh_scene(self) -> EnvState:
        """Draw a scene to practise in."""
        return self.env.reset(next(self._keys))[0]


def _resumed(state: CobraState, predictor: Reward | None) -> CobraState:
    """Put a predictor that was learnt before into a fresh state; its buffers are copied, for learning uses them up."""
    if predictor is None:
        return state
    copies = (jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, predictor) for _ in range(3))
    return state._replace(predictor=next(copies), latest=next(copies), target=next(copies))


def _task(part: Part, several: bool) -> Task:
    """Build one part of a task."""
    hue = None if part["colour"] == "any" else hue_range(part["colour"])
    shapes = tuple(part["shapes"]) or None
    scale: dict[str, Any] = {"multiplier": SEVERAL_MULTIPLIER} if several else {}
    if part["kind"] == "goal":
        return FindGoal((round(part["x"], 3), round(part["y"], 3)), hue, shapes, **scale)
    if part["kind"] == "apart":
        return FarApart(hue, shapes, **scale)
    if "any" in (part["colour"], part["other"]) or part["colour"] == part["other"]:
        raise ValueError("Like to like needs two different colours: name both.")
    return Clustering((hue_range(part["colour"]), hue_range(part["other"])))


def _scene(sprites: Sequence[Mapping[str, Any]], recolour: bool) -> tuple[SpriteDistribution, ...]:
    """Describe scenes with these sprites, each anywhere."""

    def distribution(sprite: Mapping[str, Any]) -> SpriteDistribution:
        hue = round(max(sprite["c0"] - HUE_SPREAD, 0.0), 3), round(min(sprite["c0"] + HUE_SPREAD, 1.0), 3)
        saturation, value, angle = (round(float(sprite[name]), 3) for name in ("c1", "c2", "angle"))
        return SpriteDistribution(
            hue=(0.0, 1.0) if recolour else hue,
            saturation=(0.3, 1.0) if recolour else (saturation, saturation),
            value=(value, value),
            shapes=(sprite["shape"],),
            angle=(angle, angle),
            scale=round(sprite["scale"], 3),
        )

    return tuple(distribution(sprite) for sprite in sprites)
