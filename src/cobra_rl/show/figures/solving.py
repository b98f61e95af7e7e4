"""The agent solving each task, five frames an episode, in training and in robustness mode."""

import jax
import numpy as np
from matplotlib.figure import Figure

from cobra_rl.agents.agent import Agent
from cobra_rl.evaluation.task import searching
from cobra_rl.figures.performance import TASKS
from cobra_rl.figures.style import Drawn, show
from cobra_rl.films import play
from cobra_rl.pretrained import Curious
from cobra_rl.spriteworld import MODES, make, render

FRAMES, SIZE, SEED = 5, 160, 3
HEADINGS = {"train": "training mode", "test": "robustness mode"}


def solving(_: Curious) -> Drawn:
    """Episodes of the shipped agents: the first of at least four steps."""
    figure = Figure(figsize=(2 * FRAMES * 0.95 + 1.4, len(TASKS) * 0.95 + 0.3))
    widths = [1.0] * FRAMES + [0.25] + [1.0] * FRAMES  # a gap between the modes
    margins = {"left": 0.12, "right": 0.995, "bottom": 0.01, "top": 0.95, "wspace": 0.04, "hspace": 0.06}
    shares = margins | {"width_ratios": widths}
    grid = figure.subplots(len(TASKS), len(widths), gridspec_kw=shares, squeeze=False)
    for row, (task, label) in zip(grid, TASKS.items(), strict=True):
        row[FRAMES].set_visible(False)
        agent = Agent.pretrained(task)
        for mode, cells in zip(MODES, (row[:FRAMES], row[FRAMES + 1 :]), strict=True):
            for axes, picture in zip(cells, _frames(agent, task, mode), strict=True):
                show(axes, picture)
        row[0].set_ylabel(label, rotation=0, ha="right", va="center", labelpad=6, fontsize=8)
    for mode, column in zip(MODES, (FRAMES // 2, FRAMES + 1 + FRAMES // 2), strict=True):
        grid[0, column].set_title(HEADINGS[mode], fontsize=9)
    return Drawn(
        figure,
        "The agent solving the six tasks: five frames of an episode from its first to its last, the steps between them "
        "evenly spread. Arrows are actions, crossed circles are goals that the agent does not see. "
        "Greedy; for each row the first episode of a fixed seed that lasts at least four steps, solved "
        "or not.",
    )


def _frames(agent: Agent, task: str, mode: str) -> list[np.ndarray]:
    env = make(task, mode)
    policy, key, number = searching(agent.config, env), jax.random.key(SEED), 0
    episode = play(policy, (agent.frozen, agent.reward), env, key)
    while len(episode.actions) < FRAMES - 1:
        number += 1
        episode = play(policy, (agent.frozen, agent.reward), env, jax.random.fold_in(key, number))
    actions = [*episode.actions, None]
    chosen = np.linspace(0, len(actions) - 1, FRAMES).round().astype(int)
    return [np.asarray(render(episode.states[i], SIZE, action=actions[i], goals=env.goals)) for i in chosen]
