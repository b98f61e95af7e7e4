"""MONet: masks, latents, and each term of the loss against a formula written out."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

from cobra_rl import spriteworld
from cobra_rl.config import VISION
from cobra_rl.environments import fewer_sprites
from cobra_rl.models import attention
from cobra_rl.models.component import BroadcastDecoder
from cobra_rl.models.monet import Monet, MonetConfig
from cobra_rl.models.nets import space_to_depth
from cobra_rl.models.vision import PLACE, LossWeights
from cobra_rl.runs.worlds import load_world

SMALL = {
    "scope": dataclasses.replace(
        MonetConfig(), size=32, slots=3, attention_channels=(4, 4), attention_mlp=8, encoder_hidden=8, decoder_width=4
    ),
    "seeded": dataclasses.replace(
        VISION["laptop"].model, slots=4, attention_channels=(8, 8), decoder_width=8, decoder_layers=1, encoder_hidden=16
    ),
}
FREE = {"slots": 4, "attention_channels": (8, 8), "decoder_width": 8, "decoder_layers": 2, "encoder_hidden": 16}
SMALL |= {
    f"free, {frame}": dataclasses.replace(VISION["learnt"].model, decoder_frame=frame, loss_patches=0, **FREE)
    for frame in ("picture", "slot")
}

first_frames = jax.jit(lambda keys: jax.lax.map(lambda key: spriteworld.make("exploration").reset(key)[1], keys))


def images(count: int = 2, size: int = 64):
    frames = first_frames(jax.random.split(jax.random.key(0), count))
    return frames[:, :: 64 // size, :: 64 // size]


@pytest.fixture(scope="module", params=list(SMALL))
def model(request):
    return eqx.filter_jit(Monet)(SMALL[request.param], jax.random.key(0))


def test_shapes_and_masks(model):
    K, M = model.config.slots, model.config.latents
    size = model.config.size
    x = images(2, size)
    m = model.masks(x)
    assert m.shape == (2, K, size, size)
    np.testing.assert_allclose(m.sum(1), 1.0, atol=1e-5)
    slots = model.encode(x)
    assert slots.shape == (2, K, M)
    np.testing.assert_array_equal(slots, model.encode(x))  # deterministic
    decoded = model.decode(slots)
    np.testing.assert_allclose(decoded.masks.sum(1), 1.0, atol=1e-5)
    np.testing.assert_allclose(decoded.image, (decoded.masks[..., None] * decoded.components).sum(1), atol=1e-5)


def test_a_slot_is_decoded_without_regard_to_its_place(model):
    slots = jax.random.normal(jax.random.key(0), (1, model.config.slots, model.config.latents))
    decoded, turned = model.decode(slots), model.decode(slots[:, ::-1])
    np.testing.assert_allclose(decoded.image, turned.image, atol=1e-5)
    np.testing.assert_allclose(decoded.masks, turned.masks[:, ::-1], atol=1e-5)


def test_the_loss_is_its_formula(model):
    """The three terms, from the model's own masks, posteriors and drawings, in plain NumPy."""
    config = model.config
    frames = images(3, config.size)
    total, metrics = eqx.filter_jit(type(model).loss)(model, frames, jax.random.key(0), LossWeights(0.3, 0.7))

    x = np.asarray(frames) / 255.0 * np.array(config.rgb_scale)
    seed_key, *noise_keys = jax.random.split(jax.random.key(0), config.slots + 1)
    attend, encode, decode = map(eqx.filter_jit, (model.attention, model.encoder, model.decoder))
    log_masks = np.asarray(attend(jnp.asarray(x, jnp.float32), config.slots, seed_key), np.float64)
    log_likelihood, logits, kl_latents = [], [], 0.0
    for k in range(config.slots):
        out = encode(jnp.asarray(x, jnp.float32), jnp.exp(jnp.asarray(log_masks[:, k], jnp.float32)))
        mean, log_var = np.split(np.asarray(out, np.float64), 2, axis=-1)
        log_var = np.clip(log_var, -12, 4)
        noise = np.asarray(jax.random.normal(noise_keys[k], mean.shape))
        component, logit = decode(jnp.asarray(mean + np.exp(log_var / 2) * noise, jnp.float32))
        sigma = 0.08 if k == 0 else 0.15
        log_likelihood.append(scipy.stats.norm.logpdf(x, np.asarray(component), sigma).sum(-1))
        logits.append(np.asarray(logit, np.float64))
        kl_latents += 0.5 * (np.exp(log_var) + mean**2 - 1 - log_var).sum(-1)
    mixture = scipy.special.logsumexp(log_masks + np.stack(log_likelihood, 1), axis=1)
    prior = scipy.special.log_softmax(np.stack(logits, 1), axis=1)
    nll = -mixture.sum((1, 2)).mean()
    kl_masks = scipy.special.rel_entr(np.exp(log_masks), np.exp(prior)).sum((1, 2, 3)).mean()
    np.testing.assert_allclose(metrics["nll"], nll, rtol=1e-4)
    np.testing.assert_allclose(metrics["kl_latents"], kl_latents.mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["kl_masks"], kl_masks, rtol=1e-3)
    np.testing.assert_allclose(total, nll + 0.3 * kl_latents.mean() + 0.7 * kl_masks, rtol=1e-4)


