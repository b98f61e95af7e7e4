"""State -> image, as the original package draws it: polygons back to front, anti-aliased.

The package rasterises polygons on a canvas five times as large and shrinks it with a Lanczos filter. Here a pixel's
colour follows in closed form from its signed distance to each outline: the filter's response to a straight edge is a
fixed curve of that distance. Every shape is n mirrored wedges, so a pixel is folded into one of them by a few
reflections, where the outline is at most two straight lines. XLA fuses all of it into one loop over the pixels.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from cobra_rl.spriteworld.actions import displacement
from cobra_rl.spriteworld.sprites import SHAPES, Sprites, wedge
from cobra_rl.spriteworld.tasks import GoalMark

Plane = Float[Array, "H W"]

WEDGES = {name: wedge(name) for name in SHAPES}

# How a pixel fades from a sprite's colour (t = -1) to what lies behind (t = 1): 0.5 - 0.5 t + (1 - t^2) q(t), with t
# linear in the pixel's distance from the outline. Fitted by benchmarks/fit_edge_response.py to the package's pictures:
# it overshoots inside the edge as Lanczos does, and lies a bit far out, as the rasteriser includes both ends of a line.
EDGE_INSIDE, EDGE_OUTSIDE = 1.5, 0.8  # pixels at which t = -1 and t = 1
EDGE_QUADRATIC = (0.402, -0.315, -0.484)


def hsv_to_rgb(color: Float[Array, "N 3"]) -> Float[Array, "N 3"]:
    """Convert hue, saturation and value to red, green and blue, all in [0, 1]."""
    hue, saturation, value = (c[:, None] for c in color.T)
    ramp = jnp.abs((6.0 * hue + jnp.array([0.0, 4.0, 2.0])) % 6.0 - 3.0) - 1.0
    return value * (1.0 - saturation * (1.0 - jnp.clip(ramp, 0.0, 1.0)))


def draw(
    sprites: Sprites,
    size: int,
    action: Float[Array, " 4"] | None = None,
    goals: tuple[GoalMark, ...] = (),
    shapes: tuple[str, ...] = SHAPES,
) -> UInt8[Array, "H W 3"]:
    """Draw one state, an action as an arrow, goals as crossed circles; the fewer `shapes` can occur, the faster."""
    planes = _sprite_layers(sprites, size, shapes)
    for goal in goals:
        planes = _over(planes, _goal_alpha(goal, size), 255.0 * np.array(goal.rgb, np.float32))
    if action is not None:
        planes = _over(planes, _arrow_alpha(action, size), np.full(3, 255.0, np.float32))
    # All channels of a pixel go into one word, so that a pixel is computed once
    red, green, blue = (jnp.clip(plane + 0.5, 0.0, 255.0).astype(jnp.uint32) for plane in planes)
    words = red | (green << 8) | (blue << 16)
    return jax.lax.bitcast_convert_type(words, jnp.uint8)[..., :3]


def _pixel_centres(size: int) -> tuple[Float[Array, "1 W"], Float[Array, "H 1"]]:
    """x of each column and y of each row, in pixels; the first row is the top of the frame."""
    centres = jnp.arange(size) + 0.5
    return centres[None, :], centres[::-1, None]


def _over(planes: list[Plane], alpha: Plane, rgb) -> list[Plane]:
    return [plane + alpha * (rgb[c] - plane) for c, plane in enumerate(planes)]


def _sprite_layers(sprites: Sprites, size: int, shapes: tuple[str, ...]) -> list[Plane]:
    """Paints the sprites, back to front, on black."""
    has_disks, has_lines = "circle" in shapes, set(shapes) != {"circle"}
    fold_count = max(np.count_nonzero(WEDGES[name].folds.any(axis=1)) for name in shapes)

    def table(factor) -> Array:
        return jnp.asarray(np.stack([factor(WEDGES[name]) for name in SHAPES]), jnp.float32)[sprites.shape]

    # All lengths are in units of the edge: t of the pixel = its distance from the outline + shift
    unit = 2.0 / (EDGE_INSIDE + EDGE_OUTSIDE)
    shift = (EDGE_INSIDE - EDGE_OUTSIDE) / (EDGE_INSIDE + EDGE_OUTSIDE)
    columns, rows = (unit * centres for centres in _pixel_centres(size))
    centre, scale = unit * size * sprites.position, unit * size * sprites.scale
    angle = jnp.deg2rad(sprites.angle) + table(lambda w: w.axis)
    cos, sin = jnp.cos(angle - jnp.array([[0.0], [np.pi / 2]]))  # a lone scalar would be fused into the pixel loop
    folds, lines = table(lambda w: w.folds), table(lambda w: w.lines)
    alive = jnp.where(sprites.alive, 0.0, 1e6)  # padding is far away
    offsets = lines[:, :, 2] * scale[:, None] - shift - alive[:, None]
    radius = table(lambda w: w.radius)
    radii = jnp.maximum(radius * scale, 1e-6)
    rgb = jnp.floor(255.0 * hsv_to_rgb(sprites.color))

    planes = [jnp.zeros((rows.shape[0], size))] * 3
    for n in range(sprites.alive.shape[0]):
        dx, dy = columns - centre[n, 0], rows - centre[n, 1]
        u, v = cos[n] * dx + sin[n] * dy, jnp.abs(cos[n] * dy - sin[n] * dx)
        t = _disk_distance(u, v, radii[n]) + (shift + alive[n])  # XLA drops it where there are no disks
        if has_lines:
            for f in range(fold_count):
                nx, ny = folds[n, f]
                beyond = jnp.minimum(u * nx + v * ny, 0.0)
                u, v = u - beyond * (2.0 * nx), v - beyond * (2.0 * ny)
            outside = jnp.maximum(*(lines[n, i, 0] * u + lines[n, i, 1] * v - offsets[n, i] for i in (0, 1)))
            t = jnp.where(radius[n] > 0.0, t, outside) if has_disks else outside
        planes = _over(planes, _edge_response(t), rgb[n])
    return planes


def _disk_distance(u: Plane, v: Plane, radius: Float[Array, ""]) -> Plane:
    """sqrt(u^2 + v^2) - radius near the outline, without the root, which would keep XLA from fusing the pixel loop."""
    q = jnp.clip((u * u + v * v) * (0.5 / radius) - 0.5 * radius, -2.0, 2.0)
    return q - q * q * (0.5 / radius)


def _edge_response(t: Plane) -> Plane:
    """How much of a pixel's colour is the sprite's."""
    t = jnp.clip(t, -1.0, 1.0)
    q0, q1, q2 = EDGE_QUADRATIC
    return 0.5 - 0.5 * t + (1.0 - t * t) * (q0 + t * (q1 + t * q2))


def _segment_distance(size: int, start, end) -> Plane:
    """Distance of each pixel from a line segment; all in pixels."""
    (columns, rows), ax, ay, bx, by = _pixel_centres(size), *start, *end
    length2 = (bx - ax) ** 2 + (by - ay) ** 2 + 1e-6
    t = jnp.clip(((columns - ax) * (bx - ax) + (rows - ay) * (by - ay)) / length2, 0.0, 1.0)
    return jnp.hypot(columns - ax - t * (bx - ax), rows - ay - t * (by - ay))


def _stroke(distance: Plane, width: float) -> Plane:
    return jnp.clip(0.5 * width + 0.5 - distance, 0.0, 1.0)


def _arrow_alpha(action: Float[Array, " 4"], size: int) -> Plane:
    """The push as an arrow from the click to where the sprite would go."""
    start, end = action[:2] * size, (action[:2] + displacement(action)) * size
    length = jnp.sqrt(jnp.sum((end - start) ** 2))
    along = (end - start) / jnp.maximum(length, 1e-6)
    across = jnp.stack([-along[1], along[0]])
    head = jnp.minimum(0.03 * size, 0.5 * length)
    strokes = [(start, end)] + [(end, end - head * (along + side * 0.7 * across)) for side in (-1.0, 1.0)]
    distances = [_segment_distance(size, *stroke) for stroke in strokes]
    return _stroke(functools.reduce(jnp.minimum, distances), 0.012 * size)


def _goal_alpha(goal: GoalMark, size: int) -> Plane:
    """A circle of the goal's radius with a cross through it."""
    columns, rows = _pixel_centres(size)
    x, y, radius = goal.x * size, goal.y * size, goal.radius * size
    distance = jnp.abs(jnp.hypot(columns - x, rows - y) - radius)
    arm = radius / np.sqrt(2.0)
    for slope in (-1.0, 1.0):
        ends = (x - arm, y - slope * arm), (x + arm, y + slope * arm)
        distance = jnp.minimum(distance, _segment_distance(size, *ends))
    return _stroke(distance, 0.008 * size)
