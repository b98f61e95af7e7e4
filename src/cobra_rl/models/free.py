"""A component VAE whose latents are free: none is assigned to a factor, and nothing is known of what it will see.

The generative model is MONet's: latents and coordinates at every place of a canvas, the same layers everywhere, RGB
means and a mask logit. The layers are 1x1 convolutions on patches of pixels, so that a part of a picture can be drawn
by itself, and the loss be estimated from a sample of patches (SIMONe does so with pixels).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cobra_rl.models import nets
from cobra_rl.models.nets import MLP, Conv, Lattice, Linear, coordinates
from cobra_rl.models.vision import PLACE

Drawn = tuple[Float[Array, "B H W 3"], Float[Array, "B H W"]]  # RGB means and mask logits
relu = jax.nn.relu

CHANNELS = (16, 32, 32)  # of the encoder's convolutions, each of stride 2
HIDDEN = 128  # width of the MLP of the latents in the decoder
FEW = 8.0  # masks of fewer pixels than about this many carry no information
EMPTY_VARIANCE = 0.1  # of the latents of a slot in which nothing is seen
SAMPLED = 0.15  # how likely a patch of the background is sampled, compared with one where something is seen


class FreeEncoder(eqx.Module):
    """Convolutions over a window around the mask's centroid, then an MLP, beside what is pooled under the mask.

    The mask's centroid and the mean colour under it are mapped to the means by a linear layer too, so that place and
    colour reach the latents from the first step. If slots have a frame of their own, latents 0 and 1 are its centre,
    the centroid plus what the MLP adds, and nothing else is told where in the picture the window is, except for which
    of its pixels lie outside.

    The result counts as an observation y of the latents with noise of variance tau^2, and the posterior follows by
    Bayes' rule: with variance v before the observation, 1 / (1 / v + 1 / tau^2), and the mean y / (1 + tau^2 / v).
    Masks of few pixels have much noise, so that the means of an empty slot are 0, and its variance is v. If v were the
    prior's 1, samples of empty slots could not be told from those of things, and each would be drawn as some thing;
    so v is EMPTY_VARIANCE, and the loss pays for that certainty.
    """

    convs: list[Conv]
    head: MLP
    pooled: Linear
    window: int = eqx.field(static=True)
    own_frame: bool = eqx.field(static=True)

    def __init__(self, latents: int, key: PRNGKeyArray, *, window: int, hidden: int, own_frame: bool):
        """`window` is the side of the mask's window in pixels, `hidden` the width of the MLP."""
        head_key, pooled_key, *keys = jax.random.split(key, 2 + len(CHANNELS))
        widths = (5, *CHANNELS)
        self.convs = [Conv(widths[i], widths[i + 1], key, stride=2) for i, key in enumerate(keys)]
        cells = window
        for _ in CHANNELS:
            cells = (cells + 1) // 2
        pooled = 3 if own_frame else 5  # the mean colour; the centroid
        direct = latents - 2 if own_frame else latents
        self.head = MLP((cells**2 * CHANNELS[-1] + pooled, hidden, hidden, 2 * latents), head_key)
        self.pooled = Linear(pooled, direct, pooled_key, gain=1.0)
        self.window = window
        self.own_frame = own_frame

    def __call__(self, x: Float[Array, "B H W 3"], mask: Float[Array, "B H W"]) -> Float[Array, "B P"]:
        """Return the means and log-variances of the latents, P = 2M."""
        weight = mask**2  # a pixel that may be another slot's says little about this one
        pixels = weight.sum((1, 2))[:, None]
        share = weight * (pixels / (pixels**2 + 4.0))[:, None]  # an empty mask gives zeros, not noise
        centroid = jnp.einsum("bhw,hwc->bc", share, coordinates(mask.shape[1]))
        color = jnp.einsum("bhw,bhwc->bc", share, x)
        pooled = color if self.own_frame else jnp.concatenate([color, centroid], -1)
        inside = jnp.ones_like(mask)  # windows are padded with zeros
        masked = jnp.concatenate([x * mask[..., None], jnp.stack([mask, inside], -1)], -1)
        seen = nets.cut_windows(masked, nets.nearest_corner(centroid, mask.shape[1]), self.window)
        for conv in self.convs:
            seen = relu(conv(seen))
        features = jnp.concatenate([seen.reshape(seen.shape[0], -1), pooled], -1)
        value, log_noise = jnp.split(self.head(features), 2, axis=-1)
        direct = self.pooled(pooled)
        if self.own_frame:
            direct = jnp.concatenate([PLACE.from_canvas(centroid), direct], -1)
        log_noise = jnp.logaddexp(jnp.clip(log_noise - 4.0, -12.0, 8.0), 4.0 * jnp.log(FEW / (pixels + 0.1)))
        relative = log_noise - jnp.log(EMPTY_VARIANCE)
        mean = (value + direct) * jax.nn.sigmoid(-relative)
        return jnp.concatenate([mean, jax.nn.log_sigmoid(relative) + jnp.log(EMPTY_VARIANCE)], -1)