def test_every_weight_learns(model):
    frames = images(4, model.config.size)
    gradients = eqx.filter_jit(eqx.filter_grad(lambda m: m.loss(frames, jax.random.key(0), LossWeights())[0]))(model)
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradients):
        assert np.isfinite(leaf).all()
        if ".border" in jax.tree_util.keystr(path):
            continue  # it learns from things at the border, and fresh masks are everywhere (test_component.py)
        assert np.abs(leaf).max() > 0, jax.tree_util.keystr(path)


def test_seeds_lie_where_the_scope_is():
    scope = jnp.zeros((2, 64, 64)).at[0, 20:30, 40:50].set(1.0).at[1, 5:12, 3:9].set(0.9)
    for key in (None, jax.random.key(0)):
        seed = np.asarray(attention.pick_seed(attention.saliency(scope), key))
        assert 20 <= seed[0, 0] < 30
        assert 40 <= seed[0, 1] < 50
        assert 5 <= seed[1, 0] < 12
        assert 3 <= seed[1, 1] < 9
    middle = np.asarray(attention.pick_seed(attention.saliency(scope), None))[0]
    assert 22 <= middle[0] < 28  # without noise, well inside
    assert 42 <= middle[1] < 48


def test_around_a_seed_are_the_pixels_that_count_for_its_saliency():
    near = np.asarray(attention.around(jnp.array([[10, 20], [0, 63]]), 64))
    assert near[0].sum() == 25
    assert near[0, 8:13, 18:23].all()
    assert near[1].sum() == 9  # in a corner
    alone = jnp.zeros((1, 64, 64)).at[0, 10, 20].set(1.0)
    np.testing.assert_array_equal(np.asarray(attention.saliency(alone + 1e-9))[0] > 1e-4, near[0] > 0)


def test_a_seed_whose_glimpse_takes_nothing_is_not_picked_again():
    """A network that takes nothing of its first seed's surroundings, but all of everything else, finds the others."""
    net = eqx.filter_jit(attention.SeededAttention)((2,), jax.random.key(0), window=16)

    class Picky(attention.SeededAttention):
        def __init__(self):
            self.__dict__.update(net.__dict__)

        def background_logit(self, x):
            return jnp.where(x.max(-1) > 0, attention.OUTSIDE, -attention.OUTSIDE)

        def _glimpse(self, x, scope, seed):
            red = x[0, seed[0, 0], seed[0, 1], 0] > 0.5  # of a red thing it takes nothing
            near = attention.around(seed, x.shape[1]) > 0
            return jnp.where(near & ~red, -attention.OUTSIDE, attention.OUTSIDE)

    x = jnp.zeros((1, 64, 64, 3)).at[0, 8:13, 8:13, 0].set(1.0).at[0, 40:45, 40:45, 1].set(1.0)
    picky = Picky()
    object.__setattr__(picky, "background", lambda _: picky.background_logit(x))
    masks = jnp.exp(picky(x, 5, None))
    assert masks[0, 1:-1, 40:45, 40:45].sum() > 20  # the green one has a slot of its own, though red came first
    assert masks[0, -1, 8:13, 8:13].sum() > 20


