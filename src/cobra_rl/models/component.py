"""The component VAE, shared by all slots: q(z_k | x, m_k) and the spatial broadcast decoder p(x, c | z_k).

`ConvEncoder` and `BroadcastDecoder` are MONet's. `GlimpseEncoder` and `CentredDecoder` are ours, for the laptop: they
are told what MONet has to find out, that a thing has a place and looks the same wherever it is.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.models import nets
from cobra_rl.models.nets import MLP, Conv, Lattice, Linear, coordinates
from cobra_rl.models.vision import PLACE

Drawn = tuple[Float[Array, "B H W 3"], Float[Array, "B H W"]]  # RGB means and mask logits
relu = jax.nn.relu


class ConvEncoder(eqx.Module):
    """Strided convolutions over the image and the log-mask, then an MLP."""

    convs: list[Conv]
    head: MLP

    def __init__(self, size: int, latents: int, hidden: int, key: PRNGKeyArray):
        keys = jax.random.split(key, 5)
        widths = (4, 32, 32, 64, 64)
        self.convs = [Conv(widths[i], widths[i + 1], keys[i], stride=2) for i in range(4)]
        self.head = MLP(((size // 16) ** 2 * widths[-1], hidden, 2 * latents), keys[4])

    def __call__(self, x: Float[Array, "B H W 3"], mask: Float[Array, "B H W"]) -> Float[Array, "B P"]:
        """Means and log-variances, P = 2M."""
        x = jnp.concatenate([x, jnp.log(mask + 1e-5)[..., None]], -1)
        for conv in self.convs:
            x = relu(conv(x))
        return self.head(x.reshape(x.shape[0], -1))


class GlimpseEncoder(eqx.Module):
    """The mask in a window around its centroid, the mean colour under it and its moments, then an MLP.

    A linear map carries colour and moments to the posterior means as well, and the centroid goes to the latents of
    PLACE: the decoder is told where, of what colour and of what shape a thing is from the first step on.
    """

    head: MLP
    skip: Linear
    window: int = eqx.field(static=True)

    def __init__(self, latents: int, window: int, hidden: int, key: PRNGKeyArray):
        head_key, skip_key = jax.random.split(key)
        self.head = MLP((window**2 + 14, hidden, hidden, 2 * latents), head_key, last_gain=0.3)
        self.skip = Linear(7, latents - 2, skip_key, gain=6.0)
        self.window = window

    def __call__(self, x: Float[Array, "B H W 3"], mask: Float[Array, "B H W"]) -> Float[Array, "B P"]:
        """Means and log-variances, P = 2M."""
        size = mask.shape[1]
        area = mask.sum((1, 2))[:, None]
        share = mask / (area + 2.0)[:, None]  # an empty mask gives zeros, not noise
        place = coordinates(size)
        centroid = jnp.einsum("bhw,hwc->bc", share, place)
        color = jnp.einsum("bhw,bhwc->bc", share, x)
        at = nets.nearest_corner(centroid, size)
        glimpse = nets.cut_windows(mask[..., None], at, self.window).reshape(mask.shape[0], -1)
        shift = 0.25 * size * (nets.corner_place(at, size) - centroid)  # lost by rounding, about [-1, 1]
        second, third, fourth = _moments(jnp.clip(8.0 * (place - centroid[:, None, None]), -2.5, 2.5), share)
        summary = jnp.concatenate([color, third, fourth], -1)
        everything = [glimpse, shift, centroid, summary, second, jnp.log(area + 2.0) / 4.0]
        mean, log_var = jnp.split(self.head(jnp.concatenate(everything, -1)), 2, axis=-1)
        direct = jnp.concatenate([PLACE.from_canvas(centroid), self.skip(summary)], -1)
        return jnp.concatenate([mean + direct, log_var], -1)


def _moments(offset: Float[Array, "B h w 2"], share: Float[Array, "B h w"]) -> list[Float[Array, "B 2"]]:
    """Mean of (x + iy)^n under the mask, n = 2, 3, 4: stretch, and the directions of a triangle and of a square."""
    x, y = offset[..., 0], offset[..., 1]
    real, imaginary, moments = x, y, []
    for scale in (1.0, 1.0, 2.0):
        real, imaginary = real * x - imaginary * y, real * y + imaginary * x
        moment = jnp.stack([jnp.sum(part * share, axis=(1, 2)) for part in (real, imaginary)], axis=-1)
        moments.append(jnp.tanh(scale * moment))  # bounded for a mask of any size
    return moments


class BroadcastDecoder(eqx.Module):
    """MONet's spatial broadcast decoder: latents and coordinates at every pixel -> RGB means and a mask logit."""

    latent_in: Linear
    place_in: Float[Array, "2 F"]
    layers: list[Conv]
    out: Linear
    size: int = eqx.field(static=True)

    def __init__(self, size: int, latents: int, width: int, layers: int, key: PRNGKeyArray):
        latent_key, place_key, out_key, layer_key = jax.random.split(key, 4)
        self.latent_in = Linear(latents, width, latent_key, gain=1.0)
        # Coordinates start three times as large as usual, so that hidden units tell neighbouring pixels apart.
        self.place_in = 3.0 * Linear(2, width, place_key, gain=1.0).weight
        self.layers = [Conv(width, width, k) for k in jax.random.split(layer_key, layers)]
        self.out = Linear(width, 4, out_key, gain=0.3)
        self.size = size

    def __call__(self, z: Float[Array, "B M"], lattice: Lattice | None = None) -> Drawn:
        """RGB means and mask logits. The first layer is in closed form: latents need not be broadcast before it."""
        if lattice is not None:
            raise ValueError("MONet's decoder draws whole pictures and no lattice; train with --config.lattice 1.")
        x = relu(coordinates(self.size) @ self.place_in + self.latent_in(z)[:, None, None])
        for layer in self.layers:
            x = relu(layer(x))
        x = self.out(x)
        return x[..., :3], x[..., 3]


