"""Probes that read the factors of a sprite from its slot, and how disentangled the latents are.

Position is read by ridge regression. Hue, saturation, shape and angle are read by small MLPs, one for each factor; hue
and shape also by linear least squares.
Axes: S sprites of many scenes (one `Sprites`), each with the slot matched to it, M latents, F factors.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float

from cobra_rl.spriteworld import SHAPES, Sprites

PROBED_FACTORS = ("x", "y", "hue", "saturation", "shape", "angle")
# How many times a shape looks the same within a full turn; 0 for the circle, which has no angle
SYMMETRY_ORDER = np.array([3, 4, 5, 6, 8, 0, 4, 5, 6, 4, 5, 6])

RIDGE = 1e-3
HIDDEN_UNITS = 64
HIDDEN_LAYERS = 2
TRAINING_STEPS = 2000
TRAINING_BATCH = 256
LEARNING_RATE = 3e-3
SHUFFLES = 5  # permutations of each latent, for its importance

SpriteSlots = Float[np.ndarray, "S M"]  # one slot for each sprite
Matched = tuple[Float[np.ndarray, "_ M"], Sprites]  # slots and the sprites that they are matched to
Nets = dict[str, eqx.nn.MLP]


@dataclass(frozen=True)
class PositionProbe:
    """Ridge regression from a slot to its sprite's position."""

    mean: Float[np.ndarray, " M"]  # of the slots that it was fitted on
    std: Float[np.ndarray, " M"]
    origin: Float[np.ndarray, " 2"]
    weight: Float[np.ndarray, "M 2"]

    @classmethod
    def fit(cls, slots: SpriteSlots, position: Float[np.ndarray, "S 2"]) -> "PositionProbe":
        """Fit the probe."""
        mean = slots.mean(axis=0)
        std = slots.std(axis=0) + 1e-6
        origin = position.mean(axis=0)
        inputs = (slots - mean) / std
        gram = inputs.T @ inputs + RIDGE * np.eye(inputs.shape[1])
        weight = np.linalg.solve(gram, inputs.T @ (position - origin)).astype(np.float32)
        return cls(mean, std, origin, weight=weight)

    def __call__(self, slots: SpriteSlots) -> Float[np.ndarray, "S 2"]:
        """Read (x, y) in frame widths."""
        return self.origin + self.standardise(slots) @ self.weight

    def standardise(self, slots: SpriteSlots) -> SpriteSlots:
        """Shift and scale slots to zero mean and unit variance over those of the fit."""
        return (slots - self.mean) / self.std


@dataclass(frozen=True)
class Probes:
    """Fitted readers of all factors."""

    position: PositionProbe
    nets: Nets  # read standardised slots

    def errors(self, slots: SpriteSlots, sprites: Sprites) -> dict[str, Float[np.ndarray, " S"]]:
        """Measure the absolute error of each of `PROBED_FACTORS`, sprite by sprite.

        Args:
            slots: The slots that the sprites are matched to.
            sprites: The true factors.

        Returns:
            By factor, the errors of S sprites: x and y in frame widths, hue in turns, shape 0 if it is right and 1 if
            not, angle in turns of the shape's own symmetry, or NaN for a circle.
        """
        outputs = jax.tree.map(np.asarray, _predict(self.nets, jnp.asarray(self.position.standardise(slots))))
        x, y = np.abs(self.position(slots) - sprites.position).T
        shape = np.asarray(sprites.shape)
        angle = outputs["angle"].reshape(-1, len(SHAPES), 2)[np.arange(len(slots)), shape]
        return {
            "x": x,
            "y": y,
            "hue": _circle_error(outputs["hue"], np.asarray(sprites.color[:, 0])),
            "saturation": np.abs(outputs["saturation"][:, 0] - sprites.color[:, 1]),
            "shape": (outputs["shape"].argmax(axis=1) != shape).astype(np.float32),
            "angle": np.where(SYMMETRY_ORDER[shape] > 0, _circle_error(angle, _phase(sprites)), np.nan),
        }


