"""One paper concept a file, its loss beside it; no I/O, no loops over data.

Axes: B batch, K slots, M latents, A action dimension, P proposals, J Gaussians, H W C image.
"""
