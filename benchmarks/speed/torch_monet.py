"""The same MONet in PyTorch, for a comparison of speed: it takes its weights from ours and gives the same slots.

`from_jax(model)` is our own pytree with torch parameters for leaves; each function below mirrors the one of the same
name in `cobra_rl.models`. Images are NCHW in memory format channels_last, PyTorch's fastest on a CPU.
"""

import equinox as eqx
import jax
import numpy as np
import torch
import torch.nn.functional as F

from cobra_rl.models import component
from cobra_rl.models.attention import MIN_SALIENCY, OUTSIDE, SeededAttention
from cobra_rl.models.component import FactoredDecoder, FactoredEncoder
from cobra_rl.models.monet import Monet
from cobra_rl.models.vision import PLACE


def from_jax(model: Monet) -> Monet:
    """Return our model with torch parameters; kernels become OIHW."""

    def convert(leaf):
        if not eqx.is_array(leaf):
            return leaf
        array = np.array(leaf)
        tensor = torch.from_numpy(array.transpose(3, 2, 0, 1).copy() if array.ndim == 4 else array)
        if array.ndim == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        return torch.nn.Parameter(tensor)

    return jax.tree.map(convert, model)


def linear(layer, x):
    return x @ layer.weight + layer.bias


def pointwise(layer, x):
    return F.conv2d(x, layer.weight.T[:, :, None, None], layer.bias)


def mlp(net, x):
    for layer in net.layers[:-1]:
        x = F.relu(linear(layer, x))
    return linear(net.layers[-1], x)


def conv(layer, x):
    if layer.padding == "VALID":
        return F.conv2d(x, layer.kernel, layer.bias)
    if layer.stride == 1:
        return F.conv2d(x, layer.kernel, layer.bias, padding=1)
    return F.conv2d(F.pad(x, (0, 1, 0, 1)), layer.kernel, layer.bias, stride=layer.stride)


def block(layer, x):
    y = F.instance_norm(F.conv2d(x, layer.kernel, padding=1), eps=1e-5)
    return F.relu(y + layer.bias[None, :, None, None])


def monet_unet(net, x):
    skips = []
    for level, layer in enumerate(net.down):
        x = block(layer, F.interpolate(x, scale_factor=0.5) if level else x)
        skips.append(x)
    flat = F.relu(mlp(net.bottom, x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)))
    x = flat.reshape(x.shape[0], *x.shape[2:], x.shape[1]).permute(0, 3, 1, 2)
    for level, layer in enumerate(net.up):
        x = block(layer, torch.cat([F.interpolate(x, scale_factor=2) if level else x, skips.pop()], 1))
    return pointwise(net.out, x)[:, 0]


def unet(net, x):
    skips = []
    for level, layer in enumerate(net.down):
        x = F.relu(conv(layer, F.avg_pool2d(x, 2) if level else x))
        skips.append(x)
    x = skips.pop()
    for layer in net.up:
        x = F.relu(conv(layer, torch.cat([skips.pop(), F.interpolate(x, scale_factor=2)], 1)))
    return depth_to_space(pointwise(net.out, x), net.patch)[:, 0]


