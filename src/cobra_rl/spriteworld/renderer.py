"""State -> image, as the original package draws it: polygons back to front, anti-aliased.

The package rasterises polygons on a canvas five times as large and shrinks it with a Lanczos filter. Here a pixel's
colour follows in closed form from its signed distance to each outline: the filter's response to a straight edge is a
fixed curve of that distance. Every shape is n mirrored wedges, so a pixel is folded into one of them by a few
reflections, where the outline is at most two straight lines. XLA fuses all of it into one loop over the pixels.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from cobra_rl.spriteworld.actions import displacement
from cobra_rl.spriteworld.sprites import SHAPES, Sprites, Wedge, wedge
from cobra_rl.spriteworld.tasks import GoalMark

Channel = Float[Array, "H W"]  # of a picture: red, green or blue

WEDGES = Wedge(*(np.stack(values) for values in zip(*map(wedge, SHAPES), strict=True)))  # one row for each shape

# How a pixel fades from a sprite's colour (t = -1) to what lies behind (t = 1): 0.5 - 0.5 t + (1 - t^2) q(t), with t
# linear in the pixel's distance from the outline. Fitted to the package's pictures by
# benchmarks/tools/fit_edge_response.py: it overshoots inside the edge as Lanczos does, and lies a bit far out, as the
# rasteriser includes both ends of a line.
EDGE_INSIDE = 1.5  # pixels within the outline at which t = -1
EDGE_OUTSIDE = 0.8  # pixels beyond the outline at which t = 1
EDGE_QUADRATIC = (0.402, -0.315, -0.484)


def hsv_to_rgb(color: Float[Array, "N 3"]) -> Float[Array, "N 3"]:
    """Convert hue, saturation and value to red, green and blue, all in [0, 1]."""
    hue, saturation, value = (c[:, None] for c in color.T)
    ramp = jnp.abs((6.0 * hue + jnp.array([0.0, 4.0, 2.0])) % 6.0 - 3.0) - 1.0
    return value * (1.0 - saturation * (1.0 - jnp.clip(ramp, 0.0, 1.0)))


def draw(
    sprites: Sprites,
    size: int,
    *,
    action: Float[Array, " 4"] | None = None,
    goals: tuple[GoalMark, ...] = (),
    shapes: tuple[str, ...] = SHAPES,
) -> UInt8[Array, "H W 3"]:
    """Draw one state, an action as an arrow, goals as crossed circles; the fewer `shapes` can occur, the faster."""
    channels = _sprite_layers(sprites, size, shapes)
    for goal in goals:
        channels = _over(channels, _goal_alpha(goal, size), 255.0 * np.array(goal.rgb, np.float32))
    if action is not None:
        channels = _over(channels, _arrow_alpha(action, size), np.full(3, 255.0, np.float32))
    # All channels of a pixel go into one word, so that a pixel is computed once
    red, green, blue = (jnp.clip(channel + 0.5, 0.0, 255.0).astype(jnp.uint32) for channel in channels)
    words = red | (green << 8) | (blue << 16)
    return jax.lax.bitcast_convert_type(words, jnp.uint8)[..., :3]


def _pixel_centres(size: int) -> tuple[Float[Array, "1 W"], Float[Array, "H 1"]]:
    """Return x of each column and y of each row, in pixels; the first row is the top of the frame."""
    centres = jnp.arange(size) + 0.5
    return centres[None, :], centres[::-1, None]


def _over(channels: list[Channel], alpha: Channel, rgb) -> list[Channel]:
    """Paint a colour over a picture where `alpha` says."""
    return [channel + alpha * (rgb[c] - channel) for c, channel in enumerate(channels)]


def _sprite_layers(sprites: Sprites, size: int, shapes: tuple[str, ...]) -> list[Channel]:
    """Paint the sprites, back to front, on black."""
    has_disks = "circle" in shapes
    has_lines = set(shapes) != {"circle"}
    fold_count = max(np.count_nonzero(WEDGES.folds[SHAPES.index(name)].any(axis=1)) for name in shapes)
    wedges = jax.tree.map(lambda values: jnp.asarray(values, jnp.float32)[sprites.shape], WEDGES)

    # All lengths are in units of the edge: t of the pixel = its distance from the outline + shift
    unit = 2.0 / (EDGE_INSIDE + EDGE_OUTSIDE)
    shift = (EDGE_INSIDE - EDGE_OUTSIDE) / (EDGE_INSIDE + EDGE_OUTSIDE)
    columns, rows = (unit * centres for centres in _pixel_centres(size))
    centre = unit * size * sprites.position
    scale = unit * size * sprites.scale
    angle = jnp.deg2rad(sprites.angle) + wedges.axis
    cos, sin = jnp.cos(angle - jnp.array([[0.0], [np.pi / 2]]))  # a lone scalar would be fused into the pixel loop
    padding = jnp.where(sprites.alive, 0.0, 1e6)  # it is far away
    offsets = wedges.lines[:, :, 2] * scale[:, None] - shift - padding[:, None]
    radii = jnp.maximum(wedges.radius * scale, 1e-6)
    rgb = jnp.floor(255.0 * hsv_to_rgb(sprites.color))

    channels = [jnp.zeros((rows.shape[0], size))] * 3
    for n in range(sprites.alive.shape[0]):
        dx = columns - centre[n, 0]
        dy = rows - centre[n, 1]
        u = cos[n] * dx + sin[n] * dy
        v = jnp.abs(cos[n] * dy - sin[n] * dx)
        t = _disk_distance(u, v, radii[n]) + (shift + padding[n])  # XLA drops it where there are no disks
        if has_lines:
            for f in range(fold_count):
                nx, ny = wedges.folds[n, f]
                beyond = jnp.minimum(u * nx + v * ny, 0.0)
                u -= beyond * (2.0 * nx)
                v -= beyond * (2.0 * ny)
            sides = zip(wedges.lines[n], offsets[n], strict=True)
            outside = jnp.maximum(*(line[0] * u + line[1] * v - offset for line, offset in sides))
            t = jnp.where(wedges.radius[n] > 0.0, t, outside) if has_disks else outside
        channels = _over(channels, _edge_response(t), rgb[n])
    return channels


def _disk_distance(u: Channel, v: Channel, radius: Float[Array, ""]) -> Channel:
    """Compute sqrt(u^2 + v^2) - radius near the outline, without the root: XLA could not fuse the pixel loop."""
    q = jnp.clip((u * u + v * v) * (0.5 / radius) - 0.5 * radius, -2.0, 2.0)
    return q - q * q * (0.5 / radius)


def _edge_response(t: Channel) -> Channel:
    """Compute how much of a pixel's colour is the sprite's."""
    t = jnp.clip(t, -1.0, 1.0)
    q0, q1, q2 = EDGE_QUADRATIC
    return 0.5 - 0.5 * t + (1.0 - t * t) * (q0 + t * (q1 + t * q2))


def _segment_distance(size: int, start, end) -> Channel:
    """Compute the distance of each pixel from a line segment; all in pixels."""
    columns, rows = _pixel_centres(size)
    ax, ay = start
    bx, by = end
    length2 = (bx - ax) ** 2 + (by - ay) ** 2 + 1e-6
    t = jnp.clip(((columns - ax) * (bx - ax) + (rows - ay) * (by - ay)) / length2, 0.0, 1.0)
    return jnp.hypot(columns - ax - t * (bx - ax), rows - ay - t * (by - ay))


def _stroke(distance: Channel, width: float) -> Channel:
    """Compute how much of each pixel a line of this width covers."""
    return jnp.clip(0.5 * width + 0.5 - distance, 0.0, 1.0)


def _arrow_alpha(action: Float[Array, " 4"], size: int) -> Channel:
    """Draw the push as an arrow from the click to where the sprite would go."""
    start = action[:2] * size
    end = (action[:2] + displacement(action)) * size
    length = jnp.sqrt(jnp.sum((end - start) ** 2))
    along = (end - start) / jnp.maximum(length, 1e-6)
    across = jnp.stack([-along[1], along[0]])
    head = jnp.minimum(0.03 * size, 0.5 * length)
    strokes = [(start, end)] + [(end, end - head * (along + side * 0.7 * across)) for side in (-1.0, 1.0)]
    distances = [_segment_distance(size, *stroke) for stroke in strokes]
    return _stroke(jnp.stack(distances).min(axis=0), 0.012 * size)


def _goal_alpha(goal: GoalMark, size: int) -> Channel:
    """Draw a circle of the goal's radius with a cross through it."""
    columns, rows = _pixel_centres(size)
    centre = size * np.array([goal.x, goal.y])
    radius = size * goal.radius
    circle = jnp.abs(jnp.hypot(columns - centre[0], rows - centre[1]) - radius)
    arms = radius / np.sqrt(2.0) * np.array([[1.0, -1.0], [1.0, 1.0]])
    cross = [_segment_distance(size, centre - arm, centre + arm) for arm in arms]
    return _stroke(jnp.stack([circle, *cross]).min(axis=0), 0.008 * size)
