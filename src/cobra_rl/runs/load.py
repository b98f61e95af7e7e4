"""Loads the agent of any run, whichever kind of agent it is, for evaluation, films and the page of `cobra play`."""

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax

from cobra_rl.agents.contract import Policy, sizes_for
from cobra_rl.bounds import to_json
from cobra_rl.config import CobraConfig
from cobra_rl.environments import Problem
from cobra_rl.models.world import WorldModel
from cobra_rl.parts import trusting
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.settings import task_settings, world_of
from cobra_rl.runs.task import make_learner
from cobra_rl.runs.worlds import load_world
from cobra_rl.storage.weights import CONFIG_FILE, WEIGHTS_FILE, load_weights, read_config


class OtherAgent(NamedTuple):
    """An agent other than COBRA that has learnt a task."""

    policy: Policy  # the greedy policy; a baseline acts by the mean of its Gaussian
    params: Any
    problem: Problem
    world: WorldModel | None  # the world model that it uses, or None
    name: str  # of the task, with that of the agent


TrainedAgent = Agent | OtherAgent  # its policy, params, problem, world and name


def load_agent(
    run: str | Path,
    seed: int | None = None,
    world: str | Path | None = None,
    *,
    env: Any = None,
    trust: bool = False,
) -> TrainedAgent:
    """Load the agent of a seed of a run, whichever kind of agent it is.

    Args:
        run: The folder of a run of `cobra solve` or `cobra baseline`, or of a saved agent.
        seed: The random seed; by default the first of the run.
        world: The folder of its world, if that was moved (see `Agent.load`).
        env: The environment that it learnt in, given again (see `Agent.load`).
        trust: Whether code that the run names may be run (see `Agent.load`).

    Returns:
        An `Agent` if COBRA learnt, else an `OtherAgent`.
    """
    folder = Path(run)
    settings = task_settings(folder, env, trust)
    if isinstance(settings.config, CobraConfig):
        return Agent.load(folder, seed, world, env=env, trust=trust)
    with trusting(trust):
        learner = make_learner(settings.config)
        place = None if settings.world is None else world_of(folder, settings.world, world)
        known = None if place is None else load_world(place, policy=settings.problem.exploration_policy)
        sizes = sizes_for(settings.problem.environments()["train"], known)
        # The saved weights have the shape of those before the first step.
        like = eqx.filter_eval_shape(lambda: learner.saved_like(known, sizes))
        path = settings.weights_of(folder, seed, like.kind)
        if not learner.is_saved_by(read_config(path, like.kind), to_json(like.config)):
            raise ValueError(f"{path / 'config.json'} is not of the run {folder}: its configuration is another.")
        params = learner.restore(known, load_weights(path, like.tree, like.kind))
        return OtherAgent(
            learner.policy,
            params,
            settings.problem,
            world=next(filter(is_world, jax.tree.leaves(params, is_leaf=is_world)), None),
            name=settings.problem.name(agent=settings.agent),
        )


def is_world(part: Any) -> bool:
    """Return whether a part of an agent's parameters is the world model."""
    return isinstance(part, WorldModel)


def learnt_seeds(run: Path) -> list[int]:
    """Return the random seeds of a run that have saved weights."""
    files = (path for name in (WEIGHTS_FILE, CONFIG_FILE) for path in run.glob(f"seed*/*/{name}"))
    names = {path.parents[1].name.removeprefix("seed") for path in files}
    return sorted(int(name) for name in names if name.isdecimal())
