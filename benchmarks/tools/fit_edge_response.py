"""Fits `EDGE_QUADRATIC` of spriteworld/renderer.py to pictures of the real package's renderer.

    .venv/bin/python -m benchmarks.tools.fit_edge_response

Draws single grey sprites with the package (grey, so that the filter's overshoot is not cut off) and fits
how bright a pixel is as a function of its signed distance from the outline.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import numpy as np
from matplotlib.path import Path as Outline

import oracle
from cobra_rl.spriteworld.renderer import EDGE_INSIDE, EDGE_OUTSIDE, EDGE_QUADRATIC

SCALE, SIZE, GREY = 0.13, 64, 127.0


def samples(shape: str, angle: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return signed distances in pixels (positive outside) and the brightness of all pixels of one picture."""
    x, y = rng.uniform(0.3, 0.7, 2)
    sprite = oracle.Sprite(x=x, y=y, shape=shape, angle=angle, scale=SCALE, c0=0, c1=0, c2=0.5)
    brightness = oracle.renderer(SIZE).render([sprite])[..., 0] / GREY
    columns, rows = np.meshgrid(np.arange(SIZE) + 0.5, SIZE - np.arange(SIZE) - 0.5)
    points = np.stack([columns, rows], -1).reshape(-1, 1, 2)
    start = sprite.vertices * SIZE
    side = np.roll(start, -1, axis=0) - start
    t = np.clip(np.sum((points - start) * side, -1) / np.sum(side**2, -1), 0, 1)
    distance = np.linalg.norm(points - start - t[..., None] * side, axis=-1).min(1)
    inside = Outline(start).contains_points(points[:, 0])
    return np.where(inside, -distance, distance), brightness.reshape(-1)


def main() -> None:
    """Print the fitted quadratic beside the one in use."""
    rng = np.random.default_rng(0)
    pictures = [
        samples(shape, angle, rng)
        for shape in ("square", "triangle", "circle")
        for _ in range(200)
        for angle in (0.0, rng.uniform(0, 360))
    ]
    distance, brightness = map(np.concatenate, zip(*pictures, strict=True))
    near = (distance > -EDGE_INSIDE - 0.3) & (distance < EDGE_OUTSIDE + 0.5)
    middle, half = 0.5 * (EDGE_OUTSIDE - EDGE_INSIDE), 0.5 * (EDGE_INSIDE + EDGE_OUTSIDE)
    t = np.clip((distance[near] - middle) / half, -1, 1)
    basis = np.stack([(1 - t * t) * t**k for k in range(3)], 1)
    quadratic, *_ = np.linalg.lstsq(basis, brightness[near] - 0.5 * (1 - t), rcond=None)
    print(f"fitted {np.round(quadratic, 3)}, in use {EDGE_QUADRATIC}")


if __name__ == "__main__":
    main()
