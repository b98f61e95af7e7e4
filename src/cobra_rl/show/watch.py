"""A film of an agent at a task, beside what it sees and what it imagines."""

from collections.abc import Callable

import jax
import numpy as np

from cobra_rl.agent import Agent
from cobra_rl.show.figures.style import colored_masks
from cobra_rl.show.films import PAUSE, Frame, beside, enlarged, framed, picture, play
from cobra_rl.spriteworld.base import Environment

CAPTIONS = ("the scene, and what it does", "the slots that it sees", "what it imagines")
Progress = Callable[[int, int], None]  # (frames that there are, frames that there will be) -> None


def watch(
    agent: Agent, env: Environment, frames: int, seed: int, size: int, progress: Progress | None = None
) -> list[Frame]:
    """Film episodes one after the other, beside the slots that the agent sees and the scenes that it imagines."""
    films: dict[str, list[Frame]] = {caption: [] for caption in CAPTIONS}
    count, number = 0, 0
    while count < frames:
        episode = play(agent.policy, agent.params, env, jax.random.fold_in(jax.random.key(seed), number))
        last = len(episode.states) - 1
        for t, state in enumerate(episode.states):
            action = episode.actions[t] if t < last else None
            scene = picture(env, state, size, action)
            image = np.asarray(env.draw(state))[None]
            slots = agent.world.encode(image)
            after = slots if action is None else agent.world.imagine(slots, action[None]).slots
            seen = colored_masks(np.asarray(agent.world.masks(image)))[0]
            imagined = np.asarray(agent.world.decode(after).image[0])
            scene = framed(scene, episode.success) if t == last else scene
            triple = (scene, enlarged(seen, size), enlarged(imagined, size))
            for film, frame in zip(films.values(), triple, strict=True):
                film += [frame] * (1 if t < last else PAUSE)
        count, number = len(next(iter(films.values()))), number + 1
        if progress is not None:
            progress(min(count, frames), frames)
    return beside({caption: film[:frames] for caption, film in films.items()})
