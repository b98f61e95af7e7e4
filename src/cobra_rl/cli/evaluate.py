"""`cobra evaluate`: metrics, as tables and JSON."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from cobra_rl.agents.mpo import mpo_policy
from cobra_rl.bounds import Bounds, to_json
from cobra_rl.cli.options import Episodes, Maybe, OutJson, WorldOption, command_line
from cobra_rl.config import MpoConfig
from cobra_rl.console import working
from cobra_rl.environments import load_environment
from cobra_rl.evaluation.explore import evaluate_explore
from cobra_rl.evaluation.task import greedy_scores
from cobra_rl.evaluation.vision import evaluate_suite, evaluate_vision
from cobra_rl.reporting.results import MAIN_PLACE, write_evaluation
from cobra_rl.reporting.tables import print_explore, print_result, print_vision
from cobra_rl.runs.load import learnt_seeds, load_agent
from cobra_rl.runs.settings import task_settings
from cobra_rl.runs.worlds import load_vision, load_world
from cobra_rl.spriteworld import Spriteworld

EVALUATION_SEED = 1919  # of the episodes of `cobra evaluate RUN`, which differ from those at the end of the run


@dataclass(frozen=True)
class EvaluateRun:
    """Measure the agents of a run in greedy episodes. See also `cobra evaluate vision` and `cobra evaluate explore`."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run of `cobra solve` or `cobra baseline`, such as runs/solve/sorting."""
    world: Annotated[
        WorldOption,
        tyro.conf.arg(
            help="The run's world, by name or folder, if it was moved. Default: the one that it recorded, or its copy."
        ),
    ] = None
    env: Maybe[str] = None  # The environment of the run, given again, as module:name or file.py:name.
    episodes: Episodes = 200  # Number of greedy episodes in each mode (train and test).
    sampled: bool = False  # Draw the actions of a baseline from its policy, as in training, instead of taking the mean.
    out: Maybe[OutJson] = None  # Where to write the metrics as JSON. Default: they are only printed.

    def run(self) -> None:
        """Measure, print, write."""
        settings = task_settings(self.run_folder, self.env)
        seeds = learnt_seeds(self.run_folder)
        policy = None
        if self.sampled:
            if not isinstance(settings.config, MpoConfig):
                raise ValueError(f"--sampled is for runs of MPO, and {self.run_folder} is none; leave it out.")
            policy = mpo_policy(settings.config, sampled=True)
        if not seeds:
            raise ValueError(f"{self.run_folder} holds no agent yet: the run was stopped before its first save.")
        rows = []
        for seed in seeds:
            agent = load_agent(self.run_folder, seed, self.world, env=self.env)
            with working(f"seed {seed}: {self.episodes} {'sampled' if policy else 'greedy'} episodes in each mode"):
                scores = greedy_scores(
                    policy or agent.policy,
                    agent.params,
                    agent.problem.environments(),
                    episodes=self.episodes,
                    seed=EVALUATION_SEED,
                )
            rows.append({"seed": seed} | scores)
        metrics = to_json(settings) | {"episodes": self.episodes, "sampled": self.sampled, "seeds": rows}
        print_result(metrics)
        write_metrics(self.out, metrics)


@dataclass(frozen=True)
class HeldOut:
    """The options of both measurements on held-out scenes."""

    world: WorldOption = None
    env: Maybe[str] = None
    """A Spriteworld of your own, as module:name or file.py:name. Default: the suite's exploration environment."""
    scenes: Annotated[int, Bounds(10, 100_000)] = 1000
    """Number of held-out exploration scenes. Probes are fitted on some and tested on others."""
    out: Maybe[OutJson] = None  # Where to write the metrics as JSON. Default: they are only printed.

    def environment(self) -> Spriteworld | None:
        """Load the Spriteworld of --env; None stands for the suite's exploration environment."""
        env = None if self.env is None else load_environment(self.env)
        if not isinstance(env, Spriteworld | None):
            raise ValueError(f"--env is {self.env}; these metrics need a Spriteworld, whose sprites are known.")
        return env


@dataclass(frozen=True)
class EvaluateVision(HeldOut):
    """Measure a vision module on held-out scenes: FG-ARI, sprites with a slot of their own, reconstruction, probes."""

    vision: Maybe[Path] = None
    """A vision module instead of a world: a run of `cobra train vision`, or a folder of its weights."""
    suite: bool = False  # Also measure initial scenes of all six tasks, in both modes and both variants.

    def run(self) -> None:
        """Measure, print, write."""
        if self.vision is not None and self.world is not None:
            raise ValueError("Give --world or --vision, not both.")
        if self.suite and self.env is not None:
            raise ValueError("--suite measures the environments of the suite; give --suite or --env, not both.")
        model = load_vision(self.vision) if self.vision is not None else load_world(self.world).vision
        with working(f"Looking at {self.scenes:,} scenes and fitting probes"):
            metrics = (
                evaluate_suite(model, self.scenes)
                if self.suite
                else {self.env or MAIN_PLACE: evaluate_vision(model, self.environment(), scenes=self.scenes)}
            )
        print_vision(metrics)
        write_metrics(self.out, metrics)


@dataclass(frozen=True)
class EvaluateExplore(HeldOut):
    """Measure transition model and exploration policy on held-out scenes: hits, pushes, roll-outs, e_pred."""

    def run(self) -> None:
        """Measure, print, write."""
        world = load_world(self.world)
        with working(f"Proposing, pushing and imagining in {self.scenes:,} scenes"):
            metrics = evaluate_explore(world, self.environment(), scenes=self.scenes)
        print_explore(metrics)
        write_metrics(self.out, metrics)


def write_metrics(out: Path | None, metrics: Any) -> None:
    """Write metrics and the command that made them as JSON to `out`, if it is given."""
    if out is not None:
        write_evaluation(out, command_line(), metrics)
        print(f"Raw metrics: {out}")
