"""`cobra solve` and `cobra baseline`: learn tasks with COBRA, a model-free agent or one of the user's own."""

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from cobra_rl.bounds import Bounds, Often, Seed
from cobra_rl.cli.options import (
    ActorCount,
    Episodes,
    Maybe,
    OutFolder,
    Preset,
    Runtime,
    Seeds,
    Steps,
    TaskOrAll,
    Variant,
    Workers,
    WorldOption,
    check_ray_options,
    command_line,
    ray_actors,
    shortcut,
)
from cobra_rl.config import COBRA, MOST_SEEDS, MPO, AgentConfig, CobraConfig, MpoConfig
from cobra_rl.console import working
from cobra_rl.environments import Problem
from cobra_rl.parts import absolute_name
from cobra_rl.spriteworld.names import REWARDED, SUITE

OWN_STEPS = 1000  # default of rewarded steps for a task of the user's own
MPO_STEPS = 20_000  # and for the model-free agent
UNUSED = {  # fields of the networks' configuration that the other features use
    "pixels": ("actor_slot_layers", "actor_global_layers", "critic_slot_layers", "critic_global_layers"),
    "slots": ("channels", "patches", "shrink", "shared", "hidden"),
}


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What both commands share: their options, and how they show results."""

    task: Annotated[Maybe[TaskOrAll], tyro.conf.Positional] = None
    """A task of the suite, or `all` to learn the six tasks one after the other and compare them in a table."""
    env: Maybe[str] = None  # A task of your own, as module:name or file.py:name, instead of one of the suite.
    world: WorldOption = None
    variant: Variant = "paper"  # Rules of the task: the paper's, or those of the released Spriteworld 1.0.2.
    preset: Preset = "laptop"
    """debug: for tests; laptop, and here also learnt: ours, for two CPU cores; paper: the paper's numbers."""
    seeds: Seeds = 1  # Number of random seeds; each trains one agent.
    first_seed: Seed = 0  # First random seed; the others follow it.
    runtime: Runtime = "local"
    """Train the seeds in this process, or in parallel with Ray (needs the extra [ray])."""
    side_by_side: Annotated[int, Bounds(1, 1000)] = MOST_SEEDS
    """The most seeds that are learnt side by side in this process, in one compiled call."""
    workers: Maybe[Workers] = None  # Number of seeds that Ray trains in parallel on this machine. Default: 2.
    address: Maybe[str] = None  # Address of a Ray cluster, such as auto; all machines must see the disk of --out.
    final: Episodes = 200  # Greedy evaluation episodes at the end, in each mode (train and test).
    check_every: Often = 0
    """Environment steps between evaluations of the current greedy policy, 100 episodes each, fewer if more than 10 are
    lost before. 0: no evaluations."""

    place: ClassVar[str]  # the folder in runs/ for runs of this command
    part_of_all: ClassVar[str] = "{task}"  # the folder of a task below --out, for `all`

    def learn(
        self, config: AgentConfig, steps: int | None, out: OutFolder | None, make_actors: Any = None, **rules: Any
    ) -> None:
        """Learn the task, or all of them, and show the results.

        Args:
            config: The agent, with the options applied that stand for some of its fields.
            steps: The number of environment steps per seed; None: it depends on the task.
            out: The folder, or with `all` the parent of one folder per task.
            make_actors: As in `runs.task.prepare`; if it is given, Ray trains no seeds in parallel.
            **rules: What else the `Problem` has.
        """
        if (self.task is None) == (self.env is None):
            raise ValueError(f"Name a task ({', '.join(REWARDED)}, all) or give one of your own with --env; not both.")
        if self.env is not None and self.variant != "paper":
            raise ValueError(f"--variant {self.variant} is for tasks of the suite; leave it out with --env.")
        check_ray_options(self.runtime, workers=self.workers, address=self.address)
        from cobra_rl.reporting.tables import print_result, print_suite  # here and below: not for --help
        from cobra_rl.runs.task import learn_elsewhere, prepare

        env = self.env and absolute_name(self.env)
        runs = []
        for task in REWARDED if self.task == "all" else [self.task]:
            problem = Problem(task or str(self.env).rpartition(":")[2], self.variant, env=env, **rules)
            name = problem.name(config.value, config.name)
            folder = Path("runs", self.place, name if self.preset == "laptop" else f"{name}-{self.preset}")
            if out is not None:
                folder = out / self.part_of_all.format(task=task, agent=config.name) if self.task == "all" else out
            runs.append(
                prepare(
                    config,
                    problem,
                    folder,
                    seeds=range(self.first_seed, self.first_seed + self.seeds),
                    steps=steps or (SUITE[task].steps if task else OWN_STEPS),
                    final=self.final,
                    world_folder=self.world,
                    command=command_line(),
                    check_every=self.check_every,
                    side_by_side=self.side_by_side,
                    make_actors=make_actors,
                )
            )
        if self.runtime == "ray" and make_actors is None:
            learn_elsewhere(runs, self.workers, self.address)  # below, `solve` finds them done
        results = []
        for run in runs:
            results.append(run.solve())
            print_result(results[-1])
            self.show(results[-1], run.folder, run.envs)
        if self.task == "all":
            print_suite(results)

    def show(self, result: dict[str, Any], folder: Path, envs: Any) -> None:
        """Draw the learning curve of a run, film its agent, and print the paths of the files."""
        from cobra_rl.reporting.figures.tasks import report_run
        from cobra_rl.runs.load import load_agent

        with working("Drawing the learning curve and filming the agent"):
            curve, film = report_run(result, folder, load_agent(folder, env=self.env), envs)
        print(f"Result: {folder / 'result.json'}\nLearning curve: {curve}\nFilm: {film}")


