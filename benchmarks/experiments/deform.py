"""Measures whether u steers the deformed actions of the baselines: what `world.deform` strikes, in all six tasks.

    .venv/bin/python -m benchmarks.experiments.deform [--scenes 200] [--samples 50] [--world NAME|FOLDER] [--out FILE]

On initial scenes in training mode, with uniform u: `strikes` is the share of deformed clicks that land on a sprite,
`nearest` the share that land on the sprite whose centre is nearest to the click of u. `undeformed` is the share of u's
own clicks that land on a sprite.
"""

import argparse
from pathlib import Path

import jax
import numpy as np

from benchmarks.tools.record import show, write
from cobra_rl.models.world import WorldModel
from cobra_rl.reporting.results import results_of
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import REWARDED, make
from cobra_rl.spriteworld.sprites import front_most_at

SEED = 1906  # of scenes and samples


def measure(world: WorldModel, task: str, scenes: int, samples: int) -> dict[str, float]:
    """Measure the shares of one task."""
    env = make(task)
    states, images = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(SEED), scenes))
    u = np.random.default_rng(SEED).random((scenes, samples, env.action_size))
    slots = np.repeat(np.asarray(world.encode(images))[:, None], samples, axis=1)
    under_click = jax.jit(jax.vmap(jax.vmap(front_most_at, (None, 0))))
    struck, before = (
        np.asarray(under_click(states.sprites, actions[..., :2])) for actions in (world.deform(slots, u), u)
    )
    distance = np.linalg.norm(u[:, :, None, :2] - np.asarray(states.sprites.position)[:, None], axis=-1)
    nearest = np.where(np.asarray(states.sprites.alive)[:, None], distance, np.inf).argmin(axis=-1)
    shares = {"strikes": struck >= 0, "nearest": struck == nearest, "undeformed": before >= 0}
    return {name: float(np.mean(share)) for name, share in shares.items()}


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--world", help="its name or folder; by default the one that `cobra worlds` marks")
    parser.add_argument("--out", type=Path, help="by default deform.json among the results of the world")
    options = parser.parse_args()
    world = load_world(options.world)
    figures = {task: measure(world, task, options.scenes, options.samples) for task in REWARDED}
    show(figures)
    out = options.out or results_of(options.world) / "deform.json"
    write(out, scenes=options.scenes, samples=options.samples, figures=figures)


if __name__ == "__main__":
    main()
