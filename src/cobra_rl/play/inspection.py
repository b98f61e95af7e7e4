"""What the page shows of an agent, as arrays: what it sees, imagines, is curious about and wants.

All functions are pure. What takes long is compiled, once for all sessions, and the world's own methods are called as
they are, so that they are compiled once for all that is shown. G is the side of a map over the frame, its first row on
top.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from cobra_rl.agents.cobra import CobraParams, choose
from cobra_rl.agents.contract import Params, Policy
from cobra_rl.models.planner import Choice
from cobra_rl.models.vision import is_empty
from cobra_rl.models.world import WorldModel
from cobra_rl.play.catalogue import RewardHead
from cobra_rl.spriteworld.actions import select_move
from cobra_rl.spriteworld.renderer import draw

MAP_SIDE = 24  # G
CURIOSITY_MOTIONS = ((0.9, 0.9), (0.9, 0.1), (0.1, 0.9), (0.1, 0.1))  # motions that curiosity is averaged over
LATENT_RANGE = 3.0  # latents of which nothing is known are shown from -LATENT_RANGE to LATENT_RANGE
TYPICAL_SCENES = 16  # scenes in which the usual values of latents are looked up
LEAST_SPAN = 1.0  # of a slider, also for a latent that is the same in all scenes
PLACES_SHOWN = (0.1, 0.9)  # where a slider may put a slot's object, in frame coordinates: all of it stays in the frame

SceneSlots = Float[Array, "K M"]

push_sprite = eqx.filter_jit(select_move)  # do in truth what an action says; also tell which sprite moved, or -1
draw_scene = eqx.filter_jit(draw)  # a scene as the agent gets it


class ImaginedPush(NamedTuple):
    """A push as T imagines it."""

    slots: SceneSlots
    image: Float[Array, "H W 3"]  # V_dec of the slots, about [0, 1]
    error: Float[Array, ""]  # e_pred, squared pixels


def slot_masks(world: WorldModel, image: UInt8[Array, "H W 3"]) -> UInt8[np.ndarray, "K H W"]:
    """Tell where the agent sees each slot."""
    return to_bytes(world.masks(image[None])[0])


@eqx.filter_jit
def imagine_push(world: WorldModel, slots: SceneSlots, action: Float[Array, " A"]) -> ImaginedPush:
    """Imagine a push: compiled as a whole, for a drag waits for it."""
    imagined = world.imagine(slots[None], action[None])
    return ImaginedPush(imagined.slots[0], world.decode(imagined.slots).image[0], imagined.error[0])


def decode_scene(
    world: WorldModel, slots: SceneSlots
) -> tuple[UInt8[np.ndarray, "H W 3"], UInt8[np.ndarray, "K H W 3"]]:
    """Decode slots: the scene, and each slot's own picture, where it is seen."""
    image, components, masks = (np.asarray(part)[0] for part in world.decode(slots[None]))
    return to_bytes(image), to_bytes(components * masks[..., None])


def latent_ranges(world: WorldModel, images: Iterable[UInt8[Array, "H W 3"]]) -> list[tuple[float, float]]:
    """Tell for each latent from where to where it goes in some scenes; those of a place stay in the frame."""
    slots = np.concatenate([np.asarray(world.encode(image[None])[0]) for image in images])
    seen = slots[~np.asarray(is_empty(jnp.asarray(slots)))]
    if not len(seen):
        return [(-LATENT_RANGE, LATENT_RANGE)] * slots.shape[1]
    low, high = np.percentile(seen, (1, 99), axis=0)
    wider = np.maximum(LEAST_SPAN - (high - low), 0.0) / 2.0
    ranges = np.stack([low - wider, high + wider], axis=1)
    if (place := world.vision.place) is not None:
        ranges[place.indices] = (np.array(PLACES_SHOWN) - 0.5) * place.units
    return [tuple(row) for row in rounded(ranges, 2)]


