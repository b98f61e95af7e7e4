"""Registers the suite with Gymnasium by name alone: neither JAX nor the environments are imported."""

import gymnasium

from cobra_rl.spriteworld.names import TASKS


def gym_id(task: str) -> str:
    """Translate a task's name to its Gymnasium id: sorting to cobra_rl/Sorting-v0."""
    return f"cobra_rl/{task.title().replace('_', '')}-v0"


def register() -> None:
    """Register the suite with Gymnasium. Doing it twice does no harm."""
    for task in TASKS:
        if gym_id(task) not in gymnasium.registry:
            gymnasium.register(
                gym_id(task),
                entry_point="cobra_rl.spriteworld.gym:SpriteworldEnv",
                vector_entry_point="cobra_rl.spriteworld.gym:SpriteworldVectorEnv",
                kwargs={"task": task},
                # The tests run check_env; its checks at every step would cost a quarter of a step.
                disable_env_checker=True,
            )
