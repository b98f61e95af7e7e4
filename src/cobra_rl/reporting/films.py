"""Films of agents and of random play, as GIFs with captions."""

import io
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float, UInt8
from matplotlib.colors import to_rgb
from PIL import Image, ImageDraw

from cobra_rl.agents.contract import Policy
from cobra_rl.evaluation.task import SIDE_BY_SIDE, episodes
from cobra_rl.models.vision import VisionModel
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.load import TrainedAgent
from cobra_rl.spriteworld import MODES, SUITE, TASKS, Environment, Spriteworld, auto_reset, make, render
from cobra_rl.storage.files import write_atomically

Frame = UInt8[np.ndarray, "_ _ 3"]  # of any size
PAUSE = 3  # frames that the end of an episode is shown
WATCHED = 4  # episodes that are played together where few are shown: the first is over sooner
FILM_CAPTIONS = ("the scene, and what it does", "the slots that it sees", "what it imagines")  # of what `watch` films
SLOTS = ("#262626", "#e69e00", "#57b5e8", "#009e73", "#f0e342", "#0073b3", "#d65e00", "#cc78a6")  # colours of slots


def film(
    policy: Policy,
    params: Any,
    env: Environment,
    frames: int,
    *,
    seed: int,
    size: int = 192,
    together: int = SIDE_BY_SIDE,
) -> list[Frame]:
    """Film episodes one after the other: states, actions, hidden goals, and how each episode ended.

    Args:
        policy: The policy that acts.
        params: Its parameters.
        env: The environment.
        frames: The number of frames.
        seed: The random seed of the episodes.
        size: The width and height of a frame in pixels.
        together: The number of episodes stepped in parallel. It does not change the film; a number that was used before
            saves compiling.

    Returns:
        The frames, uint8 [H, W, 3] each.
    """
    return [frame for *_, frame in itertools.islice(_moments(policy, params, env, seed, size, together), frames)]


def watch(
    agent: TrainedAgent,
    env: Environment,
    frames: int,
    *,
    seed: int,
    size: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Frame]:
    """Film episodes one after the other, beside the slots that the agent sees and the scenes that it imagines.

    Args:
        agent: The agent; slots are shown if it has a world model, imagined scenes if it is COBRA.
        env: The environment.
        frames: The number of frames.
        seed: The random seed of the episodes.
        size: The width and height of one picture in pixels.
        progress: Is told how many frames there are, and how many there will be.

    Returns:
        The frames, uint8 [H, W, 3] each.
    """
    rows = []
    world = agent.world
    moments = itertools.islice(_moments(agent.policy, agent.params, env, seed, size, WATCHED), frames)
    for done, (state, action, scene) in enumerate(moments, 1):
        row = [scene]
        if world is not None:
            image = np.asarray(env.draw(state))[None]
            row.append(enlarged(colored_masks(world.vision, image)[0], size))
            if isinstance(agent, Agent):  # others do not imagine
                slots = world.encode(image)
                after = slots if action is None else world.imagine(slots, action[None]).slots
                row.append(enlarged(np.asarray(world.decode(after).image[0]), size))
        rows.append(row)
        progress(done, frames)
    return beside(dict(zip(FILM_CAPTIONS, map(list, zip(*rows, strict=True)), strict=False)))


def film_random(env: Environment, *, steps: int, seed: int, size: int, click_on_sprites: bool) -> list[Frame]:
    """Film uniformly random play; with `click_on_sprites`, clicks are on the centre of a random sprite, if any."""

    def turn(state, key):
        act_key, step_key, reset_key = jax.random.split(key, 3)
        action_key, sprite_key = jax.random.split(act_key)
        action = jax.random.uniform(action_key, (env.action_size,))
        if click_on_sprites and isinstance(env, Spriteworld):
            sprite = jax.random.categorical(sprite_key, jnp.where(state.sprites.alive, 0.0, -jnp.inf))
            action = action.at[:2].set(state.sprites.position[sprite])
        return auto_reset(env, reset_key, env.advance(step_key, state, action)), (state, action)

    @jax.jit
    def play(key):
        keys = jax.random.split(key, steps + 1)
        return jax.lax.scan(turn, env.initial(keys[0]), keys[1:])[1]

    states, actions = jax.device_get(play(jax.random.key(seed)))
    return [picture(env, jax.tree.map(lambda leaf, t=t: leaf[t], states), size, actions[t]) for t in range(steps)]


def film_suite(*, variant: str, seed: int, **options: Any) -> list[Frame]:
    """Film random play in all environments of the suite side by side, captioned: train mode above, test mode below."""
    rows = []
    for mode in MODES:
        titles = [f"{SUITE[task].title.removeprefix('goal finding, ')}, {mode}" for task in TASKS]
        films = [film_random(make(task, mode, variant), seed=seed + n, **options) for n, task in enumerate(TASKS)]
        rows.append(beside(dict(zip(titles, films, strict=True))))
    return list(np.concatenate(rows, axis=1))


def _moments(
    policy: Policy, params: Any, env: Environment, seed: int, size: int, together: int = SIDE_BY_SIDE
) -> Iterator[tuple]:
    """Play episodes without end: states, actions, pictures; the last picture of each is framed and stays a while."""
    for episode in episodes(policy, params, env, seed=seed, together=together):
        for state, action in zip(episode.states, episode.actions, strict=False):
            yield state, action, picture(env, state, size, action)
        last = episode.states[-1]
        yield from [(last, None, framed(picture(env, last, size), bool(episode.success)))] * PAUSE


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


def colored_masks(vision: VisionModel, images: UInt8[np.ndarray, "B H W 3"]) -> Float[np.ndarray, "B H W 3"]:
    """Paint where slots are seen in each scene: a colour for each slot, a dark one for the background's."""
    masks = vision.masks(jnp.asarray(images))
    background = np.asarray(vision.background(masks))[:, None]
    slot = np.arange(masks.shape[1])
    color = np.where(slot == background, 0, np.where(slot == 0, background, slot))  # the first is the background's
    palette = np.array([to_rgb(SLOTS[k % len(SLOTS)]) for k in slot])
    return np.einsum("bkhw,bkc->bhwc", np.asarray(masks), palette[color])


def beside(films: dict[str, list[Frame]]) -> list[Frame]:
    """Put films of equal length side by side, each under its caption."""
    columns = [np.stack([captioned(frame, name) for frame in frames]) for name, frames in films.items()]
    return list(np.concatenate(columns, axis=2))


def captioned(frame: Frame, caption: str) -> Frame:
    """Put a frame on white, a line of text above it."""
    image = Image.fromarray(np.pad(frame, ((18, 4), (4, 4), (0, 0)), constant_values=255))
    ImageDraw.Draw(image).text((4, 3), caption, fill="black")
    return np.asarray(image)


def framed(frame: Frame, success: bool) -> Frame:
    """Give a frame a coloured border that says how an episode ended."""
    image = Image.fromarray(frame)
    corners = (0, 0, image.width - 1, image.height - 1)
    ImageDraw.Draw(image).rectangle(corners, outline="#35b779" if success else "#d95f02", width=4)
    return np.asarray(image)


def save_gif(frames: list[Frame], path: Path, fps: float) -> None:
    """Write frames of one size as an animated GIF, whole or not at all."""
    images = [Image.fromarray(frame) for frame in frames]
    file = io.BytesIO()
    images[0].save(file, format="GIF", save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0)
    write_atomically(path, file.getvalue())
