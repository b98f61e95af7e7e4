"""Building blocks that the models share. Images are NHWC; convolutions are written to be fast on a CPU too.

Weights start as a truncated normal of variance gain / fan_in, biases at zero (the paper gives no
variance).
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

RELU_GAIN = 2.0
Tree = TypeVar("Tree")
Loss = tuple[Float[Array, ""], dict[str, Array]]  # the loss, and metrics by name


def _truncated_normal(key: PRNGKeyArray, shape: Sequence[int], fan_in: int, gain: float) -> Array:
    unit = jax.random.truncated_normal(key, -2.0, 2.0, shape) / 0.8796  # undo the loss of variance by the truncation
    return unit * (gain / fan_in) ** 0.5


class Linear(eqx.Module):
    """Affine map of the last axis; on an image, a 1x1 convolution.

    Our own and not `equinox.nn.Linear`, whose weight is [O, I] and which takes one vector: a step
    of a task compiles and runs as fast by either (4.3 s, 5 ms), and R, the critic and the shipped
    weights have the rows of [I, O].
    """

    weight: Float[Array, "I O"]
    bias: Float[Array, " O"]

    def __init__(self, n_in: int, n_out: int, key: PRNGKeyArray, *, gain: float = RELU_GAIN):
        self.weight = _truncated_normal(key, (n_in, n_out), n_in, gain)
        self.bias = jnp.zeros(n_out)

    def __call__(self, x: Float[Array, "*N I"]) -> Float[Array, "*N O"]:
        """Return x W + b, as one flat matrix product, whose weight gradient is twice as fast on a CPU."""
        flat = x.reshape(-1, x.shape[-1]) @ self.weight
        return flat.reshape(*x.shape[:-1], -1) + self.bias


class MLP(eqx.Module):
    """Linear layers with ReLU between them."""

    layers: list[Linear]

    def __init__(self, sizes: Sequence[int], key: PRNGKeyArray, last_gain: float = 1.0):
        gains = [RELU_GAIN] * (len(sizes) - 2) + [last_gain]
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = [
            Linear(n_in, n_out, layer_key, gain=gain)
            for (n_in, n_out), layer_key, gain in zip(itertools.pairwise(sizes), keys, gains, strict=True)
        ]

    def __call__(self, x: Float[Array, "*N I"]) -> Float[Array, "*N O"]:
        """Apply the layers, with ReLU after all but the last."""
        return self.after_first(self.layers[0](x))

    def after_first(self, hidden: Float[Array, "*N F"]) -> Float[Array, "*N O"]:
        """Apply all layers but the first to its output, which the caller may have computed in parts."""
        for layer in self.layers[1:]:
            hidden = layer(jax.nn.relu(hidden))
        return hidden


def positive(x: Float[Array, "*N"], at_zero: float) -> Float[Array, "*N"]:
    """Map any number to a positive one, and 0 to `at_zero`: a softplus that is shifted."""
    return jax.nn.softplus(x + jnp.log(jnp.expm1(at_zero)))


def averaged(average: Tree, weights: Tree, decay: Float[Array, ""] | float) -> Tree:
    """Update an exponential moving average of weights."""
    return jax.tree.map(
        lambda old, new: decay * old + (1.0 - decay) * new if eqx.is_array(old) else old, average, weights
    )


_CHUNK = 8  # images in one weight-gradient convolution; larger batches are several times slower per image on a CPU


@jax.custom_batching.custom_vmap
def all_true(x: Bool[Array, "*N"]) -> Bool[Array, ""]:
    """Tell whether all is true, under `vmap` in the whole batch: `lax.cond` then computes one branch and not both."""
    return jnp.all(x)


@all_true.def_vmap
def _(size: int, is_batched: list[bool], x: Bool[Array, "*N"]) -> tuple[Bool[Array, ""], bool]:
    return all_true(x), False


def convolve(x: Array, kernel: Array, *, stride: int = 1, padding: str = "SAME") -> Array:
    """Convolve images (NHWC) with a kernel (HWIO)."""
    return lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _unstrided(x: Array, kernel: Array, padding: str = "SAME") -> Array:
    """Convolve with stride 1; the weight gradient is summed over chunks of the batch (see below)."""
    return convolve(x, kernel, padding=padding)


def _chunked_backward(padding: str, residuals: tuple[Array, Array], grad: Array) -> tuple[Array, Array]:
    x, kernel = residuals
    _, pull_x = jax.vjp(lambda x: convolve(x, kernel, padding=padding), x)
    grad_kernel = jnp.zeros_like(kernel)
    for i in range(0, x.shape[0], _CHUNK):
        _, pull_kernel = jax.vjp(lambda kernel, i=i: convolve(x[i : i + _CHUNK], kernel, padding=padding), kernel)
        grad_kernel += pull_kernel(grad[i : i + _CHUNK])[0]
    return pull_x(grad)[0], grad_kernel


_chunked_convolve = jax.custom_vjp(_unstrided, nondiff_argnums=(2,))
_chunked_convolve.defvjp(
    lambda x, kernel, padding: (convolve(x, kernel, padding=padding), (x, kernel)), _chunked_backward
)


class Conv(eqx.Module):
    """3x3 convolution and a bias; the picture is padded with zeros ("SAME") or shrinks by two pixels ("VALID")."""

    kernel: Float[Array, "3 3 I O"]
    bias: Float[Array, " O"]
    stride: int = eqx.field(static=True)
    padding: str = eqx.field(static=True)

    def __init__(self, n_in: int, n_out: int, key: PRNGKeyArray, *, stride: int = 1, padding: str = "SAME"):
        self.kernel = _truncated_normal(key, (3, 3, n_in, n_out), 9 * n_in, RELU_GAIN)
        self.bias = jnp.zeros(n_out)
        self.stride = stride
        self.padding = padding

    def __call__(self, x: Float[Array, "B H W I"]) -> Float[Array, "B h w O"]:
        """Apply the convolution and the bias, without an activation."""
        if self.stride == 1:
            return _chunked_convolve(x, self.kernel, self.padding) + self.bias
        return convolve(x, self.kernel, stride=self.stride, padding=self.padding) + self.bias


class Block(Conv):
    """A block of MONet's U-Net: 3x3 convolution without a bias, instance normalisation with one, ReLU."""

    def __init__(self, n_in: int, n_out: int, key: PRNGKeyArray):
        super().__init__(n_in, n_out, key)

    def __call__(self, x: Float[Array, "B H W I"]) -> Float[Array, "B H W O"]:
        """Apply the block without the resizing that MONet counts as its end; the U-Net does that."""
        y = _chunked_convolve(x, self.kernel)
        centred = y - y.mean((1, 2), keepdims=True)
        y = centred * lax.rsqrt((centred**2).mean((1, 2), keepdims=True) + 1e-5)
        return jax.nn.relu(y + self.bias)


