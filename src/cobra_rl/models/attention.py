"""Attention: which pixels belong to which slot.

Both networks are MONet's recurrence: the scope s_k is what no slot has taken yet (s_0 = 1); slot k takes the share
alpha_k of it, m_k = s_k alpha_k, and leaves s_{k+1} = s_k (1 - alpha_k); the last slot takes what is left. They differ
in what the U-Net that gives alpha_k sees.

`ScopeAttention` is MONet's: the whole image and the log-scope. It must settle by itself which object comes next, and
that takes most of MONet's training. `SeededAttention` is ours, for the laptop: after slot 0, each step fixes a seed,
the pixel around which the scope is largest, and looks at a glimpse around it: the image, the scope, and how each
pixel's colour differs from the seed's. What is left to learn is which pixels belong with the seed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cobra_rl.models.nets import Conv, UNet, coordinates, cut_windows, space_to_depth

Image = Float[Array, "B H W 3"]  # or a window of one
Plane = Float[Array, "B H W"]
LogMasks = Float[Array, "B K H W"]
OUTSIDE = -15.0  # logit of alpha outside the glimpse


class ScopeAttention(eqx.Module):
    """MONet's attention network."""

    unet: UNet

    def __init__(self, size: int, channels: tuple[int, ...], mlp: int, key: PRNGKeyArray):
        cells = (size // 2 ** (len(channels) - 1)) ** 2
        self.unet = UNet(4, channels, 1, key, bottom=(cells, mlp))

    def __call__(self, x: Image, slots: int, key: PRNGKeyArray | None) -> LogMasks:
        """log m_k; deterministic, the key is not used."""
        log_scope, log_masks = jnp.zeros(x.shape[:3]), []
        for _ in range(slots - 1):
            logit = self.unet(jnp.concatenate([x, jnp.maximum(log_scope, -10.0)[..., None]], -1))
            log_masks.append(log_scope + jax.nn.log_sigmoid(logit))
            log_scope = log_scope + jax.nn.log_sigmoid(-logit)
        return jnp.stack([*log_masks, log_scope], axis=1)


class SeededAttention(eqx.Module):
    """Attention by glimpses around seeds; slot 0 is taken from the whole image, without a seed."""

    stem: Conv
    unet: UNet
    window: int = eqx.field(static=True)

    def __init__(self, channels: tuple[int, ...], window: int, key: PRNGKeyArray):
        stem_key, unet_key = jax.random.split(key)
        self.stem = Conv(4 * 7 + 3, channels[0], stem_key)
        self.unet = UNet(channels[0], channels, 2, unet_key)
        self.window = window

    def __call__(self, x: Image, slots: int, key: PRNGKeyArray | None) -> LogMasks:
        """log m_k. With a key, as in training, seeds are drawn at random from where the scope is large."""
        keys = [None] * slots if key is None else list(jax.random.split(key, slots))
        logit = self._alpha(x, jnp.ones(x.shape[:3]), None)
        log_masks, log_scope = [jax.nn.log_sigmoid(logit)], jax.nn.log_sigmoid(-logit)
        for k in range(1, slots - 1):
            logit = self._glimpse(x, jax.lax.stop_gradient(jnp.exp(log_scope)), keys[k])
            log_masks.append(log_scope + jax.nn.log_sigmoid(logit))
            log_scope = log_scope + jax.nn.log_sigmoid(-logit)
        return jnp.stack([*log_masks, log_scope], axis=1)

    def _glimpse(self, x: Image, scope: Plane, key: PRNGKeyArray | None) -> Plane:
        """The logit of alpha_k: from the U-Net within the window around the seed, OUTSIDE elsewhere."""
        half, seed = self.window // 2, pick_seed(scope, key)
        glimpse = cut_windows(jnp.concatenate([x, scope[..., None]], -1), seed, self.window)
        logit = self._alpha(glimpse[..., :3], glimpse[..., 3], glimpse[:, half, half, :3])
        canvas = jnp.full((x.shape[1] + self.window, x.shape[1] + self.window), OUTSIDE)
        paste = jax.vmap(lambda logit, at: jax.lax.dynamic_update_slice(canvas, logit, (at[0], at[1])))
        return paste(logit, seed)[:, half:-half, half:-half]

    def _alpha(self, x: Image, scope: Plane, color: Float[Array, "B 3"] | None) -> Plane:
        """The U-Net on a window centred at a seed of the given colour; on the whole image where there is no seed."""
        difference = jnp.zeros_like(x) if color is None else x - color[:, None, None]
        features = space_to_depth(jnp.concatenate([x, difference, scope[..., None] - 0.5], -1), 2)
        cells = features.shape[1]
        place = jnp.zeros((cells, cells, 2)) if color is None else coordinates(cells)
        seeded = jnp.full((cells, cells, 1), 0.0 if color is None else 1.0)
        place = jnp.broadcast_to(jnp.concatenate([place, seeded], -1), (*features.shape[:3], 3))
        return self.unet(jax.nn.relu(self.stem(jnp.concatenate([features, place], -1))))


def pick_seed(scope: Plane, key: PRNGKeyArray | None) -> Int[Array, "B 2"]:
    """(row, column) where the scope is largest in a neighbourhood; with a key, noise chooses among the large ones."""
    score = _blur(scope) * (scope + 0.01)
    if key is not None:
        score = score * jax.random.uniform(key, scope.shape, minval=0.5, maxval=1.0)
    flat = jnp.argmax(score.reshape(scope.shape[0], -1), axis=-1)
    return jnp.stack([flat // scope.shape[2], flat % scope.shape[2]], axis=-1)


def _blur(image: Plane, radius: int = 2) -> Plane:
    """Mean over a square, zero outside the image."""
    for axis in (1, 2):
        padding = [(radius, radius) if i == axis else (0, 0) for i in range(3)]
        padded, length = jnp.pad(image, padding), image.shape[axis]
        shifted = [jax.lax.slice_in_dim(padded, i, i + length, axis=axis) for i in range(2 * radius + 1)]
        image = sum(shifted[1:], start=shifted[0]) / len(shifted)
    return image
