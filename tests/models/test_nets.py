"""Building blocks against plain formulations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from cobra_rl.models import nets


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("batch", [3, 8, 20])
def test_chunked_convolution_and_its_gradients_are_the_plain_ones(batch, padding):
    x = jax.random.normal(jax.random.key(0), (batch, 6, 6, 3))
    conv = nets.Conv(3, 5, jax.random.key(0), padding=padding)

    def plain(x, kernel):
        return lax.conv_general_dilated(x, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    np.testing.assert_allclose(conv(x), plain(x, conv.kernel), atol=1e-5)
    ours = jax.grad(lambda x, k: jnp.sum(nets._chunked_convolve(x, k, padding) ** 2), argnums=(0, 1))(x, conv.kernel)
    theirs = jax.grad(lambda x, k: jnp.sum(plain(x, k) ** 2), argnums=(0, 1))(x, conv.kernel)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3), ours, theirs)


def written_out(block, x):
    """A block of MONet in plain NumPy: convolution, instance normalisation, bias, ReLU."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2))
    y = np.einsum("bhwiyx,yxio->bhwo", windows, np.asarray(block.kernel, np.float64))
    y = (y - y.mean((1, 2), keepdims=True)) / np.sqrt(y.var((1, 2), keepdims=True) + 1e-5)
    return np.maximum(y + np.asarray(block.bias), 0.0)


def with_biases(net):
    """The same network with biases that are not zero."""
    key = jax.random.key(0)
    return jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(key, leaf.shape) if leaf.ndim == 1 else leaf, net)


def test_monets_unet_is_the_one_written_out():
    """Three levels: resizing by nearest neighbour, skips from each block down to the one up, an MLP below."""
    unet = with_biases(eqx.filter_jit(nets.MonetUNet)(4, (3, 5, 6), jax.random.key(0), cells=4, width=7))
    x = np.asarray(jax.random.normal(jax.random.key(0), (2, 8, 8, 4)), np.float64)

    def larger(x):
        return x.repeat(2, axis=1).repeat(2, axis=2)

    high = written_out(unet.down[0], x)
    middle = written_out(unet.down[1], high[:, ::2, ::2])
    low = written_out(unet.down[2], middle[:, ::2, ::2])
    hidden = low.reshape(2, -1)
    for layer in unet.bottom.layers:
        hidden = np.maximum(hidden @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    up = written_out(unet.up[0], np.concatenate([hidden.reshape(low.shape), low], -1))
    up = written_out(unet.up[1], np.concatenate([larger(up), middle], -1))
    up = written_out(unet.up[2], np.concatenate([larger(up), high], -1))
    logit = up @ np.asarray(unet.out.weight) + np.asarray(unet.out.bias)
    np.testing.assert_allclose(eqx.filter_jit(unet)(jnp.asarray(x, jnp.float32)), logit[..., 0], atol=2e-4)


def test_linear_on_an_image_is_a_1x1_convolution():
    x = jax.random.normal(jax.random.key(0), (2, 4, 4, 3))
    linear = nets.Linear(3, 5, jax.random.key(0))
    np.testing.assert_allclose(linear(x), jnp.einsum("bhwi,io->bhwo", x, linear.weight), atol=1e-5)


def test_space_to_depth_and_back():
    x = jax.random.normal(jax.random.key(0), (2, 8, 8, 3))
    patches = nets.space_to_depth(x, 2)
    assert patches.shape == (2, 4, 4, 12)
    np.testing.assert_array_equal(patches[0, 1, 2, :3], x[0, 2, 4])
    np.testing.assert_array_equal(nets.depth_to_space(patches, 2), x)


def test_pool_and_upsample():
    x = jnp.arange(16.0).reshape(1, 4, 4, 1)
    np.testing.assert_array_equal(nets.pool(x)[0, :, :, 0], [[2.5, 4.5], [10.5, 12.5]])
    np.testing.assert_array_equal(nets.pool(nets.upsample(x)), x)


def test_coordinates_have_y_up_and_the_first_row_at_the_top():
    grid = nets.coordinates(4)
    np.testing.assert_allclose(grid[0, 0], [-0.75, 0.75])
    np.testing.assert_allclose(grid[3, 3], [0.75, -0.75])


def test_initial_weights_keep_the_scale_of_activations():
    x = jax.random.normal(jax.random.key(0), (500, 64))
    y = nets.MLP((64, 256, 256, 256), jax.random.key(0), last_gain=1.0)(x)
    assert 0.7 < float(y.std()) < 1.4  # over ten seeds 0.985, standard deviation 0.039: seven of them to the nearer bar


@pytest.mark.parametrize("patch", [1, 2])
def test_our_unet_sees_patches_and_answers_in_pixels(patch):
    unet = eqx.filter_eval_shape(nets.UNet, 5, (4, 6, 8), jax.random.key(0), patch=patch)
    seen = eqx.filter_eval_shape(unet, jnp.ones((3, 8, 8, 5)))
    assert seen.shape == (3, 8 * patch, 8 * patch)
