"""Sprites: their factors, their twelve shapes, and which of them a click lands on.

N sprites (padded; `alive` says which exist), V vertices. Positions live in the unit square, the origin at the bottom
left and y up. Sprites are ordered from back to front: a later sprite hides an earlier one.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cobra_rl.bounds import Bounds, Share, conform, shown

# Each shape has the symmetry of a regular n-gon: n, and the angle of a mirror axis through an inner vertex (of an
# n-gon: a vertex). It consists of 2n mirrored half-wedges of angle pi/n, and the one beside that axis says it all.
_SYMMETRY = {
    "triangle": (3, np.pi / 2), "square": (4, np.pi / 4), "pentagon": (5, np.pi / 2),
    "hexagon": (6, 0.0), "octagon": (8, 0.0), "circle": (30, 0.0),
    "star_4": (4, np.pi / 4), "star_5": (5, np.pi * 1.1), "star_6": (6, 0.0),
    "spoke_4": (4, np.pi / 4), "spoke_5": (5, np.pi * 1.1), "spoke_6": (6, 0.0),
}  # fmt: skip
SHAPES = tuple(_SYMMETRY)
if TYPE_CHECKING:
    ShapeName = str
else:
    ShapeName = Literal[SHAPES]
Angle = Annotated[float, Bounds(-1e4, 1e4)]  # degrees
Scale = Annotated[float, Bounds(0.0, 1.0, above=True)]  # the area is scale^2
_DEFAULTS = {"x": 0.5, "y": 0.5, "shape": "square", "angle": 0.0, "scale": 0.1, "c0": 0.0, "c1": 0.0, "c2": 0.0}
FACTORS = tuple(_DEFAULTS)
_TYPES = dict.fromkeys(FACTORS, Share) | {"shape": ShapeName, "angle": Angle, "scale": Scale}


class Sprites(eqx.Module):
    """The factors of N sprites, back to front."""

    position: Float[Array, "N 2"]  # centre, in [0, 1]^2
    shape: Int[Array, " N"]  # index into SHAPES
    angle: Float[Array, " N"]  # degrees, counter-clockwise
    scale: Float[Array, " N"]  # area = scale^2
    color: Float[Array, "N 3"]  # hue, saturation, value, each in [0, 1]
    alive: Bool[Array, " N"]  # False for padding


def sprites_from_factors(factors: Sequence[Mapping | Sequence], capacity: int | None = None) -> Sprites:
    """Build `Sprites` as `state_from_sprites` says; left out factors take the defaults of the original package."""
    rows = [_checked_factors(index, sprite) for index, sprite in enumerate(factors)]
    wanted = max(len(rows), 1) if capacity is None else capacity
    capacity = int(conform(Annotated[int, Bounds(1, 1000)], wanted, "capacity"))
    if len(rows) > capacity:
        raise ValueError(f"{len(rows)} sprites do not fit a capacity of {capacity}; raise capacity or pass fewer.")
    padded = rows + [_DEFAULTS] * (capacity - len(rows))
    numbers = [[row[name] for name in ("x", "y", "angle", "scale", "c0", "c1", "c2")] for row in padded]
    table = jnp.asarray(np.array(numbers, np.float32))
    return Sprites(
        position=table[:, :2],
        shape=jnp.asarray([SHAPES.index(row["shape"]) for row in padded], jnp.int32),
        angle=table[:, 2],
        scale=table[:, 3],
        color=table[:, 4:],
        alive=jnp.arange(capacity) < len(rows),
    )


def _checked_factors(index: int, sprite: Mapping | Sequence) -> dict:
    if not isinstance(sprite, Mapping | Sequence) or (not isinstance(sprite, Mapping) and len(sprite) != len(FACTORS)):
        raise ValueError(
            f"Sprite {index} is {shown(sprite)}; give a mapping, or all {len(FACTORS)}: {', '.join(FACTORS)}."
        )
    row = dict(sprite) if isinstance(sprite, Mapping) else dict(zip(FACTORS, sprite, strict=True))
    if unknown := sorted(map(str, set(row) - set(FACTORS))):
        raise ValueError(f"Sprite {index} has unknown factors {unknown}; allowed are {', '.join(FACTORS)}.")
    return {
        name: conform(_TYPES[name], value, f"{name} of sprite {index}") for name, value in (_DEFAULTS | row).items()
    }


def _half_wedge(name: str) -> np.ndarray:
    """Compute the outline [V, 2] inside the half-wedge, from the axis outwards, of a shape of area 1."""
    n, _ = _SYMMETRY[name]
    tip = np.array([np.cos(np.pi / n), np.sin(np.pi / n)])  # unit vector along the wedge's other border
    inner = np.array([1.0, 0.0])
    outlines = {
        "star": [inner, 2 * tip],  # inner vertices at radius 1, points at radius 2
        "spoke": [inner, inner + tip, (1 + tip[0]) * tip],  # rectangles of height 1 on the sides of an n-gon
    }
    polygon = [inner, tip[0] * tip]  # from a vertex to the middle of a side
    outline = np.array(outlines.get(name.partition("_")[0], polygon))
    x, y = outline.T
    area = 0.5 * float(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]))
    return outline / np.sqrt(2 * n * area)


def _vertices(name: str) -> np.ndarray:
    """Compute all vertices [V, 2] of the shape, counter-clockwise, area 1."""
    n, axis = _SYMMETRY[name]
    half = _half_wedge(name)
    corners = half if name.startswith("star") else half[:-1]  # the middle of a side is no vertex
    mirrored = _rotate(half[1:-1][::-1] * np.array([1, -1]), 2 * np.pi / n)
    wedge = np.concatenate([corners, mirrored])
    return np.concatenate([_rotate(wedge, axis + 2 * np.pi * i / n) for i in range(n)])


def _rotate(points: np.ndarray, angle: float) -> np.ndarray:
    return points @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


class Wedge(NamedTuple):
    """What a renderer needs of a shape of area 1; of several shapes, with an axis more.

    Take a point of the upper half-plane, measured from `axis`; reflect it across each fold's normal in turn if it
    lies on the normal's negative side. It is then in a wedge where the shape is {p: nx x + ny y <= c for both lines
    (nx, ny, c)}. A shape with a radius is a disk instead.
    """

    axis: float | np.ndarray
    folds: np.ndarray  # [3, 2]; unused entries are 0 and change nothing
    lines: np.ndarray  # [2, 3]; twice the same where one is enough
    radius: float | np.ndarray = 0.0


def wedge(name: str) -> Wedge:
    """Compute the wedge of a shape. The circle, a polygon of 30 sides, counts as the disk of the same area."""
    n, axis = _SYMMETRY[name]
    folds = np.zeros((3, 2))
    if name == "circle":
        return Wedge(axis, folds, lines=np.zeros((2, 3)), radius=1 / np.sqrt(np.pi))
    convex = "_" not in name
    wedges = n
    fold = 0
    while wedges > (4 if convex else 1):  # a convex outline has two sides within four half-wedges
        wedges = (wedges + 1) // 2
        mirror = wedges * np.pi / n  # what lies above goes below
        folds[fold] = np.sin(mirror), -np.cos(mirror)
        fold += 1
    half = _half_wedge(name)
    if convex:
        angles = np.array([1, 3]) * np.pi / n  # of the sides' normals
        lines = np.stack([np.cos(angles), np.sin(angles), np.full(2, np.linalg.norm(half[1]))], axis=1)
    else:
        normals = np.diff(half, axis=0)[:, ::-1] * np.array([1, -1])
        sides = np.column_stack([normals, np.sum(normals * half[:-1], axis=1)])
        lines = (sides / np.linalg.norm(normals, axis=1, keepdims=True))[[0, -1]]
    return Wedge(axis, folds, lines)


# [12, V, 2]; short outlines repeat their last vertex, and an edge of no length is never crossed
VERTICES = np.stack([np.pad(v, ((0, 30 - len(v)), (0, 0)), "edge") for v in map(_vertices, SHAPES)]).astype(np.float32)


def contains(sprites: Sprites, point: Float[Array, " 2"]) -> Bool[Array, " N"]:
    """Tell which sprites contain a point, by the even-odd rule in each sprite's own frame; padding contains none."""
    angle = jnp.deg2rad(sprites.angle)
    cos = jnp.cos(angle)
    sin = jnp.sin(angle)
    dx, dy = ((point - sprites.position) / sprites.scale[:, None]).T
    x = (cos * dx + sin * dy)[:, None]  # [N, 1]
    y = (cos * dy - sin * dx)[:, None]
    start = jnp.asarray(VERTICES)[sprites.shape]  # [N, V, 2]
    x0, y0 = jnp.moveaxis(start, -1, 0)
    x1, y1 = jnp.moveaxis(jnp.roll(start, -1, axis=1), -1, 0)
    straddles = (y0 > y) != (y1 > y)
    to_the_right = x < x0 + (x1 - x0) * (y - y0) / jnp.where(straddles, y1 - y0, 1.0)
    crossings = jnp.sum(straddles & to_the_right, axis=1)
    return sprites.alive & (crossings % 2 == 1)


def front_most_at(sprites: Sprites, point: Float[Array, " 2"]) -> Int[Array, ""]:
    """Return the index of the front-most sprite that contains a point; -1 if there is none."""
    return front_most_of(contains(sprites, point))


def front_most_of(contained: Bool[Array, "*points N"]) -> Int[Array, "*points"]:
    """Return the index of the front-most of the sprites that contain each point; -1 if there is none."""
    order = jnp.arange(contained.shape[-1], dtype=jnp.int32)
    return jnp.max(jnp.where(contained, order, -1), axis=-1)
