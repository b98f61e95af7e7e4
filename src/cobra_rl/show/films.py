"""Moving pictures: frames of play, captioned, as GIFs."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, UInt8
from PIL import Image, ImageDraw

from cobra_rl.agents.base import Policy
from cobra_rl.spriteworld import Spriteworld, render
from cobra_rl.spriteworld.base import Environment

Frame = UInt8[np.ndarray, "_ _ 3"]  # of any size
PAUSE = 3  # frames that the end of an episode is shown


class Episode(NamedTuple):
    """One episode: its states, one more than its actions, and how it ended."""

    states: list[Any]
    actions: list[Array]
    success: bool


def play(policy: Policy, params: Any, env: Environment, key: PRNGKeyArray) -> Episode:
    """Play an episode from a fresh scene to its end; the policy acts on images, or on states if it says so."""
    initial, draw, advance = _compiled(env)
    act = _compiled_act(policy)
    states, actions, success, done = [initial(key)], [], False, False
    while not done:
        act_key, step_key = jax.random.split(jax.random.fold_in(key, len(states)))
        observation = states[-1] if policy.sees_state else draw(states[-1])
        batch = jax.tree.map(lambda leaf: leaf[None], observation)
        action = act(params, batch, act_key[None])[0]
        step = advance(step_key, states[-1], action)
        states.append(step.state)
        actions.append(action)
        success, done = step.terminated, step.done
    return Episode(states, actions, bool(success))


def film(policy: Policy, params: Any, env: Environment, frames: int, seed: int, size: int = 192) -> list[Frame]:
    """Film episodes one after the other: states, actions, hidden goals, and how each episode ended."""
    pictures, number = [], 0
    while len(pictures) < frames:
        episode = play(policy, params, env, jax.random.fold_in(jax.random.key(seed), number))
        for state, action in zip(episode.states, episode.actions, strict=False):
            pictures.append(picture(env, state, size, action))
        pictures += [framed(picture(env, episode.states[-1], size), episode.success)] * PAUSE
        number += 1
    return pictures[:frames]


@functools.cache
def _compiled(env: Environment) -> tuple[Callable, Callable, Callable]:
    return jax.jit(env.initial), jax.jit(env.draw), jax.jit(env.advance)


@functools.cache
def _compiled_act(policy: Policy) -> Callable:
    """Compile acting apart from the environment: it takes longest, and once is enough for all tasks."""
    return eqx.filter_jit(policy.act)


def picture(env: Environment, state: Any, size: int, action: ArrayLike | None = None) -> Frame:
    """Draw a state for people, with the hidden goals and the action to come where the environment is a Spriteworld."""
    if isinstance(env, Spriteworld):
        return np.asarray(render(state, size, action=action, goals=env.goals))
    return enlarged(np.asarray(env.draw(state)), size)


def enlarged(image: UInt8[np.ndarray, "H W 3"] | Float[np.ndarray, "H W 3"], size: int) -> Frame:
    """Scale a picture to size x size pixels; floats are colours in [0, 1]."""
    if np.issubdtype(image.dtype, np.floating):
        image = (255.0 * np.clip(image, 0.0, 1.0)).round().astype(np.uint8)
    return np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.NEAREST))


def beside(films: dict[str, list[Frame]]) -> list[Frame]:
    """Put films of equal length side by side, each under its caption."""
    columns = [np.stack([captioned(frame, name) for frame in frames]) for name, frames in films.items()]
    return list(np.concatenate(columns, axis=2))


def captioned(frame: Frame, caption: str, margin: int = 4, height: int = 18) -> Frame:
    """Put a frame on white, a line of text above it."""
    size = frame.shape[0]
    image = Image.new("RGB", (size + 2 * margin, size + height + margin), "white")
    image.paste(Image.fromarray(frame), (margin, height))
    ImageDraw.Draw(image).text((margin, 3), caption, fill="black")
    return np.asarray(image)


def framed(frame: Frame, success: bool) -> Frame:
    """Give a frame a coloured border that says how an episode ended."""
    color = "#35b779" if success else "#d95f02"
    image = Image.fromarray(frame)
    ImageDraw.Draw(image).rectangle((0, 0, frame.shape[1] - 1, frame.shape[0] - 1), outline=color, width=4)
    return np.asarray(image)


def save_gif(frames: list[Frame], path: Path, fps: float) -> None:
    """Write frames of one size as an animated GIF."""
    path.parent.mkdir(parents=True, exist_ok=True)
    images = [Image.fromarray(frame) for frame in frames]
    images[0].save(path, format="GIF", save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0)
