"""MONet, the vision module of COBRA: V_enc, V_dec and the loss that trains them.

An attention network divides the image into K masks; a component VAE, shared by all slots, explains
each masked part with M latents (Burgess et al. 2019; COBRA's appendix "Vision Module").
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.bounds import Bounds, Positive, Width
from cobra_rl.models.attention import ScopeAttention, SeededAttention
from cobra_rl.models.component import (
    FACTOR_NAMES,
    SHAPE,
    BroadcastDecoder,
    ConvEncoder,
    FactoredDecoder,
    FactoredEncoder,
)
from cobra_rl.models.free import CentredDecoder, FreeEncoder, PatchDecoder, Patches, sample_patches
from cobra_rl.models.nets import Lattice, Loss
from cobra_rl.models.vision import (
    PLACE,
    PLACE_NAMES,
    Decoded,
    Images,
    LossWeights,
    Place,
    Slots,
    VisionModel,
    VisionModelConfig,
)

Rgb = tuple[Positive, Positive, Positive]
Channels = Annotated[tuple[Width, ...], Bounds(1, 8)]
Window = Annotated[int, Bounds(0, 1024)]  # side in pixels; 0: none


@dataclass(frozen=True)
class MonetConfig(VisionModelConfig):
    """The vision module MONet. The class defaults are the paper's; presets may override them."""

    rgb_scale: Rgb = (1.25, 1.0, 0.75)  # factors of the RGB channels; if they differ, colour latents emerge earlier
    sigma_bg: Positive = 0.08  # standard deviation of the pixel likelihood in slot 0
    sigma_fg: Positive = 0.15  # standard deviation of the pixel likelihood in the other slots
    attention_channels: Channels = (32, 32, 64, 64, 64)  # channels of each level of the U-Net
    attention_window: Window = 0  # 0: attention to the whole image (MONet); else side of seeded glimpses, in pixels
    attention_mlp: Width = 128  # width of the MLP at the bottom of MONet's U-Net
    encoder_window: Window = 0  # 0: strided convolutions (MONet); else side of the mask's window, in pixels
    encoder_hidden: Width = 256  # width of the MLP that gives the posterior
    decoder_width: Width = 32  # channels of the decoder
    decoder_layers: Annotated[int, Bounds(1, 64)] = 3  # number of convolutions in the decoder: 3x3, in ours 1x1
    decoder_patch: Window = 0  # 0: MONet's decoder; else side of the patches that our decoder draws, in pixels
    decoder_frame: Literal["factored", "picture", "slot"] = "factored"
    """With encoder_window and decoder_patch. factored: each latent is assigned to a factor; else latents are free, and
    picture: the decoder sees coordinates of the picture; slot: relative to the slot's centre, latents 0 and 1."""
    loss_patches: Annotated[int, Bounds(0, 65_536)] = 0  # patches from which the loss is estimated, if free; 0: all

    def __post_init__(self) -> None:
        super().__post_init__()
        halved = 2 ** (len(self.attention_channels) - (0 if self.attention_window else 1))  # by the levels of the U-Net
        sides = math.lcm(halved, 1 if self.encoder_window else 16, self.decoder_patch or 1)
        for name, step in (("size", sides), ("attention_window", halved)):
            if (value := getattr(self, name)) % step:
                raise ValueError(
                    f"{name} of MonetConfig is {value}; it must be a multiple of {step}, as attention_channels, "
                    "encoder_window and decoder_patch are."
                )
        if self.free:
            if not (self.encoder_window and self.decoder_patch and self.latents > 2):
                raise ValueError(
                    f"decoder_frame of MonetConfig is {self.decoder_frame!r}; that needs encoder_window and "
                    "decoder_patch above 0 and latents above 2."
                )
        elif self.loss_patches:
            raise ValueError("loss_patches of MonetConfig is above 0; that needs decoder_frame picture or slot.")
        elif self.latents <= SHAPE and (self.encoder_window or self.decoder_patch):
            raise ValueError(
                f"latents of MonetConfig is {self.latents}; place, colour, size and angle are {SHAPE} and the rest is "
                f"shape: give at least {SHAPE + 1}."
            )

    @property
    def free(self) -> bool:
        """Whether encoder and decoder are those of `free.py`, which assign no latent to a factor."""
        return self.decoder_frame != "factored"


