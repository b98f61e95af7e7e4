"""Moving pictures: frames of play, captioned, as GIFs."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw

from cobra_rl.evaluation.task import Policy
from cobra_rl.spriteworld import Spriteworld, render

Frame = UInt8[np.ndarray, "H W 3"]


def film(policy: Policy, parameters: Any, env: Spriteworld, frames: int, seed: int, size: int = 192) -> list[Frame]:
    """`frames` frames of episodes one after the other: states, actions, hidden goals, and how each episode ended."""
    turn, pictures, episode = _turn(policy, env), [], 0
    while len(pictures) < frames:
        key = jax.random.fold_in(jax.random.key(seed), episode)
        state, success, truncated, step = env.reset(key)[0], False, False, 0
        while not (success or truncated):
            step += 1
            following, action, success, truncated = turn(parameters, state, jax.random.fold_in(key, step))
            pictures.append(np.asarray(render(state, size, action=action, goals=env.goals)))
            state = following
        last = np.asarray(render(state, size, goals=env.goals))
        pictures += [_framed(last, "#35b779" if success else "#d95f02")] * 3
        episode += 1
    return pictures[:frames]


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


def _framed(frame: Frame, color: str) -> Frame:
    """With a coloured border: how an episode ended."""
    image = Image.fromarray(frame)
    ImageDraw.Draw(image).rectangle((0, 0, frame.shape[1] - 1, frame.shape[0] - 1), outline=color, width=4)
    return np.asarray(image)


def save_gif(frames: list[Frame], path: Path, fps: float) -> None:
    """Writes an animated GIF; with `path` in a folder that does not exist yet, makes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    images = [Image.fromarray(frame) for frame in frames]
    images[0].save(path, format="GIF", save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0)
