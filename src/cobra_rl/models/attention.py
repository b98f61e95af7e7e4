"""Attention networks, which decide which pixels belong to which slot.

Both networks use MONet's recurrence. The scope s_k is the part of each pixel that no slot has taken
yet (s_0 = 1); slot k takes the share alpha_k of it, m_k = s_k alpha_k, and leaves
s_{k+1} = s_k (1 - alpha_k); the last slot takes the rest. The two networks differ in the input of the U-Net that
computes alpha_k.

`ScopeAttention` is MONet's: the U-Net sees the whole image and the log-scope. It has to learn which
object comes next, and that takes most of MONet's training. `SeededAttention` is ours, for preset
laptop: after slot 0, each step picks a seed, the pixel around which the scope is largest, and the
U-Net sees a window around it: the image, the scope, and how each pixel's colour differs from the
seed's. It only has to learn which pixels belong to the seed's object.
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
MIN_SALIENCY = 0.02  # below this, nothing is left to see
RADIUS = 2  # of what counts as beside a pixel, in pixels


class ScopeAttention(eqx.Module):
    """MONet's attention network."""

    unet: MonetUNet

    def __init__(self, channels: tuple[int, ...], key: PRNGKeyArray, *, size: int, width: int):
        """`size` is the side of a picture, `width` the width of the MLP at the bottom of the U-Net."""
        self.unet = MonetUNet(4, channels, key, cells=(size // 2 ** (len(channels) - 1)) ** 2, width=width)

    def __call__(self, x: Image, slots: int, key: PRNGKeyArray | None) -> LogMasks:
        """Return log m_k; this is deterministic, and the key is not used."""
        log_scope = jnp.zeros(x.shape[:3])
        log_masks = []
        for _ in range(slots - 1):
            logit = self.unet(jnp.concatenate([x, jnp.maximum(log_scope, -10.0)[..., None]], -1))
            log_mask, log_scope = split_scope(log_scope, logit)
            log_masks.append(log_mask)
        return jnp.stack([*log_masks, log_scope], axis=1)


class SeededAttention(eqx.Module):
    """Our attention network: windows around seeds. Slot 0, the background, uses the whole image and no seed."""

    background: UNet
    stem: Conv
    unet: UNet
    window: int = eqx.field(static=True)

    def __init__(self, channels: tuple[int, ...], key: PRNGKeyArray, *, window: int):
        """`window` is the side of a glimpse in pixels."""
        background_key, stem_key, unet_key = jax.random.split(key, 3)
        self.background = UNet(4 * 3, (12, 16, 16), background_key, patch=2)
        self.stem = Conv(4 * 7 + 2, channels[0], stem_key)
        self.unet = UNet(channels[0], channels, unet_key, patch=2)
        self.window = window

    def __call__(self, x: Image, slots: int, key: PRNGKeyArray | None) -> LogMasks:
        """Return log m_k. With a key, as in training, seeds are drawn at random among pixels with a large scope.

        Without a key, the recurrence ends as soon as the scope of all scenes is empty
        (MIN_SALIENCY), since most scenes have fewer objects than slots. The remaining slots get
        empty masks, and the last one, as always, gets the rest. In 1,800 scenes of the shipped
        world, latents differ by less than 1e-5 from those of the full recurrence and masks of
        objects by less than 1e-6; only single pixels that nobody took change from one empty slot to
        another. And no seed lies beside an earlier one (inhibition of return): else a seed between
        two objects, whose glimpse takes neither, would be picked for ever.
        """
        log_mask, log_scope = split_scope(0.0, self.background(space_to_depth(x, 2)))
        if key is not None:
            log_masks = [log_mask]
            for seed_key in jax.random.split(key, slots - 2):
                seed = pick_seed(self._left(log_scope), seed_key)
                log_mask, log_scope = self._take(x, log_scope, seed)
                log_masks.append(log_mask)
            return jnp.stack([*log_masks, log_scope], axis=1)

        def more(state: tuple[Array, Plane, LogMasks, Plane]) -> Array:
            k, log_scope, _, fresh = state
            return (k < slots - 1) & (jnp.max(self._left(log_scope) * fresh) > MIN_SALIENCY)

        def take(state: tuple[Array, Plane, LogMasks, Plane]) -> tuple[Array, Plane, LogMasks, Plane]:
            k, log_scope, log_masks, fresh = state
            seed = pick_seed(self._left(log_scope) * fresh, None)
            log_mask, log_scope = self._take(x, log_scope, seed)
            log_masks = jax.lax.dynamic_update_index_in_dim(log_masks, log_mask, k, 1)
            return k + 1, log_scope, log_masks, fresh * (1.0 - around(seed, x.shape[1]))

        nothing = jnp.full((x.shape[0], slots, *x.shape[1:3]), 2 * OUTSIDE).at[:, 0].set(log_mask)
        _, log_scope, log_masks, _ = jax.lax.while_loop(
            more, take, (jnp.int32(1), log_scope, nothing, jnp.ones(x.shape[:3]))
        )
        return log_masks.at[:, -1].set(log_scope)

    def greedy(self) -> "SeededAttention":
        """Return the same with a larger last bias, so that glimpses take most of what they see at first.

        Else the last slot, which takes the rest, may learn to draw everything before glimpses have
        learnt to take anything; the faster the decoder learns, the likelier.
        """
        return eqx.tree_at(lambda net: net.unet.out.bias, self, self.unet.out.bias + 2.0)

    def _left(self, log_scope: Plane) -> Plane:
        return saliency(jax.lax.stop_gradient(jnp.exp(log_scope)))

    def _take(self, x: Image, log_scope: Plane, seed: Int[Array, "B 2"]) -> tuple[Plane, Plane]:
        """Take a slot's share from the scope: return its log-mask and the log-scope that it leaves."""
        return split_scope(log_scope, self._glimpse(x, jax.lax.stop_gradient(jnp.exp(log_scope)), seed))

    def _glimpse(self, x: Image, scope: Plane, seed: Int[Array, "B 2"]) -> Plane:
        """Return the logit of alpha_k: the U-Net's output in the window around the seed, OUTSIDE elsewhere."""
        half = self.window // 2
        glimpse = cut_windows(jnp.concatenate([x, scope[..., None]], -1), seed, self.window)
        to_seed = glimpse[..., :3] - glimpse[:, half : half + 1, half : half + 1, :3]  # how colours differ from its own
        features = space_to_depth(jnp.concatenate([glimpse[..., :3], to_seed, glimpse[..., 3:] - 0.5], -1), 2)
        place = jnp.broadcast_to(coordinates(features.shape[1]), (*features.shape[:3], 2))
        logit = self.unet(jax.nn.relu(self.stem(jnp.concatenate([features, place], -1))))
        canvas = jnp.full((x.shape[1] + self.window, x.shape[1] + self.window), OUTSIDE)
        paste = jax.vmap(lambda logit, at: jax.lax.dynamic_update_slice(canvas, logit, (at[0], at[1])))
        return paste(logit, seed)[:, half:-half, half:-half]


def split_scope(log_scope: Plane | float, logit: Plane) -> tuple[Plane, Plane]:
    """Return log m_k = log(s_k alpha_k) and log s_{k+1} = log(s_k (1 - alpha_k)), for alpha_k = sigmoid(logit)."""
    return log_scope + jax.nn.log_sigmoid(logit), log_scope + jax.nn.log_sigmoid(-logit)


def pick_seed(score: Plane, key: PRNGKeyArray | None) -> Int[Array, "B 2"]:
    """Return (row, column) of the most salient pixel; with a key, choose at random among the salient pixels."""
    if key is not None:
        score = score * jax.random.uniform(key, score.shape, minval=0.5, maxval=1.0)
    flat = jnp.argmax(score.reshape(score.shape[0], -1), axis=-1)
    return jnp.stack([flat // score.shape[2], flat % score.shape[2]], axis=-1)


def around(seed: Int[Array, "B 2"], size: int) -> Plane:
    """Return 1 at the pixels that lie beside a seed, or are it, and 0 elsewhere."""
    near = jnp.abs(jnp.arange(size) - seed[:, :, None]) <= RADIUS  # [B, 2, H]
    return (near[:, 0, :, None] & near[:, 1, None, :]).astype(jnp.float32)


def saliency(scope: Plane) -> Plane:
    """Return how much scope is left at and around each pixel: 1 within an object that no slot has taken yet."""
    return _blur(scope) * (scope + 0.01)


def _blur(image: Plane, radius: int = RADIUS) -> Plane:
    """Average over a square around each pixel, with zeros outside the image."""
    for axis in (1, 2):
        padding = [(radius, radius) if i == axis else (0, 0) for i in range(3)]
        padded = jnp.pad(image, padding)
        ends = range(image.shape[axis], padded.shape[axis] + 1)
        shifted = [jax.lax.slice_in_dim(padded, i, end, axis=axis) for i, end in enumerate(ends)]
        image = sum(shifted[1:], start=shifted[0]) / len(shifted)
    return image