class CentredDecoder(eqx.Module):
    """A spatial broadcast decoder that draws patches of pixels relative to a centre, the latents of PLACE.

    An MLP of the latents gives each hidden unit of the first layer its weights on the coordinates relative to the
    centre and its bias: half-planes, of which the 1x1 convolutions after it put together any shape at any angle.
    """

    half_planes: MLP
    layers: list[Linear]
    out: Linear
    size: int = eqx.field(static=True)
    patch: int = eqx.field(static=True)

    def __init__(self, size: int, latents: int, width: int, layers: int, patch: int, key: PRNGKeyArray):
        plane_key, layer_key, out_key = jax.random.split(key, 3)
        self.half_planes = MLP((latents, 128, 128, 3 * width), plane_key, last_gain=2.0)
        self.layers = [Linear(width, width, k) for k in jax.random.split(layer_key, layers)]
        self.out = Linear(width, 4 * patch**2, out_key, gain=0.3)
        self.size, self.patch = size, patch

    def __call__(self, z: Float[Array, "B M"], lattice: Lattice | None = None) -> Drawn:
        """RGB means and mask logits; with a lattice, only of its patches, side by side."""
        planes = self.half_planes(z).reshape(z.shape[0], 3, -1)
        direction = 4.0 * planes[:, :2]  # sprites are small
        bias = planes[:, 2] - jnp.einsum("bc,bcf->bf", PLACE.canvas(z), direction)
        place = coordinates(self.size // self.patch)
        if lattice is not None:
            place = lattice.thin(place)
        x = relu(jnp.einsum("nc,bcf->bnf", place.reshape(-1, 2), direction) + bias[:, None])
        x = x.reshape(z.shape[0], *place.shape[:2], -1)
        for layer in self.layers:
            x = relu(layer(x))
        x = nets.depth_to_space(self.out(x), self.patch)
        return x[..., :3], x[..., 3]
