"""The public class `Agent`: a trained COBRA agent that maps pictures to actions, and can be saved and loaded."""

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from cobra_rl.agents.base import Policy
from cobra_rl.agents.cobra import CobraParams, choose_batch, cobra_policy, make_reward, reward_weights
from cobra_rl.bounds import Count, Seed, Share, Width, conform, from_json
from cobra_rl.config import TASK, TaskConfig
from cobra_rl.environments import Problem, as_environment
from cobra_rl.models.reward import Reward, RewardConfig
from cobra_rl.models.world import WorldModel
from cobra_rl.records import OTHER_COMMANDS, TaskSettings, recorded, world_of
from cobra_rl.runtime.folder import open_run
from cobra_rl.runtime.storage import write_atomically
from cobra_rl.runtime.weights import load_weights, read_config, save_weights
from cobra_rl.spriteworld.base import Environment
from cobra_rl.spriteworld.env import Spriteworld
from cobra_rl.spriteworld.names import MODES
from cobra_rl.spriteworld.source import is_writable, python_source
from cobra_rl.worlds import SHIPPED, WEIGHTS, find_world, load_world, world_record

TASKS = WEIGHTS / "tasks"  # each subfolder is a small run of `cobra solve`
TASK_FILE = "task.py"  # in the folder of a run: the environment of one that was made in Python
OWN_TASK = f"{TASK_FILE}:task"  # `Problem.env` of such a run, wherever its folder lies
_choose = eqx.filter_jit(choose_batch)


