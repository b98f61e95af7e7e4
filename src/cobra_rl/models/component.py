"""The component VAE, shared by all slots: q(z_k | x, m_k) and the spatial broadcast decoder p(x, c | z_k).

`ConvEncoder` and `BroadcastDecoder` are MONet's. `FactoredEncoder` and `FactoredDecoder` are ours,
for preset laptop: they build in what MONet has to discover, that an object has a position, a
colour, a size, an angle and a shape, which are independent of each other. Each latent belongs to
one factor; the meaning of its values is learnt.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.models.nets import (
    MLP,
    Conv,
    Lattice,
    Linear,
    convolve,
    coordinates,
    corner_place,
    cut_windows,
    depth_to_space,
    nearest_corner,
)
from cobra_rl.models.vision import PLACE

Drawn = tuple[Float[Array, "B H W 3"], Float[Array, "B H W"]]  # RGB means and mask logits

# Index of the first latent of hue, size and shape; latents 0 and 1 are the position (PLACE), 4 and 5 the tone, that is
# saturation and brightness, 7 and 8 the angle
HUE = 2
SIZE = 6
SHAPE = 9
FACTOR_NAMES = ["hue, cosine", "hue, sine", "saturation", "brightness", "size", "angle, cosine", "angle, sine"]
SPRITE = 8.0  # 1 / about half the width of a sprite, in the coordinates of `coordinates`
AREA = 0.017  # area of a sprite, as a share of the frame
RINGS = 6
RADII = 0.3 * np.arange(1, RINGS + 1)  # radii of the rings, in half widths of a sprite
ORDERS = range(1, 7)  # orders of circular harmonics: the first tells where the mask's mass is, the others its shape
PIXELS = 8.0  # masks of fewer pixels than about this many carry no information


class ConvEncoder(eqx.Module):
    """Strided convolutions over the image and the log-mask, then an MLP."""

    convs: list[Conv]
    head: MLP

    def __init__(self, latents: int, key: PRNGKeyArray, *, size: int, hidden: int):
        """`size` is the side of a picture, `hidden` the width of the MLP."""
        *keys, head_key = jax.random.split(key, 5)
        widths = (4, 32, 32, 64, 64)
        self.convs = [Conv(n_in, n_out, k, stride=2) for n_in, n_out, k in zip(widths, widths[1:], keys, strict=False)]
        self.head = MLP(((size // 16) ** 2 * 64, hidden, 2 * latents), head_key)

    def __call__(self, x: Float[Array, "B H W 3"], mask: Float[Array, "B H W"]) -> Float[Array, "B P"]:
        """Return the means and log-variances of the latents, P = 2M."""
        x = jnp.concatenate([x, jnp.log(mask + 1e-5)[..., None]], -1)
        for conv in self.convs:
            x = jax.nn.relu(conv(x))
        return self.head(x.reshape(x.shape[0], -1))


class FactoredEncoder(eqx.Module):
    """Compute each factor of an object from its mask and mean colour: position, hue, tone, size, angle and shape.

    The mask is expanded around its centroid in circular harmonics on rings. The magnitudes of the
    harmonics do not depend on the angle, and the shape latents are an MLP of these magnitudes
    alone. The phases rotate with the object, and the angle latents are the phase of the harmonic
    that matches the object's symmetry. Hue is a direction in the chroma plane. Where the frame's
    border cuts an object, its symmetry is lost, and a second MLP, which reads all of this, corrects
    it.

    The result counts as an observation y of the latent with noise of variance tau^2, and the
    posterior follows by Bayes' rule from the prior N(0, 1): variance tau^2 / (1 + tau^2), mean
    y / (1 + tau^2). So a latent about which the picture says nothing has the mean of the prior,
    whatever y is; this holds for masks of few pixels too (PIXELS).
    """

    head: MLP
    border: MLP
    latents: int = eqx.field(static=True)
    window: int = eqx.field(static=True)

    def __init__(self, latents: int, key: PRNGKeyArray, *, window: int, hidden: int):
        """`window` is the side of the mask's window in pixels, `hidden` the width of both MLPs."""
        head_key, border_key = jax.random.split(key)
        orders = len(ORDERS)
        outputs = RINGS + (orders - 1) + (latents - SHAPE) + latents
        self.head = MLP((RINGS * orders + 1, hidden, hidden, outputs), head_key, last_gain=0.3)
        layers = (RINGS * (1 + 2 * orders) + 3, hidden, hidden, 2 + latents - SIZE)
        self.border = MLP(layers, border_key, last_gain=0.01)
        self.latents = latents
        self.window = window

    def __call__(self, x: Float[Array, "B H W 3"], mask: Float[Array, "B H W"]) -> Float[Array, "B P"]:
        """Return the means and log-variances of the latents, P = 2M."""
        weight = mask**2  # a pixel that may be another slot's says little about this one
        pixels = weight.sum((1, 2))[:, None]
        share = weight * (pixels / (pixels**2 + 4.0))[:, None]  # an empty mask gives zeros, not noise
        centroid = jnp.einsum("bhw,hwc->bc", share, coordinates(mask.shape[1]))
        bright = weight * x.max(-1) ** 2  # the dark pixels of an edge say little about the colour
        light = bright.sum((1, 2))[:, None]
        color = jnp.einsum("bhw,bhwc->bc", bright, x) * light / (light**2 + 4.0)
        size = jnp.tanh(jnp.log(pixels / mask[0].size + AREA / 32.0) - np.log(AREA))
        real, imaginary, profile, cut = self._harmonics(share, centroid)
        strength = jnp.sqrt(real**2 + imaginary**2 + 1e-6)[:, :, 1:]
        read = self.head(_features(8.0 * profile, 8.0 * strength, size))
        ends = np.cumsum((RINGS, len(ORDERS) - 1, self.latents - SHAPE))
        shift, symmetry, shape, log_noise = jnp.split(read, ends, axis=-1)
        toward = jnp.stack([jnp.sum(part[:, :, 0] * shift, -1) for part in (real, imaginary)], -1)
        phase = jnp.stack([jnp.sum(part[:, :, 1:] * RADII[:, None], 1) for part in (real, imaginary)], -1)
        phase = phase / (jnp.linalg.norm(phase + 1e-6, axis=-1, keepdims=True) + 0.02)
        angle = jnp.sum(jax.nn.softmax(symmetry)[..., None] * phase, axis=1)
        everything = _features(8.0 * profile, 8.0 * real, 8.0 * imaginary, centroid, size)
        moved, changed = jnp.split(cut * self.border(everything), [2], axis=-1)
        place = PLACE.from_canvas(centroid + 0.25 * toward) + moved
        looks = jnp.concatenate([2.0 * size, 1.4 * angle, shape], -1) + changed
        log_noise = jnp.logaddexp(jnp.clip(log_noise - 4.0, -12.0, 8.0), 4.0 * jnp.log(PIXELS / (pixels + 0.1)))
        mean = jnp.concatenate([place, _color_factors(color), looks], -1) * jax.nn.sigmoid(-log_noise)
        return jnp.concatenate([mean, jax.nn.log_sigmoid(log_noise)], -1)

    def _harmonics(self, share: Float[Array, "B H W"], centroid: Float[Array, "B 2"]) -> tuple[Array, ...]:
        """Expand a mask in circular harmonics of ORDERS on each ring around its centroid.

        Returns:
            Real and imaginary parts [B, J, N], the mass on the rings [B, J], and to what degree the
            frame's border cuts them off, from 0 to 1 [B, 1].
        """
        size = share.shape[1]
        at = nearest_corner(centroid, size)
        glimpse = cut_windows(share[..., None], at, self.window).reshape(share.shape[0], -1)
        place = coordinates(self.window).reshape(-1, 2) * self.window / size + corner_place(at, size)[:, None]
        offset = SPRITE * (place - centroid[:, None])
        radius = jnp.sqrt(jnp.sum(offset**2, -1) + 1e-4)
        rings = jax.nn.relu(1.0 - jnp.abs(radius[..., None] - RADII) / (1.5 * RADII[0]))
        outside = jnp.sum((jnp.abs(place).max(-1) > 1.0) * (radius < RADII[-1]), -1) / jnp.sum(radius < RADII[-1], -1)
        x, y = (offset[..., axis] / radius for axis in (0, 1))
        waves = [(x, y)]
        for _ in ORDERS[1:]:
            real, imaginary = waves[-1]
            waves.append((real * x - imaginary * y, real * y + imaginary * x))
        mass = glimpse[..., None] * rings
        real, imaginary = (jnp.einsum("bpj,bpn->bjn", mass, jnp.stack(part, -1)) for part in zip(*waves, strict=True))
        return real, imaginary, mass.sum(1), jnp.minimum(8.0 * outside, 1.0)[:, None]