def test_a_glimpse_takes_nothing_outside_its_window():
    model = eqx.filter_jit(Monet)(SMALL["seeded"], jax.random.key(0))
    x = jnp.zeros((1, 64, 64, 3)).at[0, 10, 10].set(1.0)
    scope = jnp.zeros((1, 64, 64)).at[0, 8:13, 8:13].set(1.0)
    logit = np.asarray(eqx.filter_jit(model.attention._glimpse)(x, scope, jnp.array([[10, 10]])))[0]
    rows, columns = np.nonzero(logit > attention.OUTSIDE)
    assert rows.max() <= 10 + 16
    assert columns.max() <= 10 + 16
    assert rows.min() == 0


@pytest.mark.parametrize("most", [1, 3])
def test_to_stop_when_nothing_is_left_to_see_changes_nothing(most):
    """Beside the recurrence with all its glimpses, written out, in scenes with few sprites; the last slot is empty."""
    vision = load_world().vision
    attend, slots, env = vision.attention, vision.config.slots, fewer_sprites(spriteworld.make("exploration"), most)
    keys = jax.random.split(jax.random.key(0), 4)
    frames = jax.jit(lambda keys: jax.lax.map(lambda key: env.draw(env.initial(key)), keys))(keys)
    x = vision._preprocess(frames)
    logit = attend.background(space_to_depth(x, 2))
    log_masks, log_scope, take = [jax.nn.log_sigmoid(logit)], jax.nn.log_sigmoid(-logit), eqx.filter_jit(attend._take)
    for _ in range(slots - 2):
        log_mask, log_scope = take(x, log_scope, attention.pick_seed(attend._left(log_scope), None))
        log_masks.append(log_mask)
    full = jnp.exp(jnp.stack([*log_masks, log_scope], axis=1))
    masks = vision.masks(frames)
    assert np.all(masks[:, most + 2 : -1] < 1e-9)  # it stopped: at most one glimpse more than sprites
    held = np.asarray(full.max((2, 3)) > 0.5)
    np.testing.assert_allclose(np.asarray(masks)[held], np.asarray(full)[held], atol=1e-6)
    posterior = eqx.filter_jit(lambda mask: vision._posterior(x, mask)[0])
    latents = np.stack([posterior(full[:, k]) for k in range(slots)], axis=1)
    np.testing.assert_allclose(vision.encode(frames), latents, atol=1e-5)


def test_only_our_decoder_says_where_a_slot_is(model):
    config = model.config
    assert model.place == (PLACE if config.decoder_patch and config.decoder_frame != "picture" else None)
    assert model.patch == (2 if config.decoder_patch else 0)


def test_a_loss_of_sampled_patches_estimates_that_of_all():
    """With so many samples that each patch is taken about as often as it is expected to be."""
    frames, key, frame = images(4), jax.random.key(0), "slot"
    losses = {}
    for count in (0, 64, 20_000):
        config = dataclasses.replace(SMALL[f"free, {frame}"], loss_patches=count)
        model = eqx.filter_jit(Monet)(config, jax.random.key(0))
        losses[count] = eqx.filter_jit(Monet.loss)(model, frames, key, LossWeights(0.3, 0.7))[1]
    for name, value in losses[0].items():
        np.testing.assert_allclose(losses[20_000][name], value, rtol=0.03, err_msg=name)
        np.testing.assert_allclose(losses[64][name], value, rtol=0.5, err_msg=name)
    np.testing.assert_allclose(losses[64]["kl_latents"], losses[0]["kl_latents"], rtol=1e-5)  # takes no patches


def test_what_free_latents_need_is_said():
    with pytest.raises(ValueError, match="decoder_frame of MonetConfig is 'slot'; that needs encoder_window"):
        dataclasses.replace(VISION["learnt"].model, encoder_window=0)
    with pytest.raises(ValueError, match="loss_patches of MonetConfig is above 0"):
        dataclasses.replace(VISION["laptop"].model, loss_patches=8)