class Monet(VisionModel):
    """Attention network and component VAE."""

    attention: ScopeAttention | SeededAttention
    encoder: ConvEncoder | FactoredEncoder | FreeEncoder
    decoder: BroadcastDecoder | FactoredDecoder | PatchDecoder
    config: MonetConfig = eqx.field(static=True)

    def __init__(self, config: MonetConfig, key: PRNGKeyArray):
        c = self.config = config  # pyright: ignore[reportIncompatibleVariableOverride]
        attention_key, encoder_key, decoder_key = jax.random.split(key, 3)
        self.attention = (
            SeededAttention(c.attention_channels, attention_key, window=c.attention_window)
            if c.attention_window
            else ScopeAttention(c.attention_channels, attention_key, size=c.size, width=c.attention_mlp)
        )
        window = {"window": c.encoder_window, "hidden": c.encoder_hidden}
        layers = {"width": c.decoder_width, "layers": c.decoder_layers}
        if c.free:
            own_frame = c.decoder_frame == "slot"
            decoder = CentredDecoder if own_frame else PatchDecoder
            self.encoder = FreeEncoder(c.latents, encoder_key, **window, own_frame=own_frame)
            self.decoder = decoder(c.size, c.latents, decoder_key, **layers, patch=c.decoder_patch)
            if isinstance(self.attention, SeededAttention):
                self.attention = self.attention.greedy()
            return
        self.encoder = (
            FactoredEncoder(c.latents, encoder_key, **window)
            if c.encoder_window
            else ConvEncoder(c.latents, encoder_key, size=c.size, hidden=c.encoder_hidden)
        )
        self.decoder = (
            FactoredDecoder(c.size, c.latents, decoder_key, **layers, patch=c.decoder_patch)
            if c.decoder_patch
            else BroadcastDecoder(c.size, c.latents, decoder_key, **layers)
        )

    @property
    def place(self) -> Place | None:
        """Where a slot is: two latents are the centre around which our decoder draws; MONet's has no such latents."""
        return PLACE if self.config.decoder_patch and self.config.decoder_frame != "picture" else None

    @property
    def latent_names(self) -> list[str]:
        """Name the latents after their factors, if encoder and decoder assign each latent to a factor."""
        if self.config.free or not (self.config.encoder_window and self.config.decoder_patch):
            return super().latent_names
        return [*PLACE_NAMES, *FACTOR_NAMES, *(f"shape {index + 1}" for index in range(self.config.latents - SHAPE))]

    @property
    def patch(self) -> int:
        """The side in pixels of the patches that our decoder draws separately; 0 with MONet's."""
        return self.config.decoder_patch

    @eqx.filter_jit
    def masks(self, images: Images) -> Float[Array, "B K H W"]:
        """Return the attention masks m_k; they sum to 1 over the slots."""
        return jnp.exp(self.attention(self._preprocess(images), self.config.slots, None))

    @eqx.filter_jit
    def encode(self, images: Images) -> Slots:
        """V_enc: return the posterior means of all slots."""
        x = self._preprocess(images)
        encode = jax.vmap(lambda mask: self._posterior(x, mask)[0], in_axes=1, out_axes=1)
        return encode(jnp.exp(self.attention(x, self.config.slots, None)))

    @eqx.filter_jit
    def decode(self, slots: Slots, lattice: Lattice | None = None) -> Decoded:
        """V_dec: sum the components, weighted by the decoder's own masks; with a lattice, draw only its patches."""
        drawn = [self.decoder(slots[:, k], lattice) for k in range(slots.shape[1])]
        components = jnp.stack([component for component, _ in drawn], axis=1) / jnp.array(self.config.rgb_scale)
        masks = jax.nn.softmax(jnp.stack([logit for _, logit in drawn], axis=1), axis=1)
        return Decoded((components * masks[..., None]).sum(1), components, masks)

    def loss(self, images: Images, key: PRNGKeyArray, weights: LossWeights, slots: int | None = None) -> Loss:
        """Return -log p(x | z, m) + beta KL(q(z | x, m) || N(0, 1)) + gamma KL(m || p(c | z)), in nats per image.

        Args:
            images: Images uint8 [B, H, W, 3].
            key: The random key of the latents and, in our attention, of the seeds.
            weights: beta and gamma.
            slots: The number of slots to use, by default K.

        Returns:
            The mean over images, and the metrics `loss`, `nll`, `kl_latents` and `kl_masks`.
        """
        x = self._preprocess(images)
        slots = self.config.slots if slots is None else slots
        seed_key, *noise_keys = jax.random.split(key, slots + 1)
        log_masks = self.attention(x, slots, seed_key)  # log q(c = k | x)
        masks = jnp.exp(log_masks)
        draw: Callable[[Array], tuple[Array, Array]] = self.decoder
        pixels = x
        weight: Array | float = 1.0
        if self.config.loss_patches:
            sample_key = jax.random.fold_in(key, slots)
            sample = sample_patches(
                1.0 - masks[:, 0], self.config.decoder_patch, self.config.loss_patches, key=sample_key
            )
            draw = self._at(sample)
            pixels = sample.take(x)
            weight = sample.weight[..., None]
            log_masks = jax.vmap(lambda plane: sample.take(plane[..., None])[..., 0], 1, 1)(log_masks)
        log_pixels = []
        logits = []
        kl_z = 0.0
        for k in range(slots):
            mean, log_var = self._posterior(x, masks[:, k])
            z = mean + jnp.exp(0.5 * log_var) * jax.random.normal(noise_keys[k], mean.shape)
            component, logit = draw(z)
            sigma = self.config.sigma_fg if k else self.config.sigma_bg
            error = ((pixels - component) / sigma) ** 2
            log_pixels.append(-0.5 * jnp.sum(error + jnp.log(2 * jnp.pi * sigma**2), axis=-1))
            logits.append(logit)
            kl_z += 0.5 * jnp.sum(mean**2 + jnp.exp(log_var) - log_var - 1.0, axis=-1)
        log_mixture = jax.nn.logsumexp(log_masks + jnp.stack(log_pixels, axis=1), axis=1)  # log sum_k m_k p(x | z_k)
        log_prior = jax.nn.log_softmax(jnp.stack(logits, axis=1), axis=1)  # log p(c = k | z)
        nll = -jnp.sum(weight * log_mixture, axis=(1, 2)).mean()
        kl_pixels = jnp.sum(jnp.exp(log_masks) * (log_masks - log_prior), axis=1)
        kl_masks = jnp.sum(weight * kl_pixels, axis=(1, 2)).mean()
        kl_latents = jnp.mean(kl_z)
        total = nll + weights.beta * kl_latents + weights.gamma * kl_masks
        return total, {"loss": total, "nll": nll, "kl_latents": kl_latents, "kl_masks": kl_masks}

    def _at(self, sample: Patches) -> Callable[[Float[Array, "B M"]], tuple[Array, Array]]:
        """Return V_dec for a sample of patches: means [B, N, P, 3] and mask logits [B, N, P]."""
        assert isinstance(self.decoder, PatchDecoder)
        draw = self.decoder.draw
        place = sample.place(self.config.size)

        def at_patches(z: Float[Array, "B M"]) -> tuple[Array, Array]:
            drawn = draw(z, place)
            return drawn[..., :3], drawn[..., 3]

        return at_patches

    def _preprocess(self, images: Images) -> Float[Array, "B H W 3"]:
        return images.astype(jnp.float32) / 255.0 * jnp.array(self.config.rgb_scale)

    def _posterior(self, x: Float[Array, "B H W 3"], mask: Float[Array, "B H W"]) -> list[Float[Array, "B M"]]:
        """Return mean and log-variance of q(z_k | x, m_k)."""
        mean, log_var = jnp.split(self.encoder(x, mask), 2, axis=-1)
        return [mean, jnp.clip(log_var, -12.0, 4.0)]