class PatchDecoder(eqx.Module):
    """MONet's spatial broadcast decoder with 1x1 layers: latents and coordinates at every patch -> its pixels.

    Latents act on all layers: an MLP of them scales and shifts each hidden unit. One decoder has to draw things, the
    background and nothing at all, which are as different as can be; with latents beside the coordinates as inputs of
    the first layer alone, it takes several times as many steps to tell them apart.
    """

    of_latents: MLP
    layers: list[Linear]
    out: Linear
    size: int = eqx.field(static=True)
    patch: int = eqx.field(static=True)

    def __init__(self, size: int, latents: int, key: PRNGKeyArray, *, width: int, layers: int, patch: int):
        latent_key, out_key, *keys = jax.random.split(key, 2 + layers)
        self.of_latents = MLP((latents, HIDDEN, HIDDEN, 2 * layers * width), latent_key)
        self.layers = [Linear(width if i else 2, width, key) for i, key in enumerate(keys)]
        self.out = Linear(width, 4 * patch**2, out_key, gain=0.3)
        self.size = size
        self.patch = patch

    def __call__(self, z: Float[Array, "B M"], lattice: Lattice | None = None) -> Drawn:
        """Return RGB means and mask logits; with a lattice, only those of its patches, side by side."""
        place = coordinates(self.size // self.patch)
        if lattice is not None:
            place = lattice.thin(place)
        everywhere = jnp.broadcast_to(place.reshape(-1, 2), (z.shape[0], place[..., 0].size, 2))
        patches = self.draw(z, everywhere).reshape(z.shape[0], *place.shape[:2], -1)
        picture = nets.depth_to_space(patches, self.patch)
        return picture[..., :3], picture[..., 3]

    def draw(self, z: Float[Array, "B M"], place: Float[Array, "B N 2"]) -> Float[Array, "B N P 4"]:
        """Return RGB means and mask logit of the P pixels of patches at (x, y) in [-1, 1]^2."""
        x = place
        modulation = jnp.split(self.of_latents(z)[:, None], 2 * len(self.layers), axis=-1)
        for layer, scale, shift in zip(self.layers, modulation[::2], modulation[1::2], strict=True):
            x = relu(layer(x) * (1.0 + 0.5 * scale) + shift)
        return self.out(x).reshape(*place.shape[:2], self.patch**2, 4)


class CentredDecoder(PatchDecoder):
    """The same in the slot's own frame: it sees coordinates relative to the slot's centre, which is latents 0 and 1."""

    scale: float = eqx.field(static=True)

    def __init__(self, size: int, latents: int, key: PRNGKeyArray, *, width: int, layers: int, patch: int):
        super().__init__(size, latents - 2, key, width=width, layers=layers, patch=patch)
        self.scale = 4.0  # things are small: what is near the centre shall spread over about [-1, 1]

    def draw(self, z: Float[Array, "B M"], place: Float[Array, "B N 2"]) -> Float[Array, "B N P 4"]:
        """Return RGB means and mask logit of the P pixels of patches at (x, y) in [-1, 1]^2."""
        return super().draw(z[:, 2:], self.scale * (place - PLACE.canvas(z)[:, None]))


class Patches(NamedTuple):
    """A sample of the patches of each picture of a batch."""

    cells: Int[Array, "B N"]  # of the grid of patches, row by row
    weight: Float[Array, "B N"]  # 1 / the expected number of times that the patch is in the sample
    side: int  # of a patch, in pixels

    def place(self, size: int) -> Float[Array, "B N 2"]:
        """Return (x, y) of the patches in [-1, 1]^2, in pictures of `size` pixels a side."""
        return coordinates(size // self.side).reshape(-1, 2)[self.cells]

    def take(self, x: Float[Array, "B H W C"]) -> Float[Array, "B N P C"]:
        """Return the pixels of the sampled patches."""
        patches = nets.space_to_depth(x, self.side).reshape(x.shape[0], -1, self.side**2, x.shape[-1])
        return jnp.take_along_axis(patches, self.cells[:, :, None, None], axis=1)


def sample_patches(seen: Float[Array, "B H W"], side: int, count: int, *, key: PRNGKeyArray) -> Patches:
    """Sample patches, more of them where something is seen; sums over them, with their weights, are unbiased.

    Args:
        seen: How likely something is to be seen at each pixel, from 0 to 1.
        side: The side of a patch, in pixels.
        count: N, the number of patches to sample from each picture (systematic sampling: one at random, the others at
            equal distances in the sum of the rates).
        key: A random key.

    Returns:
        The sample. A patch next to one where something is seen counts like it.
    """
    cells = seen.shape[1] // side
    window = (1, 3 * side, 3 * side)
    padding = ((0, 0), (side, side), (side, side))
    near = jax.lax.reduce_window(jax.lax.stop_gradient(seen), 0.0, jax.lax.max, window, (1, side, side), padding)
    rate = near.reshape(seen.shape[0], cells**2) + SAMPLED
    rate = rate * (count / rate.sum(-1, keepdims=True))
    at = jax.random.uniform(key, (seen.shape[0], 1)) + jnp.arange(count)
    find = jax.vmap(lambda total, at: jnp.searchsorted(total, at, method="compare_all"))
    index = jnp.minimum(find(jnp.cumsum(rate, -1), at), cells**2 - 1)
    return Patches(index, 1.0 / jnp.take_along_axis(rate, index, axis=1), side)