def fit_probes(slots: SpriteSlots, sprites: Sprites, seed: int = 0, *, steps: int = TRAINING_STEPS) -> Probes:
    """Fit all probes to slots and the sprites matched to them.

    Args:
        slots: One slot for each of S sprites.
        sprites: The true factors of these sprites.
        seed: The random seed of the MLPs and their batches.
        steps: The number of gradient steps of the MLPs.

    Returns:
        The fitted probes.

    Raises:
        ValueError: If there are fewer than two sprites.
    """
    if len(slots) < 2:
        raise ValueError(f"Probes cannot be fitted to {len(slots)} sprites; evaluate on more scenes.")
    position = PositionProbe.fit(slots, np.asarray(sprites.position))
    targets = _targets(sprites)
    init_key, fit_key = jax.random.split(jax.random.key(seed))
    nets = {
        name: eqx.nn.MLP(slots.shape[1], target.shape[1], width_size=HIDDEN_UNITS, depth=HIDDEN_LAYERS, key=key)
        for (name, target), key in zip(targets.items(), jax.random.split(init_key, len(targets)), strict=True)
    }
    inputs = jnp.asarray(position.standardise(slots), jnp.float32)
    return Probes(position, _train(nets, inputs, targets, key=fit_key, steps=steps))


def probe_scores(probes: Probes, slots: SpriteSlots, sprites: Sprites) -> dict[str, float]:
    """Measure how well probes read the factors of sprites.

    Args:
        probes: Probes that were fitted on other sprites.
        slots: One slot for each of S sprites.
        sprites: The true factors of these sprites.

    Returns:
        Means over sprites: `position_error` along an axis in frame widths, `hue_error` in turns, `saturation_error`,
        `shape_accuracy`, and `angle_error` in degrees; NaN where no sprite has the factor.
    """
    errors = probes.errors(slots, sprites)
    degrees = errors["angle"] * 360.0 / np.maximum(SYMMETRY_ORDER[np.asarray(sprites.shape)], 1)
    return {
        "position_error": _mean(np.concatenate([errors["x"], errors["y"]])),
        "hue_error": _mean(errors["hue"]),
        "saturation_error": _mean(errors["saturation"]),
        "shape_accuracy": 1.0 - _mean(errors["shape"]),
        "angle_error": _mean(degrees),
    }


def linear_scores(fitted: Matched, tested: Matched) -> dict[str, float]:
    """Measure how well linear least squares read hue, as a point on the circle, and shape, one-hot.

    A reward predictor sees few scenes, and soon learns rewards that depend on the latents in a simple way.

    Args:
        fitted: The slots and sprites to fit on.
        tested: The slots and sprites to test on.

    Returns:
        `hue_r2`, the R^2 of hue, and `shape_linear`, the accuracy of shape, or NaN if all sprites to fit on have the
        same shape.
    """
    fit_slots, fit_sprites = fitted
    slots, sprites = tested
    mean = fit_slots.mean(axis=0)
    std = fit_slots.std(axis=0) + 1e-6

    def with_one(slots: np.ndarray) -> np.ndarray:
        return np.concatenate([(slots - mean) / std, np.ones((len(slots), 1))], axis=1).astype(np.float64)

    def read(target: np.ndarray) -> np.ndarray:
        return with_one(slots) @ np.linalg.lstsq(with_one(fit_slots), target, rcond=None)[0]

    hue = on_circle(np.asarray(sprites.color[:, 0]))
    error = ((read(on_circle(np.asarray(fit_sprites.color[:, 0]))) - hue) ** 2).sum()
    shapes = np.unique(fit_sprites.shape)
    guess = shapes[read(np.asarray(fit_sprites.shape)[:, None] == shapes).argmax(axis=1)]
    return {
        "hue_r2": float(1.0 - error / ((hue - hue.mean(axis=0)) ** 2).sum()),
        "shape_linear": float((guess == sprites.shape).mean()) if len(shapes) > 1 else float("nan"),
    }


def importances(probes: Probes, slots: SpriteSlots, sprites: Sprites, *, seed: int = 0) -> Float[np.ndarray, "M F"]:
    """Measure how much worse each factor is read when one latent is shuffled among the sprites.

    The unit is the error when whole slots are shuffled, so that factors can be compared, and a factor that cannot be
    read counts for little.

    Args:
        probes: The fitted probes.
        slots: One slot for each of S sprites.
        sprites: The true factors of these sprites.
        seed: The random seed of the permutations.

    Returns:
        The importance of each latent for each of the F factors that vary among these sprites.
    """
    rng = np.random.default_rng(seed)

    def mean_errors(inputs: SpriteSlots) -> Float[np.ndarray, " F"]:
        return np.array([_mean(error) for error in probes.errors(inputs, sprites).values()])

    def shuffled(latent: Bool[np.ndarray, " M"]) -> Float[np.ndarray, " F"]:
        mixed = (np.where(latent, slots[rng.permutation(len(slots))], slots) for _ in range(SHUFFLES))
        return np.mean([mean_errors(inputs) for inputs in mixed], axis=0)

    latents = slots.shape[1]
    chance = shuffled(np.ones(latents, bool))
    varies = chance > 0.01  # of frame width, turn, ...; False for NaN
    rise = np.stack([shuffled(latent) for latent in np.eye(latents, dtype=bool)]) - mean_errors(slots)
    return np.maximum(rise[:, varies], 0.0) / chance[varies]