class MonetUNet(eqx.Module):
    """MONet's U-Net (Burgess et al. 2019, appendix B.2): as many blocks up as down, skips, an MLP at the bottom.

    Each block but the last of each path ends with nearest-neighbour resizing by two. Skips are
    taken before that and concatenated with the output from below. MONet does not give the widths:
    here, blocks of a level have the same.
    """

    down: list[Block]
    bottom: MLP
    up: list[Block]
    out: Linear

    def __init__(self, n_in: int, channels: Sequence[int], key: PRNGKeyArray, *, cells: int, width: int):
        """`cells` is the number of cells at the lowest level, `width` the width of the MLP there."""
        down_key, bottom_key, up_key, out_key = jax.random.split(key, 4)
        down_keys, up_keys = (jax.random.split(key, len(channels)) for key in (down_key, up_key))
        self.down = [Block(i, o, k) for (i, o), k in zip(itertools.pairwise([n_in, *channels]), down_keys, strict=True)]
        self.bottom = MLP((cells * channels[-1], width, width, cells * channels[-1]), bottom_key, RELU_GAIN)
        below = [*channels[1:], channels[-1]]
        self.up = [Block(b + c, c, k) for b, c, k in zip(below[::-1], channels[::-1], up_keys, strict=True)]
        self.out = Linear(channels[0], 1, out_key, gain=1.0)

    def __call__(self, x: Float[Array, "B H W I"]) -> Float[Array, "B H W"]:
        """Return one value per pixel."""
        skips = []
        for level, block in enumerate(self.down):
            x = block(x[:, ::2, ::2] if level else x)
            skips.append(x)
        x = jax.nn.relu(self.bottom(x.reshape(x.shape[0], -1))).reshape(x.shape)
        for level, block in enumerate(self.up):
            x = block(jnp.concatenate([upsample(x) if level else x, skips.pop()], -1))
        return self.out(x)[..., 0]


