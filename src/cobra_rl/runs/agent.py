"""The public class `Agent`: a trained COBRA agent that maps pictures to actions, and can be saved and loaded."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from cobra_rl.agents.cobra import CobraParams, choose_batch, cobra_policy, reward_weights
from cobra_rl.agents.contract import Policy
from cobra_rl.bounds import Count, Seed, Share, Width, conform
from cobra_rl.config import COBRA, CobraConfig
from cobra_rl.environments import Problem, as_environments
from cobra_rl.models.reward import Reward
from cobra_rl.models.world import WorldModel
from cobra_rl.parts import PartConfig, name_of, short_name
from cobra_rl.runs.folder import open_run
from cobra_rl.runs.settings import TASK_FILE, TaskSettings, WorldUsed, task_settings, world_of
from cobra_rl.runs.worlds import DEFAULT_WORLD, agents_in, find_world, home_of, load_model, load_world, world_record
from cobra_rl.spriteworld.env import Spriteworld
from cobra_rl.spriteworld.source import python_source
from cobra_rl.storage.files import write_atomically
from cobra_rl.storage.weights import read_config, save_weights

_choose = eqx.filter_jit(choose_batch)


class Agent:
    """A COBRA agent that has learnt a task: a world model, a trained reward predictor and a planner."""

    def __init__(
        self,
        world: WorldModel,
        predictor: Reward,
        config: CobraConfig,
        problem: Problem | None = None,
        world_folder: Path | str | None = None,
    ):
        """Build an agent from its parts; `pretrained`, `load` and `learn` do it for you.

        Args:
            world: The world model.
            predictor: The reward predictor, or the value predictor.
            config: Names the planner.
            problem: What the agent learnt, if known.
            world_folder: The name or the folder of `world`, for `save`; None for the default world.
        """
        self.problem = problem or Problem("unknown")
        self.world = world if self.problem.exploration_policy else world.without_policy()
        self.predictor = predictor
        self.config = config
        self.world_folder = world_folder
        self._key = jax.random.key(0)  # random key of `act`

    def __repr__(self) -> str:
        folder = Path(DEFAULT_WORLD if self.world_folder is None else self.world_folder)
        world = folder.parent.name if folder.name == "world" else folder.name
        parts = f"reward={_called(self.config.reward)!r}, planner={_called(self.config.planner)!r}"
        return f"Agent({self.name!r}, world={world!r}, {parts})"

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
        return self.problem.name(self.config.value)

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
        return _choose(self.config, self.params, self.world.encode(images), keys, jnp.asarray(epsilon, jnp.float32))

    def save(self, folder: str | Path) -> Path:
        """Save the agent, for `Agent.load` and `cobra watch --run`; its world is recorded, but not copied.

        To be watched or evaluated it needs its environment: a task of the suite, `problem.specs`, or `problem.env`.

        Args:
            folder: A new folder, or one that holds an agent with the same settings, which is overwritten; returned.

        Raises:
            ValueError: If the folder holds something with other settings.
        """
        folder = Path(folder)
        settings = TaskSettings(
            problem=self.problem,
            config=self.config,
            world=WorldUsed(**world_record(find_world(self.world_folder))),
        )
        with open_run(folder, settings, command="Agent.save"):
            _write_source(folder, self.problem)
            save_weights(folder / "seed0" / "reward", reward_weights(self.predictor, self.world))
        return folder

    @classmethod
    def load(
        cls,
        run: str | Path,
        seed: int | None = None,
        world: str | Path | None = None,
        *,
        env: Any = None,
        trust: bool = False,
    ) -> "Agent":
        """Load an agent that `cobra solve`, `Agent.learn` or `Agent.save` left, with the world that it learnt in.

        Args:
            run: The folder of the run, or of the saved agent.
            seed: The random seed of the run to load, by default the first.
            world: The name or the folder of its world, by default the one that it recorded, or its copy of it.
            env: The environment that it learnt in, given again: module:name, file.py:name, or as `learn` takes it.
            trust: Whether code that the run and its world name may be run. They name some only if it learnt in an
                environment that is neither of the suite nor an EnvSpec of Spriteworld's own parts, or if a part of the
                agent is a class of a user's own.

        Raises:
            FileNotFoundError: If there is no run, no agent of this seed, or its world is gone.
            ValueError: If the run is of another kind, its files are damaged, `world` is another world, or it names
                code and neither `env` nor `trust` is given.
        """
        folder = Path(run)
        settings = task_settings(folder, env, trust)
        if not isinstance(settings.config, CobraConfig) or settings.world is None:
            raise ValueError(
                f"{run} was learnt by {settings.agent}, not by COBRA; use cobra_rl.runs.load.load_agent to load it."
            )
        path = settings.weights_of(folder, seed, "reward")
        place = world_of(folder, settings.world, world)
        entries = read_config(path, "reward")
        where = str(path / "config.json")
        latents = conform(Width, entries.pop("latents", None), f"{where}, latents,")
        predictor = load_model(path, "reward", entries, latents, trust=trust)
        known = load_world(place, trust=trust)
        if latents != known.sizes.latents:
            raise ValueError(f"{where} is of {latents} latents, and the world in {place} has {known.sizes.latents}.")
        return cls(known, predictor, settings.config, settings.problem, place)

    @classmethod
    def pretrained(cls, task: str, variant: str = "paper", world: str | Path | None = None) -> "Agent":
        """Load the agent for a task that is kept with a world, such as those that are shipped with the package.

        Args:
            task: A task of the suite with rewards, such as "sorting".
            variant: The rules by which it learnt: "paper", or "released" for those of the public Spriteworld package.
            world: The name of the world, or its folder, by default that which `cobra worlds` marks.

        Raises:
            ValueError: If the world has no agent for them; the message lists those that it has.
        """
        place = find_world(world)
        found = agents_in(world)
        name = str(task) if variant == "paper" else f"{task}-{variant}"
        if name not in found:
            there = f"there is one for each of {', '.join(found)}" if found else "there is none for any task"
            raise ValueError(f"No agent is shipped for {task!r}, {variant!r}; {there} in {home_of(world).name}.")
        return cls.load(found[name], world=place)

    @classmethod
    def learn(
        cls,
        env: Any,
        steps: int,
        *,
        seed: int = 0,
        config: CobraConfig = COBRA["laptop"],
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
            world: The name or the folder of the world model, by default that which `cobra worlds` marks.
            folder: For log, checkpoints and result.json, as by `cobra solve`; by default a temporary one. The same
                call resumes a run that was stopped there. An EnvSpec whose parts are Spriteworld's own is kept there
                too, for `cobra watch --run` and `cobra evaluate`; other environments made in Python they cannot find.
            final: The number of greedy episodes in each mode that score the agent, in result.json; without a folder
                there is none, so that nothing is scored.
            name: The name of the task, by default that of the EnvSpec.
            report: Shows the finished run, with the arguments result, folder, agent, envs; `cobra_rl.report_run` draws
                its learning curve and films its agent.

        Returns:
            The agent.

        Raises:
            ValueError: If an argument is out of range, `env` does not fit the world, or `folder` holds another run.
        """
        from cobra_rl.runs.task import prepare

        if report is not None and folder is None:
            raise ValueError("report is given, but no folder; what it draws of a run is kept in its folder.")
        steps = conform(Count, steps, "steps")
        seed = conform(Seed, seed, "seed")
        final = conform(Count, final, "final")
        config = conform(CobraConfig, config, "config")
        envs = as_environments(env)
        title = name or getattr(getattr(envs["train"], "spec", None), "name", "task")
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(folder or temporary)
            problem = Problem(title).with_data(envs)
            run = prepare(
                config,
                problem,
                place,
                seeds=range(seed, seed + 1),
                steps=steps,
                final=final,
                envs=envs,
                world_folder=world,
                command="Agent.learn",
            )
            with run.lock():  # not the folder of another run
                _write_source(place, problem)
                if folder is None:  # nobody will see scores, which take longer than to learn a few hundred steps
                    run.train(run.seeds)
            result = run.solve() if folder is not None else None
            agent = cls.load(place, seed, world)
            if report is not None:
                report(result, place, agent, envs)
            if folder is None:
                agent.world_folder = world
        return agent


def _called(config: PartConfig) -> str:
    """Return the name of the class of a part; of one that has none, that of its configuration."""
    with suppress(ValueError):
        return short_name(name_of(config))
    return type(config).__name__


def _write_source(folder: Path, problem: Problem) -> None:
    """Write a task that is recorded as data as Python, too, for people to read; it is never loaded."""
    if problem.specs is None:
        return
    specs = [env.spec for env in problem.environments().values() if isinstance(env, Spriteworld)]
    write_atomically(folder / TASK_FILE, python_source(*specs).encode())
