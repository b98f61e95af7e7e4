"""Attention networks, which decide which pixels belong to which slot.

Both networks use MONet's recurrence. The scope s_k is the part of each pixel that no slot has taken yet (s_0 = 1); slot
k takes the share alpha_k of it, m_k = s_k alpha_k, and leaves s_{k+1} = s_k (1 - alpha_k); the last slot takes the
rest. The two networks differ in the input of the U-Net that computes alpha_k.

`ScopeAttention` is MONet's: the U-Net sees the whole image and the log-scope. It has to learn which object comes next,
and that takes most of MONet's training. `SeededAttention` is ours, for preset laptop: after slot 0, each step picks a
seed, the pixel around which the scope is largest, and the U-Net sees a window around it: the image, the scope, and how
each pixel's colour differs from the seed's. It only has to learn which pixels belong to the seed's object.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cobra_rl.models.nets import Conv, MonetUNet, UNet, coordinates, cut_windows, space_to_depth

Image = Float[Array, "B H W 3"]  # or a window of one
Plane = Float[Array, "B H W"]
LogMasks = Float[Array, "B K H W"]
OUTSIDE = -15.0  # logit of alpha outside the glimpse
EMPTY = 0.02  # saliency below which nothing is left to see


class ScopeAttention(eqx.Module):
    """MONet's attention network."""

    unet: MonetUNet

    def __init__(self, size: int, channels: tuple[int, ...], mlp: int, key: PRNGKeyArray):
        cells = (size // 2 ** (len(channels) - 1)) ** 2
        self.unet = MonetUNet(4, channels, cells, mlp, key)

    def __call__(self, x: Image, slots: int, key: PRNGKeyArray | None) -> LogMasks:
        """Return log m_k; this is deterministic, and the key is not used."""
        log_scope, log_masks = jnp.zeros(x.shape[:3]), []
        for _ in range(slots - 1):
            logit = self.unet(jnp.concatenate([x, jnp.maximum(log_scope, -10.0)[..., None]], -1))
            log_masks.append(log_scope + jax.nn.log_sigmoid(logit))
            log_scope = log_scope + jax.nn.log_sigmoid(-logit)
        return jnp.stack([*log_masks, log_scope], axis=1)


class SeededAttention(eqx.Module):
    """Our attention network: windows around seeds. Slot 0, the background, uses the whole image and no seed."""

    background: UNet
    stem: Conv
    unet: UNet
    window: int = eqx.field(static=True)

    def __init__(self, channels: tuple[int, ...], window: int, key: PRNGKeyArray):
        background_key, stem_key, unet_key = jax.random.split(key, 3)
        self.background = UNet(4 * 3, (12, 16, 16), 2, background_key)
        self.stem = Conv(4 * 7 + 2, channels[0], stem_key)
        self.unet = UNet(channels[0], channels, 2, unet_key)
        self.window = window

    def __call__(self, x: Image, slots: int, key: PRNGKeyArray | None) -> LogMasks:
        """Return log m_k. With a key, as in training, seeds are drawn at random among pixels with a large scope.

        Without a key, the recurrence ends as soon as the scope of all scenes is empty (EMPTY), since most scenes have
        fewer objects than slots. The remaining slots get empty masks, and the last one, as always, gets the rest. In
        1,800 scenes of the shipped world, latents differ by less than 1e-5 from those of the full recurrence and masks
        of objects by less than 1e-6; only single pixels that nobody took change from one empty slot to another.
        """
        logit = self.background(space_to_depth(x, 2))
        log_mask, log_scope = jax.nn.log_sigmoid(logit), jax.nn.log_sigmoid(-logit)
        if key is not None:
            log_masks = [log_mask]
            for seed_key in jax.random.split(key, slots - 2):
                log_mask, log_scope = self._take(x, log_scope, seed_key)
                log_masks.append(log_mask)
            return jnp.stack([*log_masks, log_scope], axis=1)

        def more(state: tuple[Array, Plane, LogMasks]) -> Array:
            return (state[0] < slots - 1) & (jnp.max(saliency(jnp.exp(state[1]))) > EMPTY)

        def take(state: tuple[Array, Plane, LogMasks]) -> tuple[Array, Plane, LogMasks]:
            k, log_scope, log_masks = state
            log_mask, log_scope = self._take(x, log_scope, None)
            return k + 1, log_scope, jax.lax.dynamic_update_index_in_dim(log_masks, log_mask, k, 1)

        nothing = jnp.full((x.shape[0], slots, *x.shape[1:3]), 2 * OUTSIDE).at[:, 0].set(log_mask)
        _, log_scope, log_masks = jax.lax.while_loop(more, take, (jnp.int32(1), log_scope, nothing))
        return log_masks.at[:, -1].set(log_scope)

    def _take(self, x: Image, log_scope: Plane, key: PRNGKeyArray | None) -> tuple[Plane, Plane]:
        """Return the log-mask that a slot takes from the scope, and the log-scope that it leaves."""
        logit = self._glimpse(x, jax.lax.stop_gradient(jnp.exp(log_scope)), key)
        return log_scope + jax.nn.log_sigmoid(logit), log_scope + jax.nn.log_sigmoid(-logit)

    def _glimpse(self, x: Image, scope: Plane, key: PRNGKeyArray | None) -> Plane:
        """Return the logit of alpha_k: the U-Net's output in the window around the seed, OUTSIDE elsewhere."""
        half, seed = self.window // 2, pick_seed(scope, key)
        glimpse = cut_windows(jnp.concatenate([x, scope[..., None]], -1), seed, self.window)
        logit = self._alpha(glimpse[..., :3], glimpse[..., 3], glimpse[:, half, half, :3])
        canvas = jnp.full((x.shape[1] + self.window, x.shape[1] + self.window), OUTSIDE)
        paste = jax.vmap(lambda logit, at: jax.lax.dynamic_update_slice(canvas, logit, (at[0], at[1])))
        return paste(logit, seed)[:, half:-half, half:-half]

    def _alpha(self, x: Image, scope: Plane, color: Float[Array, "B 3"]) -> Plane:
        """Apply the U-Net to a window that is centred at a seed of the given colour."""
        features = space_to_depth(jnp.concatenate([x, x - color[:, None, None], scope[..., None] - 0.5], -1), 2)
        cells = features.shape[1]
        place = jnp.broadcast_to(coordinates(cells), (*features.shape[:3], 2))
        return self.unet(jax.nn.relu(self.stem(jnp.concatenate([features, place], -1))))


def pick_seed(scope: Plane, key: PRNGKeyArray | None) -> Int[Array, "B 2"]:
    """Return (row, column) of the most salient pixel; with a key, choose at random among the salient pixels."""
    score = saliency(scope)
    if key is not None:
        score = score * jax.random.uniform(key, scope.shape, minval=0.5, maxval=1.0)
    flat = jnp.argmax(score.reshape(scope.shape[0], -1), axis=-1)
    return jnp.stack([flat // scope.shape[2], flat % scope.shape[2]], axis=-1)


def saliency(scope: Plane) -> Plane:
    """Return how much scope is left at and around each pixel: 1 within an object that no slot has taken yet."""
    return _blur(scope) * (scope + 0.01)


def _blur(image: Plane, radius: int = 2) -> Plane:
    """Average over a square around each pixel, with zeros outside the image."""
    for axis in (1, 2):
        padding = [(radius, radius) if i == axis else (0, 0) for i in range(3)]
        padded, length = jnp.pad(image, padding), image.shape[axis]
        shifted = [jax.lax.slice_in_dim(padded, i, i + length, axis=axis) for i in range(2 * radius + 1)]
        image = sum(shifted[1:], start=shifted[0]) / len(shifted)
    return image