def curiosity_map(world: WorldModel, slots: SceneSlots) -> Float[np.ndarray, "G G"]:
    """Map e_pred of a click at each place of the frame, averaged over four pushes."""
    places = _map_points()
    actions = np.concatenate([np.repeat(places, 4, axis=0), np.tile(CURIOSITY_MOTIONS, (len(places), 1))], axis=1)
    scenes = np.broadcast_to(np.asarray(slots), (len(actions), *slots.shape))
    return np.asarray(world.imagine(scenes, actions).error).reshape(MAP_SIDE, MAP_SIDE, 4).mean(-1)


@eqx.filter_jit
def reward_map(reward_head: RewardHead, world: WorldModel, slots: SceneSlots, *, slot: Array) -> Float[Array, "G G"]:
    """Map the reward that an agent expects if one slot stood at each place of the frame, all else as it is."""
    place = world.vision.place
    assert place is not None  # the session asks only then
    latents = (_map_points() - 0.5) * place.units
    scenes = jnp.broadcast_to(slots, (len(latents), *slots.shape))
    scenes = scenes.at[:, slot, place.indices].set(latents)
    return reward_head.config.reward_unit * reward_head.predictor(scenes).reshape(MAP_SIDE, MAP_SIDE)


@eqx.filter_jit
def expected_reward(reward_head: RewardHead, slots: SceneSlots) -> Float[Array, ""]:
    """Predict the reward of a scene."""
    return reward_head.config.reward_unit * reward_head.predictor(slots[None])[0]


@eqx.filter_jit
def plan(
    reward_head: RewardHead, world: WorldModel, slots: SceneSlots, *, key: PRNGKeyArray, epsilon: Float[Array, ""]
) -> Choice:
    """Propose actions, score what they lead to, and choose the best; with probability `epsilon`, any of them."""
    choice = choose(reward_head.config, CobraParams(world, reward_head.predictor), slots, key, epsilon)
    return choice._replace(scores=reward_head.config.reward_unit * choice.scores)


@eqx.filter_jit
def act(policy: Policy, params: Params, image: UInt8[Array, "H W 3"], *, key: PRNGKeyArray) -> Float[Array, " A"]:
    """Let any policy act on a picture."""
    return policy.act(params, image[None], key[None])[0]


def fresh_keys(key: PRNGKeyArray) -> Iterator[PRNGKeyArray]:
    """Yield random keys without end."""
    while True:
        key, fresh = jax.random.split(key)
        yield fresh


def slot_at(masks: UInt8[np.ndarray, "K H W"], x: float, y: float) -> int:
    """Return the slot that is seen at a point of the frame."""
    size = masks.shape[1]
    column, row = (min(int(value * size), size - 1) for value in (x, 1.0 - y))
    return int(masks[:, row, column].argmax())


def rounded(array: Any, digits: int) -> Any:
    """Write numbers as lists, rounded."""
    return np.asarray(array, np.float64).round(digits).tolist()


def to_base64(array: Any) -> str:
    """Write bytes as base64, as the page takes pictures."""
    return base64.b64encode(np.ascontiguousarray(np.asarray(array, np.uint8)).tobytes()).decode()


def map_to_base64(values: Any) -> dict[str, Any]:
    """Write a map as bytes between its least and its largest value."""
    values = np.asarray(values, np.float32)
    low = float(values.min())
    high = float(values.max())
    scaled = (values - low) * (255.0 / max(high - low, 1e-9))
    return {"side": values.shape[0], "low": low, "high": high, "map": to_base64(scaled.round())}


def to_bytes(image: Any) -> UInt8[np.ndarray, "*N"]:
    """Write brightness from 0 to 1 as bytes."""
    return np.round(255.0 * np.clip(np.asarray(image), 0.0, 1.0)).astype(np.uint8)


def _map_points() -> Float[np.ndarray, "P 2"]:
    """Return the middles of the cells of a map, row by row from the top."""
    middles = (np.arange(MAP_SIDE, dtype=np.float32) + 0.5) / MAP_SIDE
    return np.stack(np.meshgrid(middles, middles[::-1]), axis=-1).reshape(-1, 2)
