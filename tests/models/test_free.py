"""The component VAE with free latents, against formulas written out; nothing in it knows what it looks at."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.models import nets
from cobra_rl.models.free import EMPTY_VARIANCE, CentredDecoder, FreeEncoder, PatchDecoder, Patches, sample_patches
from cobra_rl.models.nets import Lattice
from cobra_rl.models.vision import PLACE, is_empty

M, SIZE, WINDOW, PATCH = 5, 32, 16, 2
apply = eqx.filter_jit(lambda net, *inputs: net(*inputs))  # one program for all nets of the same sizes


@pytest.fixture(scope="module", params=[False, True], ids=["picture", "slot"])
def own_frame(request):
    return request.param


@pytest.fixture(scope="module")
def encoder(own_frame):
    return eqx.filter_jit(FreeEncoder)(M, jax.random.key(0), window=WINDOW, hidden=16, own_frame=own_frame)


@pytest.fixture(scope="module")
def decoder(own_frame):
    net = CentredDecoder if own_frame else PatchDecoder
    return eqx.filter_jit(net)(SIZE, M, jax.random.key(0), width=8, layers=2, patch=PATCH)


def thing(row, column, height=6, width=4):
    """Return a picture [1, H, W, 3] of noise and the mask of a rectangle."""
    x = jnp.zeros((1, SIZE, SIZE, 3))
    mask = jnp.zeros((1, SIZE, SIZE)).at[:, row : row + height, column : column + width].set(1.0)
    color = jax.random.uniform(jax.random.key(1), (1, height, width, 3))
    return x.at[:, row : row + height, column : column + width].set(color), mask


def latents(encoder, x, mask):
    return np.split(np.asarray(apply(encoder, x, mask)), 2, axis=-1)


def test_an_empty_slot_is_at_the_priors_mean(encoder):
    x = jax.random.uniform(jax.random.key(0), (3, SIZE, SIZE, 3))
    mean, log_var = latents(encoder, x, jnp.full((3, SIZE, SIZE), 1e-7))
    assert mean.shape == log_var.shape == (3, M)
    assert is_empty(jnp.asarray(mean)).all()
    np.testing.assert_allclose(np.exp(log_var), EMPTY_VARIANCE, rtol=1e-5)


def test_the_posterior_follows_from_the_noise_by_bayes_rule(encoder):
    """With noise tau^2 the precisions add; the mean shrinks by 1 / (1 + tau^2 / v)."""
    scene = thing(10, 12)
    biases = {}
    for log_noise in (-2.0, 0.0, 3.0):  # of all latents, beside that of the pixels: (8 / 24.1)^4
        last = encoder.head.layers[-1]
        net = eqx.tree_at(lambda net: net.head.layers[-1].weight, encoder, last.weight.at[:, M:].set(0.0))
        bias = last.bias.at[M:].set(log_noise + 4.0)
        biases[log_noise] = latents(eqx.tree_at(lambda net: net.head.layers[-1].bias, net, bias), *scene)
    observed = []
    for log_noise, (mean, log_var) in biases.items():
        noise = np.exp(log_noise) + (8.0 / 24.1) ** 4
        np.testing.assert_allclose(np.exp(log_var), 1.0 / (1.0 / noise + 1.0 / EMPTY_VARIANCE), rtol=1e-4)
        observed.append(mean * (1.0 + noise / EMPTY_VARIANCE))
    np.testing.assert_allclose(observed[0], observed[1], rtol=1e-4)
    np.testing.assert_allclose(observed[0], observed[2], rtol=1e-4)


def test_few_pixels_mean_much_noise(encoder):
    noises = [latents(encoder, *thing(10, 12, side, side))[1] for side in (6, 2, 1)]
    assert np.all(noises[0] < noises[1])
    assert np.all(noises[1] < noises[2])


def test_in_its_own_frame_only_the_centre_tells_where_a_slot_is():
    encoder = eqx.filter_jit(FreeEncoder)(M, jax.random.key(0), window=WINDOW, hidden=16, own_frame=True)
    first, moved = (latents(encoder, *thing(10, column)) for column in (12, 15))
    np.testing.assert_allclose(moved[0][:, 2:], first[0][:, 2:], atol=1e-5)
    np.testing.assert_allclose(moved[1], first[1], atol=1e-5)
    shift = np.asarray(PLACE.of(jnp.asarray(moved[0] - first[0]))) - 0.5
    shrinks = 1.0 - np.exp(first[1][:, :2]) / EMPTY_VARIANCE
    np.testing.assert_allclose(shift / shrinks, [[3.0 / SIZE, 0.0]], atol=1e-3)
    cut = latents(encoder, *thing(10, 0))  # its window reaches beyond the picture, which may be told by the latents
    assert np.abs(cut[0][:, 2:] - first[0][:, 2:]).max() > 1e-4


def test_its_centre_is_the_centroid_before_it_learns():
    encoder = eqx.filter_jit(FreeEncoder)(M, jax.random.key(0), window=WINDOW, hidden=16, own_frame=True)
    fresh = eqx.tree_at(lambda net: net.head.layers[-1].weight, encoder, replace_fn=jnp.zeros_like)
    mean, log_var = latents(fresh, *thing(10, 12))
    observed = mean / (1.0 - np.exp(log_var) / EMPTY_VARIANCE)
    np.testing.assert_allclose(PLACE.of(jnp.asarray(observed)), [[14 / SIZE, 1.0 - 13 / SIZE]], atol=2e-3)


def test_nothing_is_known_of_colours(encoder, decoder):
    """Channels of the picture in another order and weights in the same order: the same latents, the same drawing."""
    order = np.array([2, 0, 1])

    def rows(weight, first):
        return weight.at[first : first + 3].set(weight[first + order])

    x, mask = thing(10, 12)
    features = encoder.head.layers[0].weight.shape[0] - encoder.pooled.weight.shape[0]
    permuted = eqx.tree_at(
        lambda net: (net.convs[0].kernel, net.head.layers[0].weight, net.pooled.weight),
        encoder,
        (
            encoder.convs[0].kernel.at[:, :, :3].set(encoder.convs[0].kernel[:, :, order]),
            rows(encoder.head.layers[0].weight, features),
            rows(encoder.pooled.weight, 0),
        ),
    )
    np.testing.assert_allclose(apply(permuted, x[..., order], mask), apply(encoder, x, mask), atol=1e-5)

    columns = np.arange(4 * PATCH**2).reshape(-1, 4)[:, [*order, 3]].ravel()
    recoloured = eqx.tree_at(lambda net: net.out.weight, decoder, decoder.out.weight[:, columns])
    z = jax.random.normal(jax.random.key(0), (2, M))
    (color, logit), (other, same) = apply(decoder, z), apply(recoloured, z)
    np.testing.assert_allclose(other, color[..., order], atol=1e-6)
    np.testing.assert_allclose(same, logit, atol=1e-6)


def test_the_decoder_is_the_plain_formula(decoder, own_frame):
    """Coordinates at every patch, then the same layers everywhere, which latents scale and shift."""
    z = np.asarray(jax.random.normal(jax.random.key(0), (2, M)))
    rng = np.random.default_rng(0)
    shown = set(rng.choice((SIZE // PATCH) ** 2, 20, replace=False).tolist())  # of all patches: these
    cells = SIZE // PATCH
    expected = np.zeros((2, SIZE, SIZE, 4))
    for scene, row, column in np.ndindex(2, cells, cells):
        if row * cells + column not in shown:
            continue
        place = np.array([(column + 0.5) / cells * 2 - 1, 1 - (row + 0.5) / cells * 2])
        code = z[scene]
        if own_frame:
            place = 4.0 * (place - code[:2] / 2.0)
            code = code[2:]
        modulation = np.asarray(decoder.of_latents(jnp.asarray(code))).reshape(len(decoder.layers), 2, -1)
        x = place
        for layer, (scale, shift) in zip(decoder.layers, modulation, strict=True):
            x = np.maximum((x @ layer.weight + layer.bias) * (1.0 + 0.5 * scale) + shift, 0.0)
        pixels = (x @ decoder.out.weight + decoder.out.bias).reshape(PATCH, PATCH, 4)
        expected[scene, PATCH * row : PATCH * (row + 1), PATCH * column : PATCH * (column + 1)] = pixels
    color, logit = apply(decoder, jnp.asarray(z))
    drawn = np.abs(expected).max(-1) > 0
    assert drawn.sum() == 2 * len(shown) * PATCH**2
    np.testing.assert_allclose(np.asarray(color)[drawn], expected[drawn][:, :3], atol=1e-4)
    np.testing.assert_allclose(np.asarray(logit)[drawn], expected[drawn][:, 3], atol=1e-4)


def test_a_moved_slot_is_drawn_the_same_elsewhere():
    decoder = eqx.filter_jit(CentredDecoder)(SIZE, M, jax.random.key(0), width=8, layers=2, patch=PATCH)
    z = jax.random.normal(jax.random.key(0), (1, M)).at[:, :2].set(0.0)
    moved = z.at[0, 0].add(PLACE.units * 8 / SIZE)  # 8 pixels to the right
    for there, here in zip(apply(decoder, moved), apply(decoder, z), strict=True):
        np.testing.assert_allclose(there[:, :, 8:], here[:, :, :-8], atol=1e-4)


def test_a_lattice_is_a_part_of_the_picture(decoder):
    z = jax.random.normal(jax.random.key(0), (2, M))
    lattice = Lattice(2, jnp.array([1, 0]), PATCH)
    color, logit = decoder(z, lattice)
    whole = apply(decoder, z)
    np.testing.assert_allclose(color, lattice.thin_image(whole[0]), atol=1e-5)
    np.testing.assert_allclose(logit, lattice.thin_image(whole[1][..., None])[..., 0], atol=1e-5)


def test_a_sample_is_drawn_as_it_is_in_the_picture(decoder):
    z = jax.random.normal(jax.random.key(0), (2, M))
    cells = (SIZE // PATCH) ** 2
    sample = Patches(jax.random.randint(jax.random.key(1), (2, 9), 0, cells), jnp.ones((2, 9)), PATCH)
    color, logit = apply(decoder, z)
    drawn = decoder.draw(z, sample.place(SIZE))
    assert drawn.shape == (2, 9, PATCH**2, 4)
    np.testing.assert_allclose(drawn[..., :3], sample.take(color), atol=1e-5)
    np.testing.assert_allclose(drawn[..., 3:], sample.take(logit[..., None]), atol=1e-5)


def test_sums_over_a_sample_are_unbiased():
    x = jax.random.normal(jax.random.key(0), (2, SIZE, SIZE, 1))
    seen = jnp.zeros((2, SIZE, SIZE)).at[0, 3:9, 20:30].set(1.0)
    keys = jax.random.split(jax.random.key(1), 4000)

    @jax.jit
    @jax.vmap
    def total(key):
        sample = sample_patches(seen, PATCH, 40, key=key)
        return jnp.sum(sample.weight[..., None] * sample.take(x)[..., 0], (1, 2)), sample.weight.sum(-1)

    sums, counts = total(keys)
    error = 4.0 * np.asarray(sums).std(0) / np.sqrt(len(keys))
    assert np.all(np.abs(sums.mean(0) - x.sum((1, 2, 3))) < error)
    np.testing.assert_allclose(counts.mean(0), (SIZE // PATCH) ** 2, rtol=0.01)


def test_more_patches_are_sampled_where_something_is_seen():
    seen = jnp.zeros((1, SIZE, SIZE)).at[0, 4:8, 20:24].set(1.0)
    sample = sample_patches(seen, PATCH, 64, key=jax.random.key(0))
    there = np.asarray(sample.take(seen[..., None]).max((2, 3)) > 0)[0]
    assert len(np.unique(sample.cells[0][there])) == 4  # all of the thing
    assert sample.weight[0][there].max() < 1.0 < sample.weight[0][~there].max()


def test_every_weight_learns(encoder, decoder):
    x, mask = thing(10, 12)

    def error(nets_):
        mean, log_var = jnp.split(nets_[0](x, mask), 2, -1)
        color, logit = nets_[1](mean + 0.1 * jnp.exp(log_var))
        return jnp.sum((x - color) ** 2) + jnp.sum((mask - logit) ** 2)

    for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter_jit(eqx.filter_grad(error))((encoder, decoder))):
        assert np.isfinite(leaf).all()
        assert np.abs(leaf).max() > 0, jax.tree_util.keystr(path)


def test_a_picture_and_its_patches():
    x = jax.random.normal(jax.random.key(0), (1, SIZE, SIZE, 3))
    everything = Patches(jnp.arange((SIZE // PATCH) ** 2)[None], jnp.ones((1, (SIZE // PATCH) ** 2)), PATCH)
    cells = SIZE // PATCH
    np.testing.assert_array_equal(nets.depth_to_space(everything.take(x).reshape(1, cells, cells, -1), PATCH), x)