def test_the_paper_preset_is_the_papers():
    config = VISION["paper"]
    assert (config.batch, config.steps, config.optimiser, config.learning_rate) == (16, 700_000, "rmsprop", 1e-4)
    assert (config.model.sigma_bg, config.model.sigma_fg, config.model.decoder_layers) == (0.08, 0.15, 3)
    assert config.model.rgb_scale == (1.25, 1.0, 0.75)
    assert (config.model.slots, config.model.latents) == (8, 8)


def test_the_paper_preset_is_monet_block_by_block():
    """Appendix B of Burgess et al. 2019, with COBRA's three layers in the decoder and eight latents."""
    model = eqx.filter_eval_shape(Monet, VISION["paper"].model, jax.random.key(0))
    assert isinstance(model.attention, attention.ScopeAttention)
    unet = model.attention.unet
    assert [block.kernel.shape for block in unet.down] == [
        (3, 3, 4, 32), (3, 3, 32, 32), (3, 3, 32, 64), (3, 3, 64, 64), (3, 3, 64, 64),
    ]  # fmt: skip
    assert [block.kernel.shape for block in unet.up] == [
        (3, 3, 128, 64), (3, 3, 128, 64), (3, 3, 128, 64), (3, 3, 96, 32), (3, 3, 64, 32),
    ]  # fmt: skip
    assert [layer.weight.shape for layer in unet.bottom.layers] == [(1024, 128), (128, 128), (128, 1024)]
    assert unet.out.weight.shape == (32, 1)
    assert [conv.kernel.shape[-1] for conv in model.encoder.convs] == [32, 32, 64, 64]
    assert {conv.stride for conv in model.encoder.convs} == {2}
    assert [layer.weight.shape for layer in model.encoder.head.layers] == [(1024, 256), (256, 16)]
    assert [conv.kernel.shape for conv in model.decoder.layers] == [(3, 3, 10, 32), (3, 3, 32, 32), (3, 3, 32, 32)]
    assert {conv.padding for conv in model.decoder.layers} == {"VALID"}
    assert model.decoder.out.weight.shape == (32, 4)
    assert model.decoder._canvas().shape == (70, 70, 2)


@pytest.mark.parametrize("layers", [1, 3])
def test_monets_decoder_is_the_plain_formula(layers):
    """Latents are put at every pixel of a canvas beside its coordinates, and convolutions do without padding."""
    decoder = BroadcastDecoder(8, 5, jax.random.key(0), width=6, layers=layers)
    decoder = eqx.tree_at(lambda net: net.layers[0].bias, decoder, jnp.arange(6) / 10)
    z = jax.random.normal(jax.random.key(0), (3, 5))
    side = 8 + 2 * layers
    x, y = np.meshgrid(np.linspace(-1, 1, side), np.linspace(1, -1, side))
    latents = np.broadcast_to(np.asarray(z)[:, None, None], (3, side, side, 5))
    canvas = np.concatenate([latents, np.broadcast_to(np.stack([x, y], -1), (3, side, side, 2))], -1)
    for layer in decoder.layers:
        windows = np.lib.stride_tricks.sliding_window_view(canvas, (3, 3), (1, 2))
        canvas = np.maximum(np.einsum("bhwiyx,yxio->bhwo", windows, layer.kernel) + np.asarray(layer.bias), 0.0)
    drawn = canvas @ np.asarray(decoder.out.weight) + np.asarray(decoder.out.bias)
    color, logit = decoder(z)
    np.testing.assert_allclose(color, drawn[..., :3], atol=1e-5)
    np.testing.assert_allclose(logit, drawn[..., 3], atol=1e-5)


def test_latents_have_the_names_of_factors_where_they_are_factors_by_construction(model):
    factored = ["angle, sine", "shape 1", "shape 2", "shape 3"]
    is_factored = bool(model.config.decoder_patch) and model.config.decoder_frame == "factored"
    assert model.latent_names[8:] == (factored if is_factored else [])
    assert len(model.latent_names) == model.config.latents