def space_to_depth(x, n):
    """Channels in our order: patch row, patch column, channel."""
    B, C, H, W = x.shape
    return x.reshape(B, C, H // n, n, W // n, n).permute(0, 3, 5, 1, 2, 4).reshape(B, n * n * C, H // n, W // n)


def depth_to_space(x, n):
    B, c, h, w = x.shape
    return x.reshape(B, n, n, c // n**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(B, c // n**2, h * n, w * n)


def coordinates(size):
    """[2, H, W]."""
    centres = (torch.arange(size) + 0.5) / size * 2.0 - 1.0
    y, x = torch.meshgrid(-centres, centres, indexing="ij")
    return torch.stack([x, y])


def windows(at, window, size):
    """Index arrays of the windows around corners `at` in an image padded by half a window."""
    rows = at[:, :1] + torch.arange(window)
    columns = at[:, 1:] + torch.arange(window)
    return torch.arange(len(at))[:, None, None], rows[:, :, None], columns[:, None, :]


def cut_windows(x, at, window):
    half = window // 2
    batch, rows, columns = windows(at, window, x.shape[-1])
    return F.pad(x, (half,) * 4).permute(0, 2, 3, 1)[batch, rows, columns].permute(0, 3, 1, 2)


def attention(net, x, slots):
    if not isinstance(net, SeededAttention):
        scope, masks = torch.zeros(x.shape[0], *x.shape[2:]), []
        for _ in range(slots - 1):
            logit = monet_unet(net.unet, torch.cat([x, scope.clamp(min=-10.0)[:, None]], 1))
            masks.append(scope + F.logsigmoid(logit))
            scope = scope + F.logsigmoid(-logit)
        return torch.stack([*masks, scope], 1)
    logit = unet(net.background, space_to_depth(x, 2).contiguous(memory_format=torch.channels_last))
    masks, scope = [F.logsigmoid(logit)], F.logsigmoid(-logit)
    for _ in range(1, slots - 1):
        if not torch.is_grad_enabled() and saliency(scope.exp()).max() <= MIN_SALIENCY:
            masks.append(torch.full_like(scope, 2 * OUTSIDE))
            continue
        logit = glimpse(net, x, scope.exp().detach())
        masks.append(scope + F.logsigmoid(logit))
        scope = scope + F.logsigmoid(-logit)
    return torch.stack([*masks, scope], 1)


def saliency(scope):
    return F.avg_pool2d(scope[:, None], 5, 1, 2)[:, 0] * (scope + 0.01)


def glimpse(net, x, scope):
    half, size = net.window // 2, x.shape[-1]
    flat = saliency(scope).flatten(1).argmax(1)
    seed = torch.stack([flat // size, flat % size], -1)
    seen = cut_windows(torch.cat([x, scope[:, None]], 1), seed, net.window)
    logit = alpha(net, seen[:, :3], seen[:, 3], seen[:, :3, half, half])
    canvas = torch.full((x.shape[0], size + net.window, size + net.window), OUTSIDE)
    canvas = canvas.index_put(windows(seed, net.window, size), logit)
    return canvas[:, half:-half, half:-half]


def alpha(net, x, scope, color):
    features = space_to_depth(torch.cat([x, x - color[:, :, None, None], scope[:, None] - 0.5], 1), 2)
    place = coordinates(features.shape[-1]).expand(x.shape[0], -1, -1, -1)
    features = torch.cat([features, place], 1).contiguous(memory_format=torch.channels_last)
    return unet(net.unet, F.relu(conv(net.stem, features)))


def posterior(model, x, mask):
    net = model.encoder
    if isinstance(net, FactoredEncoder):
        out = factored_encoder(net, x, mask)
    else:
        y = torch.cat([x, torch.log(mask + 1e-5)[:, None]], 1)
        for layer in net.convs:
            y = F.relu(conv(layer, y))
        out = mlp(net.head, y.permute(0, 2, 3, 1).reshape(x.shape[0], -1))
    mean, log_var = out.chunk(2, -1)
    return mean, log_var.clamp(-12.0, 4.0)


def factored_encoder(net, x, mask):
    c, size = component, mask.shape[-1]
    weight = mask**2
    pixels = weight.sum((1, 2))[:, None]
    share = weight * (pixels / (pixels**2 + 4.0))[:, None]
    centroid = torch.einsum("bhw,chw->bc", share, coordinates(size))
    bright = weight * x.amax(1) ** 2
    light = bright.sum((1, 2))[:, None]
    color = torch.einsum("bhw,bchw->bc", bright, x) * light / (light**2 + 4.0)
    large = torch.tanh(torch.log(pixels / size**2 + c.AREA / 32.0) - np.log(c.AREA))
    real, imaginary, profile, cut = harmonics(net, share, centroid)
    strength = torch.sqrt(real**2 + imaginary**2 + 1e-6)[:, :, 1:]
    parts = (c.RINGS, len(c.ORDERS) - 1, net.latents - c.SHAPE, net.latents)
    read = mlp(net.head, features(8.0 * profile, 8.0 * strength, large))
    shift, symmetry, shape, log_noise = read.split(parts, -1)
    toward = torch.stack([(part[:, :, 0] * shift).sum(-1) for part in (real, imaginary)], -1)
    radii = torch.tensor(c.RADII, dtype=x.dtype)[:, None]
    phase = torch.stack([(part[:, :, 1:] * radii).sum(1) for part in (real, imaginary)], -1)
    phase = phase / (torch.linalg.norm(phase + 1e-6, dim=-1, keepdim=True) + 0.02)
    angle = (symmetry.softmax(-1)[..., None] * phase).sum(1)
    fixes = cut * mlp(net.border, features(8.0 * profile, 8.0 * real, 8.0 * imaginary, centroid, large))
    place = PLACE.from_canvas(centroid + 0.25 * toward) + fixes[:, :2]
    looks = torch.cat([2.0 * large, 1.4 * angle, shape], -1) + fixes[:, 2:]
    log_noise = torch.logaddexp((log_noise - 4.0).clamp(-12.0, 8.0), 4.0 * torch.log(c.PIXELS / (pixels + 0.1)))
    mean = torch.cat([place, color_factors(color), looks], -1) * torch.sigmoid(-log_noise)
    return torch.cat([mean, F.logsigmoid(log_noise)], -1)


def features(*parts):
    return torch.cat([part.flatten(1) for part in parts], -1)


def harmonics(net, share, centroid):
    c, size, window = component, share.shape[-1], net.window
    at = ((torch.stack([-centroid[:, 1], centroid[:, 0]], -1).detach() + 1) / 2 * size).round().clamp(0, size).long()
    corner = torch.stack([at[:, 1] * 2.0 / size - 1.0, 1.0 - at[:, 0] * 2.0 / size], -1)
    seen = cut_windows(share[:, None], at, window).flatten(1)
    place = coordinates(window).flatten(1).T * window / size + corner[:, None]
    offset = c.SPRITE * (place - centroid[:, None])
    radius = torch.sqrt((offset**2).sum(-1) + 1e-4)
    rings = F.relu(1.0 - (radius[..., None] - torch.tensor(c.RADII, dtype=share.dtype)).abs() / (1.5 * c.RADII[0]))
    near = radius < c.RADII[-1]
    outside = ((place.abs().amax(-1) > 1.0) & near).sum(-1) / near.sum(-1)
    x, y = offset[..., 0] / radius, offset[..., 1] / radius
    waves, real, imaginary = [], x, y
    for _ in c.ORDERS:
        waves.append((real, imaginary))
        real, imaginary = real * x - imaginary * y, real * y + imaginary * x
    mass = seen[..., None] * rings
    real, imaginary = (torch.einsum("bpj,bpn->bjn", mass, torch.stack(part, -1)) for part in zip(*waves, strict=True))
    return real, imaginary, mass.sum(1), (8.0 * outside).clamp(max=1.0)[:, None]


def color_factors(color):
    red, green, blue = color.T
    plane = torch.stack([red - 0.5 * (green + blue), 0.75**0.5 * (green - blue)], -1)
    chroma = torch.sqrt((plane**2).sum(-1, keepdim=True) + 1e-8)
    value = color.amax(-1, keepdim=True)
    hue = 1.4 * plane * chroma / (chroma**2 + 0.05**2)
    saturation = chroma * value / (value**2 + 0.05**2)
    return torch.cat([hue, 4.0 * (saturation - 0.65), 2.5 * (value - 0.95)], -1)


def decoder(net, z):
    if isinstance(net, FactoredDecoder):
        cells = net.size // net.patch
        planes = mlp(net.half_planes, z[:, component.SIZE :]).reshape(z.shape[0], 3, -1)
        direction = 4.0 * planes[:, :2]
        bias = planes[:, 2] - torch.einsum("bc,bcf->bf", PLACE.canvas(z), direction)
        place = coordinates(cells).flatten(1).T
        x = F.relu(place @ direction + bias[:, None])  # [B, cells, F]
        for layer in net.layers:
            x = F.relu(linear(layer, x))
        x = linear(net.out, x).transpose(1, 2).reshape(z.shape[0], -1, cells, cells)
        logit, light = depth_to_space(x, net.patch).unbind(1)
        color = mlp(net.color, z[:, component.HUE : component.SIZE])
        return torch.sigmoid(light + 3.0)[:, None] * color[:, :, None, None], logit
    else:
        first, *others = net.layers
        side = net.size + 2 * len(net.layers)
        place = F.conv2d(coordinates(side)[None] * side / (side - 1), first.kernel[:, z.shape[1] :])
        latents = z @ first.kernel[:, : z.shape[1]].sum((2, 3)).T + first.bias
        x = F.relu(place + latents[:, :, None, None]).contiguous(memory_format=torch.channels_last)
        for layer in others:
            x = F.relu(conv(layer, x))
        x = pointwise(net.out, x)
        return x[:, :3], x[:, 3]


def preprocess(model, images):
    """Images uint8 [B, H, W, 3]."""
    x = images.float() / 255.0 * torch.tensor(model.config.rgb_scale)
    return x.permute(0, 3, 1, 2)


def encode(model, images):
    x = preprocess(model, images)
    masks = attention(model.attention, x, model.config.slots).exp()
    return torch.stack([posterior(model, x, masks[:, k])[0] for k in range(model.config.slots)], 1)


def loss(model, images, noise, beta, gamma):
    """Return the loss as `Monet.loss` does, with the noise [K, B, M] given and seeds at the scope's maximum."""
    config, x = model.config, preprocess(model, images)
    log_masks = attention(model.attention, x, config.slots)
    log_pixels, logits, kl_z = [], [], 0.0
    for k in range(config.slots):
        mean, log_var = posterior(model, x, log_masks[:, k].exp())
        z = mean + torch.exp(0.5 * log_var) * noise[k]
        component, logit = decoder(model.decoder, z)
        sigma = config.sigma_fg if k else config.sigma_bg
        log_pixels.append(-0.5 * (((x - component) / sigma) ** 2 + np.log(2 * np.pi * sigma**2)).sum(1))
        logits.append(logit)
        kl_z = kl_z + 0.5 * (mean**2 + log_var.exp() - log_var - 1.0).sum(-1)
    mixture = torch.logsumexp(log_masks + torch.stack(log_pixels, 1), 1)
    log_prior = F.log_softmax(torch.stack(logits, 1), 1)
    kl_masks = (log_masks.exp() * (log_masks - log_prior)).sum((1, 2, 3)).mean()
    return -mixture.sum((1, 2)).mean() + beta * kl_z.mean() + gamma * kl_masks