class UNet(eqx.Module):
    """Our U-Net, on patches of pixels: per level one convolution on the way down and one on the way up, with skips."""

    down: list[Conv]
    up: list[Conv]
    out: Linear
    patch: int = eqx.field(static=True)

    def __init__(self, n_in: int, channels: Sequence[int], key: PRNGKeyArray, *, patch: int):
        down_key, _, up_key, out_key = jax.random.split(key, 4)  # the unused key keeps older runs reproducible

        def convolutions(pairs: Sequence[tuple[int, int]], key: PRNGKeyArray) -> list[Conv]:
            keys = jax.random.split(key, max(len(pairs), 1))
            return [Conv(i, o, k) for (i, o), k in zip(pairs, keys, strict=False)]

        self.down = convolutions(list(itertools.pairwise([n_in, *channels])), down_key)
        self.up = convolutions([(above + below, above) for above, below in itertools.pairwise(channels)][::-1], up_key)
        self.out = Linear(channels[0], patch**2, out_key, gain=0.1)
        self.patch = patch

    def __call__(self, x: Float[Array, "B h w I"]) -> Float[Array, "B H W"]:
        """Map patches of `patch` x `patch` pixels (`space_to_depth`) to one value per pixel."""
        skips = []
        for level, conv in enumerate(self.down):
            x = jax.nn.relu(conv(pool(x) if level else x))
            skips.append(x)
        x = skips.pop()
        for conv in self.up:
            x = jax.nn.relu(conv(jnp.concatenate([skips.pop(), upsample(x)], -1)))
        return depth_to_space(self.out(x), self.patch)[..., 0]


def space_to_depth(x: Float[Array, "B H W C"], n: int) -> Float[Array, "B h w c"]:
    """Turn patches of n x n pixels into channels."""
    B, H, W, C = x.shape
    return x.reshape(B, H // n, n, W // n, n, C).transpose(0, 1, 3, 2, 4, 5).reshape(B, H // n, W // n, n * n * C)


def depth_to_space(x: Float[Array, "B h w c"], n: int) -> Float[Array, "B H W C"]:
    """Invert `space_to_depth`."""
    B, h, w, c = x.shape
    return x.reshape(B, h, w, n, n, c // n**2).transpose(0, 1, 3, 2, 4, 5).reshape(B, h * n, w * n, c // n**2)


def pool(x: Float[Array, "B H W C"]) -> Float[Array, "B h w C"]:
    """Average over 2 x 2 cells."""
    B, H, W, C = x.shape
    return x.reshape(B, H // 2, 2, W // 2, 2, C).mean((2, 4))


def upsample(x: Float[Array, "B h w C"]) -> Float[Array, "B H W C"]:
    """Enlarge by two with nearest neighbours."""
    B, h, w, C = x.shape
    return jnp.broadcast_to(x[:, :, None, :, None], (B, h, 2, w, 2, C)).reshape(B, 2 * h, 2 * w, C)


def coordinates(size: int) -> Float[Array, "H W 2"]:
    """Return (x, y) of the cell centres of a grid over [-1, 1]^2, y up, the first row at the top."""
    centres = (jnp.arange(size) + 0.5) / size * 2.0 - 1.0
    x, y = jnp.meshgrid(centres, -centres)
    return jnp.stack([x, y], -1)


class Lattice(NamedTuple):
    """Every n-th cell of a grid in both directions, starting at `phase`: the part of a picture that is drawn."""

    every: int
    phase: Int[Array, "2"]
    patch: int  # pixels along the side of a cell

    def thin(self, grid: Float[Array, "h w *C"]) -> Float[Array, "_h _w *C"]:
        """Return the cells of the lattice; `every` must divide h and w."""
        return jnp.roll(grid, -self.phase, (0, 1))[:: self.every, :: self.every]

    def thin_image(self, x: Float[Array, "B H W C"]) -> Float[Array, "B _H _W C"]:
        """Return the cells of the lattice of images, in cells of `patch` x `patch` pixels."""
        return depth_to_space(jax.vmap(self.thin)(space_to_depth(x, self.patch)), self.patch)


def nearest_corner(place: Float[Array, "B 2"], size: int) -> Int[Array, "B 2"]:
    """Return (row, column) of the pixel corner, counted from the top left, that is nearest to (x, y) in [-1, 1]^2."""
    row_column = (jnp.stack([-place[:, 1], place[:, 0]], -1) + 1.0) / 2.0 * size
    return jnp.clip(jnp.round(lax.stop_gradient(row_column)), 0, size).astype(jnp.int32)


def corner_place(at: Int[Array, "B 2"], size: int) -> Float[Array, "B 2"]:
    """Return (x, y) in [-1, 1]^2 of a pixel corner (row, column)."""
    return jnp.stack([at[:, 1] * 2.0 / size - 1.0, 1.0 - at[:, 0] * 2.0 / size], -1)


def cut_windows(x: Float[Array, "B H W C"], at: Int[Array, "B 2"], window: int) -> Float[Array, "B s s C"]:
    """Cut the window around the pixel corner `at` from each image, with zeros outside the image."""
    half = window // 2
    shape = (window, window, x.shape[-1])
    padded = jnp.pad(x, ((0, 0), (half, half), (half, half), (0, 0)))
    return jax.vmap(lambda image, at: lax.dynamic_slice(image, (at[0], at[1], 0), shape))(padded, at)
