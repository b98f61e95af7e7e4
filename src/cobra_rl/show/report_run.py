"""What is drawn of a finished run of `cobra solve` or `cobra baseline`: its learning curve and a film of its agent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cobra_rl.agents.base import Policy
from cobra_rl.show.figures.style import write
from cobra_rl.show.figures.tasks import learning_curve
from cobra_rl.show.films import beside, film, save_gif
from cobra_rl.show.results import Record, task_result
from cobra_rl.spriteworld.base import Environment

FRAMES, FPS, SEED = 60, 4.0, 7


def report_result(
    record: Record, folder: Path, policy: Policy, params: Any, envs: Mapping[str, Environment]
) -> tuple[Path, Path]:
    """Draw the learning curve of a run and film its agent in the environment of each mode; return the two files."""
    result = task_result(record)
    curve = write(learning_curve(result), "learning_curve", folder)
    films = {mode: film(policy, params, env, FRAMES, SEED) for mode, env in envs.items()}
    path = folder / "film.gif"
    save_gif(beside({f"{result.title}, {mode}": frames for mode, frames in films.items()}), path, FPS)
    return curve, path
