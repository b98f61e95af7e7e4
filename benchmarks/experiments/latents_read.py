"""Which latents the reward predictors of finished runs read: the norms of their weights in the first layer.

    .venv/bin/python -m benchmarks.experiments.latents_read runs/solve [--world NAME] [--out FILE]

The norms of R_object and of R_pair are medians over the seeds of a run.
`pairs` is the share of pairs in how the prediction R = Q + P varies over scenes that the agent comes to:
E|P - EP| / (E|P - EP| + E|Q - EQ|), a median over seeds too.
"""

import argparse
from pathlib import Path

import jax
import numpy as np

from benchmarks.tools.record import show, write
from cobra_rl.evaluation.task import visited_states
from cobra_rl.models.reward import ObjectReward
from cobra_rl.reporting.results import results_of
from cobra_rl.runs.agent import Agent
from cobra_rl.spriteworld import REWARDED, Spriteworld, make

SCENES = 128
SEED = 1920  # of the episodes whose scenes are looked at


def norms(net) -> np.ndarray:
    """Return the norm of each latent's weights in the first layer."""
    return np.linalg.norm(np.asarray(net.layers[0].weight), axis=1)


def share_of_pairs(agent: Agent, predictor: ObjectReward, env: Spriteworld) -> float:
    """Return the share of pairs in what the agent predicts of the scenes that it comes to."""
    states = visited_states(agent.policy, agent.params, env, scenes=SCENES, seed=SEED)
    objects, pairs = predictor.parts(agent.world.encode(jax.vmap(env.draw)(states)))
    sizes = [float(np.abs(part - np.mean(part)).mean()) for part in (np.asarray(objects), np.asarray(pairs))]
    return sizes[1] / sum(sizes)


def read(run: Path) -> dict[str, float]:
    """Return the medians over the seeds of a run, by the names of the latents."""
    settings = Agent.settings(run)
    seeds = range(settings.first_seed, settings.first_seed + settings.seed_count)
    agents = [Agent.load(run, seed) for seed in seeds]
    predictors = [agent.predictor for agent in agents if isinstance(agent.predictor, ObjectReward)]
    if len(predictors) < len(agents):
        raise ValueError(f"{run} has another predictor than ObjectReward.")
    env, names = make(settings.problem.task, variant=settings.problem.variant), agents[0].world.vision.latent_names
    shares = [share_of_pairs(agent, predictor, env) for agent, predictor in zip(agents, predictors, strict=True)]
    rows = {"pairs": float(np.median(shares))}
    for part, net in (("thing", "object_net"), ("pair", "pair_net")):  # by the names that the file has always had
        medians = np.median([norms(getattr(predictor, net)) for predictor in predictors], axis=0)
        rows |= {f"{part}: {name}": float(value) for name, value in zip(names, medians, strict=True)}
    return rows


def main() -> None:
    """Read all runs, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the --out of `cobra solve all`")
    parser.add_argument("--world", help="the world of the runs; by default the one that `cobra worlds` marks")
    parser.add_argument("--out", type=Path, help="by default latents_read.json among the results of the world")
    options = parser.parse_args()
    figures = {task: read(options.runs / task) for task in REWARDED}
    show(figures)
    write(options.out or results_of(options.world) / "latents_read.json", figures=figures)


if __name__ == "__main__":
    main()