@dataclass(frozen=True, kw_only=True)
class Solve(Learning):
    """Learn a task, by default with COBRA: train the reward predictor in a frozen world model. Repeat it to resume or
    add steps or seeds."""

    presets: ClassVar = COBRA
    place: ClassVar[str] = "solve"

    agent: str = "cobra"  # The agent that learns: cobra, mpo, or one of your own as FILE.py:CLASS.
    config: AgentConfig  # The agent and its training; every field is an option.
    steps: Maybe[Steps] = None
    """Rewarded environment steps per seed. Default: depends on the task, 600 to 2,000; 20,000 with --agent mpo."""
    sparse: bool = False  # Sparse rewards: 1 on success, 0 before.
    predictor: Maybe[Literal["reward", "value"]] = None
    """Learn to predict the reward of a scene, or its value. Default: value with --sparse, else reward."""
    exploration_policy: bool = True  # Propose actions by the exploration policy; else uniformly at random (ablation).
    out: Maybe[OutFolder] = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/solve/TASK[-OPTIONS]."""

    def run(self) -> None:
        """Learn the task and show the results."""
        steps = self.steps or (MPO_STEPS if self.agent == "mpo" else None)
        self.learn(
            self.configuration(), steps, self.out, sparse=self.sparse, exploration_policy=self.exploration_policy
        )

    def configuration(self) -> AgentConfig:
        """Return the configuration; with sparse rewards: values, no scaling, random choices until the first reward."""
        config = self.config
        if not isinstance(config, CobraConfig):
            if self.predictor is not None:
                raise ValueError(f"--predictor is for COBRA; leave it out with --agent {self.agent}.")
            return config
        value = self.sparse if self.predictor is None else self.predictor == "value"
        if config.value and self.predictor == "reward":
            raise ValueError("--predictor reward and --config.value contradict each other; leave one of them out.")
        config = replace(config, value=config.value or value)
        if not self.sparse:
            return config
        unit = 1.0 if config.reward_unit == COBRA[self.preset].reward_unit else config.reward_unit
        return replace(config, reward_unit=unit, wait_for_reward=True)


@dataclass(frozen=True, kw_only=True)
class Baseline(Learning):
    """Learn a task with one of the model-free MPO baselines. Repeat the command to resume or to add steps or seeds."""

    presets: ClassVar = MPO
    place: ClassVar[str] = "baseline"
    part_of_all: ClassVar[str] = "{task}-{agent}"  # baselines may share --out

    config: MpoConfig  # The agent and its training; every field is an option.
    features: Maybe[Literal["pixels", "slots"]] = None
    """What actor and critic see: pictures (the default), or the world model's slots."""
    policy: Maybe[Literal["raw", "deformed"]] = None
    """Raw actions (the default), or actions deformed by the exploration policy. MPO raw is pixels and raw, and uses no
    world model; MPO handheld is slots and deformed."""
    steps: Steps = 20_000  # Environment steps per seed, rounded up to a multiple of the number of environments.
    actors: Maybe[ActorCount] = None
    """Number of Ray actors that collect for the learner, which then trains the seeds one after the other in this
    process; each actor steps one environment. Without it, Ray trains seeds in parallel."""
    out: Maybe[OutFolder] = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/baseline/TASK-BASELINE[-OPTIONS],
    such as runs/baseline/sorting-mpo_handheld."""

    def run(self) -> None:
        """Learn the task and show the results."""
        check_ray_options(self.runtime, actors=self.actors)
        if self.actors and self.workers:
            raise ValueError("--actors and --workers are two ways to use Ray; give one of them.")
        actors = functools.partial(ray_actors, count=self.actors, address=self.address) if self.actors else None
        self.learn(self.configuration(), self.steps, self.out, actors)

    def configuration(self) -> MpoConfig:
        """Return the configuration with the options --features and --policy applied."""
        usual = MPO[self.preset]
        config = shortcut(self.config, usual, "features", self.features, "--features")
        for name in UNUSED[config.features]:
            if getattr(config.networks, name) != getattr(usual.networks, name):
                raise ValueError(
                    f"--config.networks.{name.replace('_', '-')} is of no use with --features {config.features}; "
                    "leave one of them out."
                )
        return shortcut(config, usual, "policy", self.policy, "--policy")
