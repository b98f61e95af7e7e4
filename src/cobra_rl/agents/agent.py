"""A trained agent as a person uses it: images in, actions out."""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from cobra_rl.agents import learner
from cobra_rl.agents.learner import choose, frozen_parts
from cobra_rl.config import TASK, TaskConfig
from cobra_rl.models.reward import Reward, RewardConfig
from cobra_rl.pretrained import SHIPPED, Curious, load_model, load_pretrained
from cobra_rl.spriteworld import Spriteworld

TASKS = SHIPPED / "tasks"  # a small run of `cobra solve` each


class Agent:
    """COBRA with what a task taught it. `act` is greedy, unless told otherwise.

    agent = Agent.pretrained("sorting")  # or Agent.load("runs/solve/sorting")
    action = agent.act(image)  # uint8 [64, 64, 3] -> [4] in [0, 1]
    """

    def __init__(self, parts: Curious, reward: Reward, config: TaskConfig, use_policy: bool = True, seed: int = 0):
        self.parts, self.reward, self.config = parts, reward, config
        self.frozen = frozen_parts(parts, use_policy)
        self._key = jax.random.key(seed)

    @classmethod
    def load(cls, run: str | Path, seed: int = 0) -> "Agent":
        """The agent of a run of `cobra solve`, of one of its seeds."""
        folder = Path(run)
        settings = cls.settings(folder)
        reward = load_model(folder / f"seed{seed}" / "reward", "reward", Reward, RewardConfig)
        known = {name: settings["config"][name] for name in ("proposals", "depth", "epsilon", "most_reward")}
        config = TaskConfig(reward=reward.config, **known)
        return cls(load_pretrained(), reward, config, settings["problem"]["exploration_policy"])

    @classmethod
    def pretrained(cls, task: str) -> "Agent":
        """The agent that learnt a task of the suite (paper variant), as shipped with the package."""
        if not (TASKS / task).is_dir():
            shipped = ", ".join(sorted(path.name for path in TASKS.iterdir() if path.is_dir()))
            raise ValueError(f"No agent is shipped for {task!r}; there is one for each of {shipped}.")
        return cls.load(TASKS / task)

    @classmethod
    def learn(cls, env: Spriteworld, steps: int, seed: int = 0, config: TaskConfig = TASK["laptop"]) -> "Agent":
        """An agent for a world and a task of your own, after so many rewarded steps; the rest is as shipped."""
        parts = load_pretrained()
        frozen = frozen_parts(parts)
        turn = eqx.filter_jit(lambda frozen, state: learner.step(config, env, frozen, False, state))
        state = learner.begin(config, env, frozen, jax.random.key(seed)[None], steps)
        for _ in range(steps):
            state, _ = turn(frozen, state)
        return cls(parts, jax.tree.map(lambda leaf: leaf[0], state.predictor), config)

    @staticmethod
    def settings(run: str | Path) -> dict[str, Any]:
        """What a run was asked for."""
        try:
            return json.loads((Path(run) / "run.json").read_text())
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{run} is no run of `cobra solve`: it has no run.json.") from error

    def act(self, image: np.ndarray | Array, epsilon: float = 0.0) -> Float[np.ndarray, " 4"]:
        """The action to take in view of an image, uint8 [64, 64, 3]."""
        slots = self.parts.encode(np.asarray(image)[None])[0]
        self._key, key = jax.random.split(self._key)
        return np.asarray(_choose(self.config, self.frozen, self.reward, slots, key, epsilon).action)


_choose = eqx.filter_jit(choose)