def disentanglement(importance: Float[np.ndarray, "M F"]) -> float:
    """Compute DCI disentanglement (Eastwood and Williams, 2018).

    Args:
        importance: The importance of each latent for each factor. For its transpose, the result is DCI's completeness;
            hue and angle, which are circles, can hardly do with one latent each.

    Returns:
        A number from 0 to 1; it is 1 if each latent matters to one factor only.
    """
    total = importance.sum(axis=1, keepdims=True)
    share = importance / np.where(total > 0.0, total, 1.0)
    entropy = -np.sum(share * np.log(np.where(share > 0.0, share, 1.0)), axis=1) / np.log(max(importance.shape[1], 2))
    weight = total[:, 0] / max(total.sum(), 1e-12)
    return float(np.sum(weight * (1.0 - entropy)))


def _phase(sprites: Sprites) -> Float[np.ndarray, " S"]:
    """Return the angle in turns of the shape's own symmetry: the same for angles that look the same."""
    return (np.asarray(sprites.angle) / 360.0 * SYMMETRY_ORDER[np.asarray(sprites.shape)]).astype(np.float32)


def on_circle(turns: Float[np.ndarray, " S"]) -> Float[np.ndarray, "S 2"]:
    """Return the points of the unit circle at some turns."""
    return np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=1)


def _circle_error(point: Float[np.ndarray, "S 2"], turns: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """Compute the distance along the circle, in turns, of a point's direction."""
    apart = (np.arctan2(point[:, 1], point[:, 0]) / (2 * np.pi) - turns) % 1.0
    return np.minimum(apart, 1.0 - apart)


def _targets(sprites: Sprites) -> dict[str, Float[Array, "S outputs"]]:
    """Return what each net should say. For the angle each shape has outputs of its own; NaN where nothing is asked."""
    shape = np.asarray(sprites.shape)
    angle = np.full((len(shape), len(SHAPES), 2), np.nan, np.float32)
    angle[np.arange(len(shape)), shape] = np.where(SYMMETRY_ORDER[shape, None] > 0, on_circle(_phase(sprites)), np.nan)
    targets = {
        "hue": on_circle(np.asarray(sprites.color[:, 0])),
        "saturation": np.asarray(sprites.color[:, 1:2]),
        "shape": np.eye(len(SHAPES))[shape],
        "angle": angle.reshape(len(shape), -1),
    }
    return {name: jnp.asarray(target, jnp.float32) for name, target in targets.items()}


def _loss(nets: Nets, inputs: Float[Array, "B M"], targets: dict[str, Array]) -> Float[Array, ""]:
    """Sum the losses of the nets, which share no weights: each learns as if it were alone."""
    total = jnp.float32(0.0)
    for name, net in nets.items():
        outputs = jax.vmap(net)(inputs)
        target = targets[name]
        if name == "shape":
            total += optax.softmax_cross_entropy(outputs, target).mean()
        else:
            asked = ~jnp.isnan(target)
            total += jnp.where(asked, (outputs - jnp.where(asked, target, 0.0)) ** 2, 0.0).sum(axis=1).mean()
    return total


@eqx.filter_jit
def _train(nets: Nets, inputs: Float[Array, "S M"], targets: dict[str, Array], *, key: Array, steps: int) -> Nets:
    optimiser = optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, steps))
    params, static = eqx.partition(nets, eqx.is_inexact_array)

    def step(carry, key):
        params, state = carry
        rows = jax.random.randint(key, (TRAINING_BATCH,), 0, len(inputs))
        batch = {name: target[rows] for name, target in targets.items()}
        grads = jax.grad(lambda p: _loss(eqx.combine(p, static), inputs[rows], batch))(params)
        updates, state = optimiser.update(grads, state)
        return (eqx.apply_updates(params, updates), state), None

    (params, _), _ = jax.lax.scan(step, (params, optimiser.init(params)), jax.random.split(key, steps))
    return eqx.combine(params, static)


@eqx.filter_jit
def _predict(nets: Nets, inputs: Float[Array, "S M"]) -> dict[str, Float[Array, "S outputs"]]:
    return {name: jax.vmap(net)(inputs) for name, net in nets.items()}


def _mean(values: Float[np.ndarray, " S"]) -> float:
    """Return the mean of those that are not NaN; NaN if none is left."""
    values = values[~np.isnan(values)]
    return float(values.mean()) if values.size else float("nan")
