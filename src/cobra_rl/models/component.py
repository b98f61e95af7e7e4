"""The component VAE, shared by all slots: q(z_k | x, m_k) and the spatial broadcast decoder p(x, c | z_k).

`ConvEncoder` is MONet's; `PooledEncoder` is ours, for the laptop. Only the inference network differs.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.models.nets import MLP, Conv, Linear, coordinates, depth_to_space, space_to_depth

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


class PooledEncoder(eqx.Module):
    """Features of every 2 x 2 cell averaged with the mask as weight, then an MLP.

    A cell is described by its mask, its masked colours and its place relative to the mask's centroid. What the mask and
    the colours say by themselves (centroid, mean colour, moments of the shape) also reaches the posterior mean through
    a linear map that starts large, so that the decoder is told where, of what colour and of what shape a thing is from
    the first step on.
    """

    cell: MLP
    head: MLP
    skip: Linear

    def __init__(self, latents: int, width: int, hidden: int, key: PRNGKeyArray):
        cell_key, head_key, skip_key = jax.random.split(key, 3)
        self.cell = MLP((4 + 12 + 2, width // 2, width), cell_key, last_gain=2.0)
        self.head = MLP((width + 12, hidden, hidden, 2 * latents), head_key, last_gain=0.3)
        self.skip = Linear(9, latents, skip_key, gain=8.0)

    def __call__(self, x: Float[Array, "B H W 3"], mask: Float[Array, "B H W"]) -> Float[Array, "B P"]:
        """Means and log-variances, P = 2M."""
        cell_mask = space_to_depth(mask[..., None], 2)  # [B, h, w, 4]
        cell_color = space_to_depth(x * mask[..., None], 2)  # [B, h, w, 12]
        weight = cell_mask.mean(-1)
        area = weight.sum((1, 2))[:, None]  # in cells
        share = weight / (area + 0.5)[:, None]  # an empty mask gives zeros, not noise
        place = coordinates(cell_mask.shape[1])
        centroid = jnp.einsum("bhw,hwc->bc", share, place)
        color = cell_color.reshape(*cell_color.shape[:3], 4, 3).mean(3).sum((1, 2)) / (area + 0.5)
        offset = 8.0 * (place - centroid[:, None, None])  # about 1 at the edge of a sprite
        cells = jnp.concatenate([cell_mask, cell_color, jnp.clip(offset, -2.0, 2.0)], -1)
        pooled = jnp.einsum("bhwf,bhw->bf", relu(self.cell(cells)), share)
        second, third, fourth = _moments(jnp.clip(offset, -2.5, 2.5), share)
        summary = jnp.concatenate([centroid, color, third, fourth], -1)
        everything = jnp.concatenate([pooled, summary, second, jnp.log(area + 0.5) / 3.0], -1)
        mean, log_var = jnp.split(self.head(everything), 2, axis=-1)
        return jnp.concatenate([mean + self.skip(summary), log_var], -1)


def _moments(offset: Float[Array, "B h w 2"], share: Float[Array, "B h w"]) -> list[Float[Array, "B 2"]]:
    """Mean of (x + iy)^n under the mask, n = 2, 3, 4: stretch, and the directions of a triangle and of a square.

    Of the order of 1 for a sprite, bounded for a mask of any size.
    """
    x, y = offset[..., 0], offset[..., 1]
    real, imaginary, moments = x, y, []
    for scale in (1.0, 1.0, 2.0):
        real, imaginary = real * x - imaginary * y, real * y + imaginary * x
        moment = jnp.stack([jnp.sum(part * share, axis=(1, 2)) for part in (real, imaginary)], axis=-1)
        moments.append(jnp.tanh(scale * moment))
    return moments


class BroadcastDecoder(eqx.Module):
    """Spatial broadcast decoder: latents and coordinates at every cell -> RGB means and a mask logit.

    With `posed`, the latents also shift the weights on the coordinates, so that hidden units of the first layer are
    half-planes whose place and direction depend on the latents; the layers then are 1x1 convolutions.
    """

    latent_in: Linear
    place_in: Float[Array, "2 F"]
    pose: MLP | None
    layers: list[Conv] | list[Linear]
    out: Linear
    size: int = eqx.field(static=True)
    patch: int = eqx.field(static=True)

    def __init__(self, size: int, latents: int, width: int, layers: int, patch: int, posed: bool, key: PRNGKeyArray):
        latent_key, place_key, pose_key, out_key, layer_key = jax.random.split(key, 5)
        self.latent_in = Linear(latents, width, latent_key, gain=1.0)
        # Coordinates start three times as large as usual, so that hidden units tell neighbouring cells apart.
        self.place_in = 3.0 * Linear(2, width, place_key, gain=1.0).weight
        self.pose = MLP((latents, 64, 3 * width), pose_key) if posed else None
        keys = jax.random.split(layer_key, layers)
        self.layers = [Linear(width, width, k) for k in keys] if posed else [Conv(width, width, k) for k in keys]
        self.out = Linear(width, 4 * patch**2, out_key, gain=0.3)
        self.size, self.patch = size, patch

    def __call__(self, z: Float[Array, "B M"]) -> tuple[Float[Array, "B H W 3"], Float[Array, "B H W"]]:
        """RGB means and mask logits. The first layer is in closed form: latents need not be broadcast before it."""
        cells = self.size // self.patch
        place = jnp.concatenate([coordinates(cells).reshape(-1, 2), jnp.ones((cells**2, 1))], -1)
        place_in = jnp.broadcast_to(self.place_in, (z.shape[0], *self.place_in.shape))
        weight = jnp.concatenate([place_in, self.latent_in(z)[:, None]], 1)  # [B, 3, F]
        if self.pose is not None:
            weight = weight + self.pose(z).reshape(weight.shape)
        x = relu(jnp.einsum("nc,bcf->bnf", place, weight)).reshape(z.shape[0], cells, cells, -1)
        for layer in self.layers:
            x = relu(layer(x))
        x = depth_to_space(self.out(x), self.patch)
        return x[..., :3], x[..., 3]
