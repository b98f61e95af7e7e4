"""What is drawn of a finished run of `cobra solve`: its learning curve and a film of its agent."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cobra_rl.agent import Agent
from cobra_rl.show.figures.style import write
from cobra_rl.show.figures.tasks import learning_curve
from cobra_rl.show.films import beside, film, save_gif
from cobra_rl.show.results import Record, task_result
from cobra_rl.spriteworld.base import Environment

FRAMES, FPS, SEED = 60, 4.0, 7


class Shown(NamedTuple):
    """The files that were written."""

    curve: Path
    film: Path


def report_result(record: Record, folder: Path, agent: Agent, envs: Mapping[str, Environment]) -> Shown:
    """Draw the learning curve of a run and film its agent at play, the environment of each mode side by side."""
    result = task_result(record)
    shown = Shown(write(learning_curve(result), "learning_curve", folder), folder / "film.gif")
    films = {
        f"{result.title}, {mode}": film(agent.policy, agent.params, env, FRAMES, SEED) for mode, env in envs.items()
    }
    save_gif(beside(films), shown.film, FPS)
    return shown