def _features(*parts: Array) -> Float[Array, "B F"]:
    """Flatten and concatenate the parts to one row per scene."""
    return jnp.concatenate([part.reshape(part.shape[0], -1) for part in parts], -1)


def _color_factors(color: Float[Array, "B 3"]) -> Float[Array, "B 4"]:
    """Return hue as a point on a circle (its centre: no hue), saturation and value, of about unit variance each."""
    red, green, blue = color.T
    plane = jnp.stack([red - 0.5 * (green + blue), 0.75**0.5 * (green - blue)], -1)
    chroma = jnp.sqrt(jnp.sum(plane**2, -1, keepdims=True) + 1e-8)
    value = color.max(-1, keepdims=True)
    hue = 1.4 * plane * chroma / (chroma**2 + 0.05**2)
    saturation = chroma * value / (value**2 + 0.05**2)
    return jnp.concatenate([hue, 4.0 * (saturation - 0.65), 2.5 * (value - 0.95)], -1)


class BroadcastDecoder(eqx.Module):
    """MONet's spatial broadcast decoder: latents and coordinates at every pixel -> RGB means and a mask logit.

    Convolutions are not padded, so the first one gets a canvas that is two pixels per layer larger
    than the picture.
    """

    layers: list[Conv]
    out: Linear
    size: int = eqx.field(static=True)

    def __init__(self, size: int, latents: int, key: PRNGKeyArray, *, width: int, layers: int):
        out_key, *keys = jax.random.split(key, layers + 1)
        self.layers = [Conv(width if i else latents + 2, width, k, padding="VALID") for i, k in enumerate(keys)]
        self.out = Linear(width, 4, out_key, gain=1.0)
        self.size = size

    def __call__(self, z: Float[Array, "B M"], lattice: Lattice | None = None) -> Drawn:
        """Return RGB means and mask logits; the first layer adds the latents' part once, without broadcasting them.

        It draws whole pictures (`Monet.patch` is 0), so that the exploration phase gives it no
        lattice.
        """
        first, *others = self.layers
        of_latents, of_place = jnp.split(first.kernel, [z.shape[-1]], axis=2)
        place = convolve(self._canvas()[None], of_place, padding="VALID")
        x = jax.nn.relu(place + (z @ of_latents.sum((0, 1)) + first.bias)[:, None, None])
        for layer in others:
            x = jax.nn.relu(layer(x))
        x = self.out(x)
        return x[..., :3], x[..., 3]

    def _canvas(self) -> Float[Array, "h w 2"]:
        """Return (x, y) of the pixels of the canvas; the outermost ones are at -1 and 1."""
        side = self.size + 2 * len(self.layers)
        return coordinates(side) * side / (side - 1)


