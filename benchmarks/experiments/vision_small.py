"""Draws how the paper's MONet learns in small: FG-ARI over time, scenes taken apart at several steps, traversals.

    .venv/bin/python -m benchmarks.experiments.vision_small RUN ... --weights STEP=FOLDER ... [--out FILE]

The command of the runs is in docs/reproduction.md, "The paper's vision in small". A run keeps only the weights with the
best FG-ARI, so copies of its folder `weights` must be made on the way; the last one is traversed. The logs are copied
to results/vision_small_RATE_log.jsonl, after the runs' learning rates.
"""

import argparse
import io
import json
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from cobra_rl.environments import load_environment
from cobra_rl.evaluation.vision import TEST_SEED, fixed_scenes
from cobra_rl.models.vision import VisionModel
from cobra_rl.reporting.figures.style import picture_grid
from cobra_rl.reporting.films import colored_masks
from cobra_rl.runs.worlds import load_vision
from cobra_rl.spriteworld import render, state_from_sprites

ENV = "docs/examples/small.py:exploration"
SCENES, VALUES, WIDTH, DPI = 9, np.linspace(-2.0, 2.0, 9), 0.72, 150


def curves(runs: dict[str, Path]) -> Figure:
    """Draw the FG-ARI of both masks by training steps, for each run."""
    figure = Figure(figsize=(WIDTH * (SCENES + 2), 2.6), layout="constrained")
    axes = figure.subplots()
    for number, (rate, run) in enumerate(runs.items()):
        rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        for name, style in (("attention", "-"), ("decoder", "--")):
            values = [row[f"fg_ari_{name}"] for row in rows]
            label = f"{name}, learning rate {rate}"
            axes.plot([row["step"] for row in rows], values, style, color=f"C{number}", label=label)
    axes.set(xlabel="training steps of batch 16", ylabel="FG-ARI", ylim=(-0.02, 1.0))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=len(runs), loc="upper left")
    return figure


def scenes(models: dict[int, VisionModel], images: np.ndarray) -> Figure:
    """Draw scenes, and for each model where its attention sees slots and what it draws from them."""
    rows = {"scene": images}
    for step, model in models.items():
        rows[f"attention, step {step:,}"] = colored_masks(model, images)
        rows[f"drawn, step {step:,}"] = np.asarray(model.decode(model.encode(images)).image)
    return picture_grid(list(rows.values()), WIDTH, list(rows))[0]


def traversals(model: VisionModel, image: np.ndarray) -> Figure:
    """Draw one row per latent of the slot that holds most of a scene's sprites, those that change most first."""
    slots, masks = np.asarray(model.encode(image[None])), np.array(model.masks(image[None]))
    masks[0, model.background(jnp.asarray(masks))] = 0.0
    slot = int((masks[0] * image.max(-1)).sum((1, 2)).argmax())
    rows = []
    for latent in range(slots.shape[2]):
        swept = np.repeat(slots, len(VALUES), axis=0)
        swept[:, slot, latent] = VALUES
        rows.append(np.asarray(model.decode(swept).image))
    order = np.argsort([-row.std(0).mean() for row in rows])
    return picture_grid([rows[latent] for latent in order], WIDTH, [f"latent {latent}" for latent in order])[0]


def stacked(figures: list[Figure]) -> Image.Image:
    """Put figures below each other."""
    pictures = []
    for figure in figures:
        figure.savefig(data := io.BytesIO(), format="png", dpi=DPI, bbox_inches="tight")
        pictures.append(Image.open(data).convert("RGB"))
    gap = DPI // 5
    page = Image.new(
        "RGB", (max(each.width for each in pictures), sum(each.height + gap for each in pictures)), "white"
    )
    top = 0
    for each in pictures:
        page.paste(each, (page.width - each.width, top))
        top += each.height + gap
    return page


def main() -> None:
    """Draw, and copy the logs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--weights", nargs="+", required=True, metavar="STEP=FOLDER")
    parser.add_argument("--out", type=Path, default=Path("docs", "vision_small.png"))
    options = parser.parse_args()
    records = {run: json.loads((run / "run.json").read_text())["settings"]["config"] for run in options.runs}
    runs = {f"{config['learning_rate']:.0e}".replace("e-0", "e-"): run for run, config in records.items()}
    given = (text.partition("=") for text in options.weights)
    models = {int(step): load_vision(folder) for step, _, folder in given}
    env = load_environment(ENV)
    images = fixed_scenes(env, SCENES, seed=TEST_SEED).images
    sprite = {"x": 0.45, "y": 0.55, "shape": "triangle", "angle": 20.0, "scale": 0.26, "c0": 0.6, "c1": 0.8, "c2": 1.0}
    alone = np.asarray(render(state_from_sprites([sprite]), env.image_size))
    stacked([curves(runs), scenes(models, images), traversals(models[max(models)], alone)]).save(options.out)
    for rate, run in runs.items():
        shutil.copy(run / "log.jsonl", Path("results", f"vision_small_{rate}_log.jsonl"))
    print(f"Figure: {options.out}; logs: results/vision_small_*_log.jsonl")


if __name__ == "__main__":
    main()
