"""A film of an agent at a task, beside what it sees and what it imagines."""

import jax
import numpy as np
from PIL import Image

from cobra_rl.agents.agent import Agent
from cobra_rl.evaluation.task import searching
from cobra_rl.figures.style import colored_masks
from cobra_rl.films import Frame, beside, framed, play
from cobra_rl.spriteworld import Spriteworld, render

PAUSE = 3  # frames that the end of an episode is shown


def watch(agent: Agent, env: Spriteworld, frames: int, seed: int, size: int) -> list[Frame]:
    """Episodes one after the other; each frame is a scene with the action, the slots seen in it, the scene imagined."""
    outside: list[Frame] = []
    slots_seen: list[Frame] = []
    imagined: list[Frame] = []
    policy, number = searching(agent.config, env), 0
    while len(outside) < frames:
        key = jax.random.fold_in(jax.random.key(seed), number)
        episode = play(policy, (agent.frozen, agent.reward), env, key)
        last = len(episode.states) - 1
        for t, state in enumerate(episode.states):
            action = episode.actions[t] if t < last else None
            picture = np.asarray(render(state, size, action=action, goals=env.goals))
            image = np.asarray(env.draw(state))[None]
            slots = agent.parts.encode(image)
            after = slots if action is None else agent.parts.imagine(slots, action[None]).slots
            repeats = 1 if t < last else PAUSE
            outside += [framed(picture, episode.success) if t == last else picture] * repeats
            slots_seen += [_enlarged(colored_masks(np.asarray(agent.parts.masks(image)))[0], size)] * repeats
            imagined += [_enlarged(np.asarray(agent.parts.decode(after).image[0]), size)] * repeats
        number += 1
    films = {"the scene, and what it does": outside, "the slots that it sees": slots_seen, "what it imagines": imagined}
    return beside({caption: film[:frames] for caption, film in films.items()})


def _enlarged(picture: np.ndarray, size: int) -> Frame:
    """A picture of floats in [0, 1], as large as the others."""
    image = Image.fromarray((255.0 * np.clip(picture, 0.0, 1.0)).round().astype(np.uint8))
    return np.asarray(image.resize((size, size), Image.Resampling.NEAREST))
