r"""Sorting and clustering without the bonus on success, of which the paper says that it helped MPO and not COBRA.

    .venv/bin/cobra solve --env benchmarks/experiments/no_bonus.py:sorting_no_bonus --steps 2000 --seeds 3
    .venv/bin/cobra baseline --env benchmarks/experiments/no_bonus.py:sorting_no_bonus \
        --features slots --policy deformed --steps 200000 --seeds 3

All else is as in the suite, by the paper's rules. Clustering likewise, where COBRA took 1,200 steps.
Raw results: `results/structured/no_bonus_TASK-AGENT.json`, each with its command.
"""

import dataclasses

from cobra_rl.spriteworld import EnvSpec, Sum, env_spec


def sorting_no_bonus(mode: str) -> EnvSpec:
    """Return the task sorting without a bonus."""
    return _without_bonus(env_spec("sorting", mode))


def clustering_no_bonus(mode: str) -> EnvSpec:
    """Return the task clustering without a bonus."""
    return _without_bonus(env_spec("clustering", mode))


def _without_bonus(spec: EnvSpec) -> EnvSpec:
    if not isinstance(spec.task, Sum):
        raise TypeError(f"{spec.name} has no bonus.")
    return dataclasses.replace(spec, name=f"{spec.name}_no_bonus", task=dataclasses.replace(spec.task, bonus=0.0))
