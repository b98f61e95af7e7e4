"""Where episodes begin: an environment draws one of its scenes, each a tuple of distributions over sprites.

All are laid out in tables, so that drawing a scene is a handful of look-ups, whatever the environment.
"""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from cobra_rl.bounds import Bounds, Checked, Share
from cobra_rl.spriteworld.sprites import SHAPES, Angle, Scale, ShapeName, Sprites
from cobra_rl.spriteworld.tasks import Range

ShareRange = tuple[Share, Share]  # low <= high
Box = tuple[ShareRange, ShareRange]  # (x range, y range)


@dataclass(frozen=True)
class SpriteDistribution(Checked):
    """Independent uniform factors of one sprite. A range (low, high) may be a point, with low = high.

    Raises:
        ValueError: If a field is out of range, or the low end of a range is above its high end.
    """

    hue: ShareRange = (0.0, 1.0)  # range of hues
    saturation: ShareRange = (0.3, 1.0)  # range of saturations
    value: ShareRange = (1.0, 1.0)  # range of brightnesses: the V of HSV
    shapes: Annotated[tuple[ShapeName, ...], Bounds(1, 100)] = ("square", "triangle", "circle")
    """Equally likely; one may be repeated."""
    boxes: Annotated[tuple[Box, ...], Bounds(1, 1000)] = (((0.0, 1.0), (0.0, 1.0)),)
    """Ranges of x and of y. Boxes should not overlap; positions are then uniform over all of them."""
    angle: tuple[Angle, Angle] = (0.0, 0.0)  # range of angles in degrees, counter-clockwise
    scale: Scale | tuple[Scale, Scale] = 0.13  # the area is scale^2; one size, or a range of sizes

    def __post_init__(self) -> None:
        super().__post_init__()
        sides = [side for box in self.boxes for side in zip("xy", box, strict=True)]
        ranges = {name: getattr(self, name) for name in ("hue", "saturation", "value", "angle")}
        for name, (low, high) in [*sides, *ranges.items(), ("scale", self.scale_range)]:
            if low > high:
                raise ValueError(f"The range of {name} is ({low}, {high}); its low end must not be above its high end.")

    @property
    def scale_range(self) -> Range:
        """The scale as a range, also where it is a single size."""
        return self.scale if isinstance(self.scale, tuple) else (self.scale, self.scale)


Scene = Annotated[tuple[SpriteDistribution, ...], Bounds(1, 1000)]


class SceneSampler:
    """Draws the sprites of a new episode, in the same way for one scene or many."""

    def __init__(self, scenes: tuple[Scene, ...], capacity: int, shuffle: bool):
        """Lay out the tables; N sprites a scene, padded. A random z-order says nothing about the task."""
        self._shuffle = shuffle
        padded = [scene + (scene[-1],) * (capacity - len(scene)) for scene in scenes]
        boxes = max(len(d.boxes) for scene in padded for d in scene)
        shapes = max(len(d.shapes) for scene in padded for d in scene)

        def table(row) -> np.ndarray:
            return np.array([[row(d) for d in scene] for scene in padded], np.float32)

        def padded_boxes(d: SpriteDistribution) -> list:
            return [(x[0], y[0], x[1], y[1]) for x, y in d.boxes] + [(0.0,) * 4] * (boxes - len(d.boxes))

        def box_edges(d: SpriteDistribution) -> np.ndarray:
            # Cumulative probabilities, so that u < edge picks a box. Boxes of no area (points, lines) share
            # the probability equally if there are no others. Padding gets the edge 1, so that u never picks it.
            areas = np.cumsum([(x[1] - x[0]) * (y[1] - y[0]) for x, y in d.boxes])
            count = len(d.boxes)
            edges = areas / areas[-1] if areas[-1] > 0.0 else np.linspace(1, 0, count, endpoint=False)[::-1]
            return np.pad(edges, (0, boxes - count), constant_values=1.0)

        def padded_shapes(d: SpriteDistribution) -> list:
            return [SHAPES.index(d.shapes[i % len(d.shapes)]) for i in range(shapes)]

        self._tables = {  # S scenes, N sprites, R boxes
            "alive": np.array([[i < len(scene) for i in range(capacity)] for scene in scenes]),  # [S, N]
            "boxes": table(padded_boxes),  # [S, N, R, 4]
            "box_edges": table(box_edges),  # [S, N, R]
            "shapes": table(padded_shapes).astype(int),
            "shape_count": table(lambda d: len(d.shapes)),  # [S, N]
            "scale": table(lambda d: d.scale_range),  # [S, N, 2]
            "ranges": table(lambda d: (d.angle, d.hue, d.saturation, d.value)),  # [S, N, 4, 2]
        }
        self._several_sizes = bool(np.any(np.ptp(self._tables["scale"], axis=-1) > 0.0))

    def __call__(self, key: PRNGKeyArray) -> Sprites:
        """Draw a scene, then its sprites."""
        scenes, capacity = self._tables["alive"].shape
        scene_key, factor_key, order_key = jax.random.split(key, 3)
        scene = jax.random.randint(scene_key, (), 0, scenes)
        drawn = {name: jnp.asarray(table)[scene] for name, table in self._tables.items()}
        sprite = jnp.arange(capacity)
        u = jax.random.uniform(factor_key, (capacity, 8))
        box = jnp.sum(u[:, :1] >= drawn["box_edges"][:, :-1], axis=1)
        corners = drawn["boxes"][sprite, box]  # [N, 4]
        position = corners[:, :2] + u[:, 2:4] * (corners[:, 2:] - corners[:, :2])
        shape = drawn["shapes"][sprite, (u[:, 1] * drawn["shape_count"]).astype(jnp.int32)]
        low, high = jnp.moveaxis(drawn["ranges"], -1, 0)
        factors = low + u[:, 4:] * (high - low)
        scale, largest = drawn["scale"].T
        if self._several_sizes:  # with a key of its own, so that the other factors are drawn as ever
            scale += jax.random.uniform(jax.random.fold_in(key, 3), (capacity,)) * (largest - scale)
        sprites = Sprites(position, shape, factors[:, 0], scale=scale, color=factors[:, 1:], alive=drawn["alive"])
        if not self._shuffle or capacity == 1:
            return sprites
        order = jnp.argsort(jax.random.uniform(order_key, (capacity,)) + ~sprites.alive)  # padding stays last
        return jax.tree.map(lambda factor: factor[order], sprites)
