"""Building blocks against plain formulations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from cobra_rl.models import nets

KEY = jax.random.key(0)  # keys are values: nothing that a test draws changes what another draws


@pytest.mark.parametrize("batch", [3, 8, 20])
def test_chunked_convolution_and_its_gradients_are_the_plain_ones(batch):
    x = jax.random.normal(KEY, (batch, 6, 6, 3))
    conv = nets.Conv(3, 5, KEY)

    def plain(x, kernel):
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    np.testing.assert_allclose(conv(x), plain(x, conv.kernel), atol=1e-5)
    ours = jax.grad(lambda x, k: jnp.sum(nets._chunked_convolve(x, k) ** 2), argnums=(0, 1))(x, conv.kernel)
    theirs = jax.grad(lambda x, k: jnp.sum(plain(x, k) ** 2), argnums=(0, 1))(x, conv.kernel)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3), ours, theirs)


def test_instance_normalisation():
    x = jax.random.normal(KEY, (2, 8, 8, 3)) * 5 + 2
    y = nets.Conv(3, 4, KEY, normalise=True)(x)
    np.testing.assert_allclose(y.mean((1, 2)), 0.0, atol=1e-4)
    np.testing.assert_allclose(y.std((1, 2)), 1.0, atol=1e-3)


def test_linear_on_an_image_is_a_1x1_convolution():
    x = jax.random.normal(KEY, (2, 4, 4, 3))
    linear = nets.Linear(3, 5, KEY)
    np.testing.assert_allclose(linear(x), jnp.einsum("bhwi,io->bhwo", x, linear.weight), atol=1e-5)


def test_space_to_depth_and_back():
    x = jax.random.normal(KEY, (2, 8, 8, 3))
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
    x = jax.random.normal(KEY, (500, 64))
    y = nets.MLP((64, 256, 256, 256), KEY, last_gain=1.0)(x)
    assert 0.7 < float(y.std()) < 1.4  # over ten seeds 0.985, standard deviation 0.039: seven of them to the nearer bar


@pytest.mark.parametrize(("patch", "bottom"), [(1, (4, 16)), (2, None)])
def test_unet_sees_patches_and_answers_in_pixels(patch, bottom):
    unet = eqx.filter_eval_shape(nets.UNet, 5, (4, 6, 8), patch, KEY, bottom=bottom)
    seen = eqx.filter_eval_shape(unet, jnp.ones((3, 8, 8, 5)))
    assert seen.shape == (3, 8 * patch, 8 * patch)