class FactoredDecoder(eqx.Module):
    """Our decoder: it draws a silhouette around a centre, the latents of PLACE, in one colour that darkens at the edge.

    An MLP of size, angle and shape computes, for each hidden unit of the first layer, its bias and
    its weights on the coordinates relative to the centre. Each unit is thus a half-plane, and the
    1x1 convolutions after it combine these to any shape, at any angle and position. The output is
    patches of `patch` x `patch` pixels. Another MLP turns hue and tone into a colour.
    """

    half_planes: MLP
    layers: list[Linear]
    out: Linear
    color: MLP
    size: int = eqx.field(static=True)
    patch: int = eqx.field(static=True)

    def __init__(self, size: int, latents: int, key: PRNGKeyArray, *, width: int, layers: int, patch: int):
        plane_key, layer_key, out_key, color_key = jax.random.split(key, 4)
        self.half_planes = MLP((latents - SIZE, 128, 128, 3 * width), plane_key, last_gain=2.0)
        self.layers = [Linear(width, width, k) for k in jax.random.split(layer_key, layers)]
        self.out = Linear(width, 2 * patch**2, out_key, gain=0.3)
        self.color = MLP((SIZE - HUE, 64, 64, 3), color_key)
        self.size = size
        self.patch = patch

    def __call__(self, z: Float[Array, "B M"], lattice: Lattice | None = None) -> Drawn:
        """Return RGB means and mask logits; with a lattice, only those of its patches, side by side."""
        planes = self.half_planes(z[:, SIZE:]).reshape(z.shape[0], 3, -1)
        direction = 4.0 * planes[:, :2]  # sprites are small
        bias = planes[:, 2] - jnp.einsum("bc,bcf->bf", PLACE.canvas(z), direction)
        place = coordinates(self.size // self.patch)
        if lattice is not None:
            place = lattice.thin(place)
        x = jax.nn.relu(jnp.einsum("nc,bcf->bnf", place.reshape(-1, 2), direction) + bias[:, None])
        x = x.reshape(z.shape[0], *place.shape[:2], -1)
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        logit, light = jnp.moveaxis(depth_to_space(self.out(x), self.patch), -1, 0)
        shade = jax.nn.sigmoid(light + 3.0)  # a pixel at the edge is partly the black of the background
        return shade[..., None] * self.color(z[:, HUE:SIZE])[:, None, None], logit
