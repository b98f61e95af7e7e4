"""Draws how the paper's MONet learns in small: FG-ARI over time, scenes taken apart at several steps, traversals.

    .venv/bin/python benchmarks/vision_small.py runs/small/vision --weights STEP=FOLDER ... [--out FILE]

The command of the run is in docs/reproduction.md, "The paper's vision in small". A run keeps only the weights with the
best FG-ARI, so copies of its folder `weights` must be made on the way; the last one is traversed. The log is copied to
results/vision_small_log.jsonl.
"""

import argparse
import io
import json
import shutil
from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from cobra_rl.environments import load_environment
from cobra_rl.evaluation.vision import TEST_SEED, fixed_scenes
from cobra_rl.models.vision import VisionModel
from cobra_rl.show.figures.style import picture_grid
from cobra_rl.show.films import colored_masks
from cobra_rl.worlds import load_vision

ENV, LOG = "docs/examples/small.py:exploration", Path("results", "vision_small_log.jsonl")
SCENES, VALUES, WIDTH, DPI = 9, np.linspace(-2.0, 2.0, 9), 0.72, 150


def curves(log: Path) -> Figure:
    """Draw FG-ARI of both masks and the share of sprites alone in a slot by training steps."""
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    figure = Figure(figsize=(WIDTH * (SCENES + 2), 2.6), layout="constrained")
    axes = figure.subplots()
    names = {"fg_ari_attention": "FG-ARI, attention", "fg_ari_decoder": "FG-ARI, decoder", "alone": "alone in a slot"}
    for name, label in names.items():
        axes.plot([row["step"] for row in rows], [row[name] for row in rows], label=label)
    axes.set(xlabel="training steps of batch 16", ylim=(0.0, 1.0))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def scenes(models: dict[int, VisionModel], images: np.ndarray) -> Figure:
    """Draw scenes, and for each model where its attention sees slots and what it draws from them."""
    rows = {"scene": images}
    for step, model in models.items():
        rows[f"attention, step {step:,}"] = colored_masks(np.asarray(model.masks(images)))
        rows[f"drawn, step {step:,}"] = np.asarray(model.decode(model.encode(images)).image)
    return picture_grid(list(rows.values()), WIDTH, list(rows))[0]


def traversals(model: VisionModel, image: np.ndarray) -> Figure:
    """Draw one row per latent of the slot that holds most of a scene's sprites, those that change most first."""
    slots, masks = np.asarray(model.encode(image[None])), np.asarray(model.masks(image[None]))[0]
    slot = 1 + int((masks[1:] * image.max(-1)).sum((1, 2)).argmax())
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
    """Draw, and copy the log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--weights", nargs="+", required=True, metavar="STEP=FOLDER")
    parser.add_argument("--out", type=Path, default=Path("docs", "vision_small.png"))
    options = parser.parse_args()
    given = (text.partition("=") for text in options.weights)
    models = {int(step): load_vision(folder) for step, _, folder in given}
    env = load_environment(ENV)
    images = fixed_scenes(env, SCENES, seed=TEST_SEED).images
    alone = np.asarray(env.draw(env.initial(jax.random.key(TEST_SEED))))
    last = models[max(models)]
    stacked([curves(options.run / "log.jsonl"), scenes(models, images), traversals(last, alone)]).save(options.out)
    shutil.copy(options.run / "log.jsonl", LOG)
    print(f"Figure: {options.out}; log: {LOG}")


if __name__ == "__main__":
    main()
