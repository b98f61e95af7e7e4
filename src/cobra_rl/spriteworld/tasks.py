"""What is rewarded: goal finding, clustering, keeping apart, and sums of tasks. A task is a frozen value."""

import colorsys
from dataclasses import dataclass
from typing import Annotated, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cobra_rl.bounds import Bounds, Checked, Share
from cobra_rl.spriteworld.sprites import SHAPES, ShapeName, Sprites

Range = tuple[float, float]  # half-open: low <= value < high
HueRange = tuple[Share, Annotated[float, Bounds(0.0, 2.0)]]  # its end may lie above all hues
Finite = Annotated[float, Bounds(-1e6, 1e6)]
RewardAndSuccess = tuple[Float[Array, ""], Bool[Array, ""]]


class GoalMark(NamedTuple):
    """How a hidden goal is shown to people: a crossed circle."""

    x: float
    y: float
    radius: float
    rgb: tuple[float, float, float]  # each in [0, 1]


@runtime_checkable
class Task(Protocol):
    """Maps sprites to (reward, success)."""

    def __call__(self, sprites: Sprites) -> RewardAndSuccess: ...

    @property
    def goals(self) -> tuple[GoalMark, ...]:
        """The hidden goals, for pictures; by default none."""
        return ()


@dataclass(frozen=True)
class NoReward(Checked, Task):
    """Exploration: reward 0, never solved."""

    def __call__(self, sprites: Sprites) -> RewardAndSuccess:
        return jnp.float32(0.0), jnp.bool_(False)


@dataclass(frozen=True)
class FindGoal(Checked, Task):
    """Bring every sprite that passes the filter to the goal.

    Each gives `multiplier * (radius - distance)`; the task is solved when all are within `radius`, also if none passes:
    as a part of a sum it then asks for nothing.
    """

    goal: tuple[Share, Share] = (0.5, 0.5)  # (x, y)
    hue: HueRange | None = None  # only sprites of this hue count
    shapes: Annotated[tuple[ShapeName, ...], Bounds(1, len(SHAPES))] | None = None  # only sprites of these shapes count
    multiplier: Finite = 50.0  # reward per frame width
    radius: Annotated[float, Bounds(0.0, 2.0, above=True)] = 0.075  # in frame widths

    def __call__(self, sprites: Sprites) -> RewardAndSuccess:
        counts = _passing(sprites, self.hue, self.shapes)
        distance = jnp.sqrt(jnp.sum((sprites.position - jnp.asarray(self.goal)) ** 2, axis=1))
        rewards = self.multiplier * (self.radius - distance)
        return jnp.sum(jnp.where(counts, rewards, 0.0)), jnp.all(jnp.where(counts, rewards >= 0.0, True))

    @property
    def goals(self) -> tuple[GoalMark, ...]:
        narrow = self.hue is not None and self.hue[1] - self.hue[0] < 0.15  # it names a colour
        rgb = colorsys.hsv_to_rgb(sum(self.hue) / 2, 1.0, 1.0) if self.hue and narrow else (1.0, 1.0, 1.0)
        return (GoalMark(*self.goal, self.radius, rgb),)


@dataclass(frozen=True)
class FarApart(Checked, Task):
    """Keep any two of the sprites that pass the filter at least `distance` apart.

    The reward is `multiplier * (least distance of two - distance)`, and the task is solved when that is not negative.
    If fewer than two pass, the reward is 0 and the task is solved: as a part of a sum it then asks for nothing.
    """

    hue: HueRange | None = None  # only sprites of this hue count
    shapes: Annotated[tuple[ShapeName, ...], Bounds(1, len(SHAPES))] | None = None  # only sprites of these shapes count
    distance: Annotated[float, Bounds(0.0, 2.0, above=True)] = 0.5  # in frame widths
    multiplier: Finite = 50.0  # reward per frame width

    def __call__(self, sprites: Sprites) -> RewardAndSuccess:
        counts = _passing(sprites, self.hue, self.shapes)
        gaps = jnp.sqrt(jnp.sum((sprites.position[:, None] - sprites.position) ** 2, axis=2))
        pairs = counts[:, None] & counts & ~jnp.eye(counts.shape[0], dtype=bool)
        nearest = jnp.min(jnp.where(pairs, gaps, jnp.inf))
        reward = jnp.where(jnp.any(pairs), self.multiplier * (nearest - self.distance), 0.0)
        return reward, reward >= 0.0


@dataclass(frozen=True)
class Clustering(Checked, Task):
    """Bring sprites of like hue together and the two clusters apart.

    The measure is the inverse Davies-Bouldin index. For two clusters that is D / (s1 + s2): D the distance of the
    centroids, s_i the mean distance of cluster i's members from its centroid. It is finite for clusters of no extent.
    The reward is `multiplier * (measure - threshold)`, and the task is solved when that is not negative.
    """

    hues: tuple[HueRange, HueRange]  # a sprite belongs to the cluster in whose range its hue lies
    threshold: Finite = 2.5
    multiplier: Finite = 5.0

    def __call__(self, sprites: Sprites) -> RewardAndSuccess:
        centroids, extents = zip(*(self._cluster(sprites, hue) for hue in self.hues), strict=True)
        apart = jnp.sqrt(jnp.sum((centroids[0] - centroids[1]) ** 2))
        inverse_db = apart / jnp.maximum(extents[0] + extents[1], 1e-6)
        return self.multiplier * (inverse_db - self.threshold), inverse_db >= self.threshold

    @staticmethod
    def _cluster(sprites: Sprites, hue: Range) -> tuple[Float[Array, " 2"], Float[Array, ""]]:
        member = (sprites.alive & _within(sprites.color[:, 0], hue)).astype(jnp.float32)
        weight = member / jnp.maximum(jnp.sum(member), 1.0)
        centroid = weight @ sprites.position
        return centroid, weight @ jnp.sqrt(jnp.sum((sprites.position - centroid) ** 2, axis=1))


@dataclass(frozen=True)
class Sum(Checked, Task):
    """All tasks at once: their rewards add up, and the sum is solved when all of them are solved."""

    tasks: Annotated[tuple[Task, ...], Bounds(1, 100)]
    bonus: Finite = 0.0  # added to the reward of each step after which all tasks are solved

    def __call__(self, sprites: Sprites) -> RewardAndSuccess:
        rewards, successes = zip(*(task(sprites) for task in self.tasks), strict=True)
        success = jnp.all(jnp.stack(successes))
        return jnp.sum(jnp.stack(rewards)) + self.bonus * success, success

    @property
    def goals(self) -> tuple[GoalMark, ...]:
        return tuple(goal for task in self.tasks for goal in task.goals)


def _passing(sprites: Sprites, hue: Range | None, shapes: tuple[str, ...] | None) -> Bool[Array, " N"]:
    """Tell which sprites have a hue and a shape that count; None allows any."""
    counts = sprites.alive
    if hue is not None:
        counts &= _within(sprites.color[:, 0], hue)
    if shapes is not None:
        wanted = jnp.asarray([SHAPES.index(name) for name in shapes])
        counts &= jnp.any(sprites.shape[:, None] == wanted, axis=1)
    return counts


def _within(value: Array, limits: Range) -> Array:
    return (value >= limits[0]) & (value < limits[1])
