"""Moving pictures: frames of play, captioned, as GIFs."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray, UInt8
from PIL import Image, ImageDraw

from cobra_rl.evaluation.task import Policy
from cobra_rl.spriteworld import EnvState, Spriteworld, render

Frame = UInt8[np.ndarray, "_ _ 3"]  # of any size


class Episode(NamedTuple):
    """One episode: its states, one more than its actions, and how it ended."""

    states: list[EnvState]
    actions: list[Array]
    success: bool


def play(policy: Policy, parameters: Any, env: Spriteworld, key: PRNGKeyArray) -> Episode:
    """From a fresh scene to the end."""
    turn, states, actions, success, truncated = _turn(policy, env), [env.reset(key)[0]], [], False, False
    while not (success or truncated):
        step_key = jax.random.fold_in(key, len(states))
        state, action, success, truncated = turn(parameters, states[-1], step_key)
        states.append(state)
        actions.append(action)
    return Episode(states, actions, bool(success))


def film(policy: Policy, parameters: Any, env: Spriteworld, frames: int, seed: int, size: int = 192) -> list[Frame]:
    """`frames` frames of episodes one after the other: states, actions, hidden goals, and how each episode ended."""
    pictures, number = [], 0
    while len(pictures) < frames:
        episode = play(policy, parameters, env, jax.random.fold_in(jax.random.key(seed), number))
        for state, action in zip(episode.states, episode.actions, strict=False):
            pictures.append(np.asarray(render(state, size, action=action, goals=env.goals)))
        last = np.asarray(render(episode.states[-1], size, goals=env.goals))
        pictures += [framed(last, episode.success)] * 3
        number += 1
    return pictures[:frames]


@functools.cache
def _turn(policy: Policy, env: Spriteworld):
    def turn(parameters, state, key):
        act_key, step_key = jax.random.split(key)
        action = policy(parameters, jax.tree.map(lambda leaf: leaf[None], state), act_key[None])[0]
        following, _, success, truncated, _ = env.advance(step_key, state, action)
        return following, action, success, truncated

    return jax.jit(turn)


def beside(films: dict[str, list[Frame]]) -> list[Frame]:
    """Films of equal length side by side, each under its caption."""
    columns = [np.stack([captioned(frame, name) for frame in frames]) for name, frames in films.items()]
    return list(np.concatenate(columns, axis=2))


def captioned(frame: Frame, caption: str, margin: int = 4, height: int = 18) -> Frame:
    """The frame on white, a line of text above it."""
    size = frame.shape[0]
    image = Image.new("RGB", (size + 2 * margin, size + height + margin), "white")
    image.paste(Image.fromarray(frame), (margin, height))
    ImageDraw.Draw(image).text((margin, 3), caption, fill="black")
    return np.asarray(image)


def framed(frame: Frame, success: bool) -> Frame:
    """With a coloured border: how an episode ended."""
    color = "#35b779" if success else "#d95f02"
    image = Image.fromarray(frame)
    ImageDraw.Draw(image).rectangle((0, 0, frame.shape[1] - 1, frame.shape[0] - 1), outline=color, width=4)
    return np.asarray(image)


def save_gif(frames: list[Frame], path: Path, fps: float) -> None:
    """Writes an animated GIF; with `path` in a folder that does not exist yet, makes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    images = [Image.fromarray(frame) for frame in frames]
    images[0].save(path, format="GIF", save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0)