class Agent:
    """A COBRA agent that has learnt a task: a world model, a trained reward predictor and a planner."""

    def __init__(
        self,
        world: WorldModel,
        predictor: Reward,
        config: TaskConfig,
        problem: Problem | None = None,
        world_folder: Path | str | None = None,
        source: str | None = None,
    ):
        """Build an agent from its parts; `pretrained`, `load` and `learn` do it for you.

        Args:
            world: The world model.
            predictor: The reward predictor, or the value predictor.
            config: Names the planner.
            problem: What the agent learnt, if known.
            world_folder: The folder that `world` was loaded from, for `save`; None for the shipped world.
            source: Python that defines the environment that it learnt in as `task`, for `save`.
        """
        uses_policy = problem is None or problem.exploration_policy
        self.world = world if uses_policy else world.without_policy()
        self.predictor, self.config, self.problem, self.world_folder = predictor, config, problem, world_folder
        self.source = source
        self._key = jax.random.key(0)  # random key of `act`

    @property
    def policy(self) -> Policy:
        """The greedy policy, for evaluation and films."""
        return cobra_policy(self.config)

    @property
    def params(self) -> CobraParams:
        """The parameters of `policy`."""
        return CobraParams(self.world, self.predictor)

    @property
    def name(self) -> str:
        """The name of what it learnt, for folders and films."""
        return (self.problem or Problem("unknown")).name(self.config.value)

    def act(self, image: np.ndarray | Array, epsilon: float = 0.0) -> Float[np.ndarray, " A"]:
        """Choose an action for one picture; for a batch, or in compiled code, use `act_batch`.

        Args:
            image: A picture uint8 [H, W, 3].
            epsilon: The probability of a random one of the proposed actions instead of the best.

        Returns:
            An action in [0, 1]^A. Proposals are random, so that a second call may return another one.

        Raises:
            ValueError: If `image` has another shape or type, or `epsilon` lies outside [0, 1].
        """
        shape = getattr(image, "shape", None)
        if shape is None or len(shape) != 3:
            found = f"a {type(image).__name__}" if shape is None else list(shape)
            raise ValueError(f"`act` takes one picture [H, W, 3], but got {found}; for a batch use `act_batch`.")
        epsilon = conform(Share, epsilon, "epsilon")
        self._key, key = jax.random.split(self._key)
        return np.asarray(self.act_batch(image[None], key[None], jnp.float32(epsilon))[0])

    def act_batch(
        self, images: Array | np.ndarray, keys: Key[Array, " B"], epsilon: Float[Array, ""] | float = 0.0
    ) -> Float[Array, "B A"]:
        """Choose an action for each of several pictures; it is pure, so that it may be called in compiled code.

        Args:
            images: Pictures uint8 [B, H, W, 3].
            keys: One random key for each picture.
            epsilon: The share of random choices among the proposals; changing it does not recompile.

        Returns:
            Actions [B, A] in [0, 1].
        """
        slots = self.world.encode(images)
        return _choose(self.config, self.params, slots, keys, jnp.asarray(epsilon, jnp.float32))

    def save(self, folder: str | Path) -> Path:
        """Save the agent, for `Agent.load` and `cobra watch --run`; its world is recorded, but not copied.

        To be watched or evaluated it needs its environment: a task of the suite, a `source`, or `problem.env`.

        Args:
            folder: A new folder, or one that holds an agent with the same settings, which is overwritten; returned.

        Raises:
            ValueError: If the folder holds something with other settings.
        """
        folder, problem = Path(folder), self.problem or Problem("unknown")
        problem = problem if self.source is None else dataclasses.replace(problem, env=OWN_TASK)
        world = world_record(find_world(self.world_folder))
        settings = {"phase": "task", "problem": problem, "config": self.config, "world": world}
        with open_run(folder, settings, command="Agent.save"):
            _write_source(folder, self.source)
            save_weights(folder / "seed0" / "reward", *reward_weights(self.predictor, self.world))
        return folder

    @classmethod
    def load(cls, run: str | Path, seed: int | None = None, world: str | Path | None = None) -> "Agent":
        """Load an agent that `cobra solve`, `Agent.learn` or `Agent.save` left, with the world that it learnt in.

        Args:
            run: The folder of the run, or of the saved agent.
            seed: The random seed of the run to load, by default the first.
            world: The folder of its world, by default the run's copy or the recorded path.

        Raises:
            FileNotFoundError: If there is no run, no agent of this seed, or its world is gone.
            ValueError: If the run is of another kind, its files are damaged, or `world` is another world.
        """
        folder = Path(run)
        settings = cls.settings(folder)
        if (name := settings.config.agent) != "cobra":
            raise ValueError(f"{run} was learnt by {name}, not by COBRA; use cobra_rl.players.load_player to load it.")
        path, place = settings.weights_of(folder, seed, "reward"), world_of(folder, settings.world, world)
        entries, where = read_config(path, "reward"), str(path / "config.json")
        latents = conform(Width, entries.pop("latents", None), f"{where}, latents,")
        reward_config = from_json(RewardConfig, entries, where)
        like = eqx.filter_eval_shape(lambda key: make_reward(reward_config, latents, key), jax.random.key(0))
        predictor, known = load_weights(path, like, "reward"), load_world(place)
        if latents != known.sizes.latents:
            raise ValueError(f"{where} is of {latents} latents, and the world in {place} has {known.sizes.latents}.")
        problem, source, file = settings.problem, None, folder / TASK_FILE
        if problem.env == OWN_TASK:
            problem = dataclasses.replace(problem, env=f"{file.resolve()}:task")
            source = file.read_text() if file.exists() else None
        return cls(known, predictor, settings.config, problem, None if place == SHIPPED else place, source)

    @classmethod
    def pretrained(cls, task: str, variant: str = "paper") -> "Agent":
        """Load the agent for a task of the suite that is shipped with the package.

        Args:
            task: A task of the suite with rewards, such as "sorting".
            variant: The rules by which it learnt: "paper", or "released" for those of the public Spriteworld package.

        Raises:
            ValueError: If no agent is shipped for them; the message lists those that are.
        """
        folder = TASKS / str(task) if variant == "paper" else TASKS / f"{task}-{variant}"
        if not all(isinstance(name, str) for name in (task, variant)) or not (folder / "run.json").is_file():
            shipped = ", ".join(sorted(path.name for path in TASKS.iterdir() if path.is_dir()))
            raise ValueError(f"No agent is shipped for {task!r}, {variant!r}; there is one for each of {shipped}.")
        return cls.load(folder)

    @classmethod
    def learn(
        cls,
        env: Any,
        steps: int,
        seed: int = 0,
        config: TaskConfig = TASK["laptop"],
        world: str | Path | None = None,
        folder: str | Path | None = None,
        final: int = 100,
        name: str | None = None,
        report: Callable[..., Any] | None = None,
    ) -> "Agent":
        """Learn a task of your own from rewarded steps, with a trained world model that stays frozen.

        Args:
            env: An Environment, an EnvSpec, a function of the mode that returns one, or a mapping of "train" and "test"
                to any of these; "test", by default the same as "train", is only scored.
            steps: The number of rewarded environment steps.
            seed: The random seed of learning.
            config: How to learn; rewards are clipped at `config.reward_cap`.
            world: The folder of the world model, by default the shipped one.
            folder: For log, checkpoints and result.json, as by `cobra solve`; by default a temporary one. The same
                call resumes a run that was stopped there. An EnvSpec whose parts are Spriteworld's own is kept there
                too, for `cobra watch --run` and `cobra evaluate`; other environments made in Python they cannot find.
            final: The number of greedy episodes in each mode that score the agent, in result.json.
            name: The name of the task, by default that of the EnvSpec.
            report: Shows the finished run, with the arguments result, folder, agent, envs; `cobra_rl.report_run` draws
                its learning curve and films its agent.

        Returns:
            The agent.

        Raises:
            ValueError: If an argument is out of range, `env` does not fit the world, or `folder` holds another run.
        """
        from cobra_rl.phases.task import prepare

        if report is not None and folder is None:
            raise ValueError("report is given, but no folder; what it draws of a run is kept in its folder.")
        steps, seed, final = conform(Count, steps, "steps"), conform(Seed, seed, "seed"), conform(Count, final, "final")
        config = conform(TaskConfig, config, "config")
        if isinstance(env, Mapping) and "train" not in env:
            raise ValueError(f"env has the modes {list(env)}; it must have train, and may have test.")
        modes = env if isinstance(env, Mapping) else {mode: env for mode in MODES}
        envs = {mode: as_environment(modes.get(mode, modes["train"]), mode) for mode in MODES}
        title = name or getattr(getattr(envs["train"], "spec", None), "name", "task")
        with tempfile.TemporaryDirectory() as temporary:
            place, seeds = Path(folder or temporary), range(seed, seed + 1)
            rest = {"envs": envs, "world_folder": world, "command": "Agent.learn"}
            source = _source(envs)
            problem = Problem(title, env=None if source is None else OWN_TASK)
            solving = prepare(config, load_world(world), problem, place, seeds, steps, final, **rest)
            with solving.held():  # not the folder of another run
                _write_source(place, source)
            result, agent = solving.solve(), cls.load(place, seed, world)
            if report is not None:
                report(result, place, agent, envs)
            if folder is None:
                agent.problem, agent.world_folder = Problem(title), world
        return agent

    @staticmethod
    def settings(run: str | Path) -> TaskSettings:
        """Return the settings of a run of `cobra solve`; raise a ValueError for any other run.json."""
        phase, settings = recorded(run)
        if phase in OTHER_COMMANDS:
            raise ValueError(f"{run} is no run of `cobra solve`, but of `{OTHER_COMMANDS[phase]}`.")
        return from_json(TaskSettings, settings, f"{Path(run) / 'run.json'}, settings,")


def _source(envs: Mapping[str, Environment]) -> str | None:
    """Return Python that defines these environments as `task`; None if they cannot be written."""
    specs = tuple(env.spec for env in (envs[mode] for mode in MODES) if isinstance(env, Spriteworld))
    return python_source(*specs) if len(specs) == len(MODES) and is_writable(specs) else None


def _write_source(folder: Path, source: str | None) -> None:
    if source is not None:
        write_atomically(folder / TASK_FILE, source.encode())
