"""Measures what each of the laptop preset's deviations from MONet does: short runs, one thing put back at a time.

    .venv/bin/python -m benchmarks.experiments.vision_ablation [--steps 1000] [--variants NAME ...] [--out FILE]

So that MONet's own networks can be afforded on a CPU, scenes have one to three sprites and the models four slots. Every
run has the same seed and number of steps, and the preset's schedules of that length, without its curriculum. Trained
models are measured as by `cobra evaluate vision`, on other scenes of that kind. Results are added to the JSON file as
they come; a variant that is there already, measured with the same steps, is not run again. Neither `make bench` nor the
tests run it.
"""

from cobra_rl.cli.process import use_huge_pages

use_huge_pages()  # as `cobra train vision` does

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path

from benchmarks.tools.record import show, write
from cobra_rl.config import VISION, Stage, VisionConfig
from cobra_rl.environments import fewer_sprites
from cobra_rl.evaluation.vision import evaluate_vision
from cobra_rl.runs.train import train_vision
from cobra_rl.spriteworld import make

SPRITES, SLOTS, SCENES, SEED = 3, 4, 600, 0
LAPTOP = dataclasses.replace(
    VISION["laptop"],
    model=dataclasses.replace(VISION["laptop"].model, slots=SLOTS),
    stages=(Stage(1.0, SPRITES),),
    ema_decay=0.99,
)


def with_model(**changes) -> VisionConfig:
    """Return the laptop preset with some settings of its model changed."""
    return dataclasses.replace(LAPTOP, model=dataclasses.replace(LAPTOP.model, **changes))


VARIANTS = {
    "laptop": LAPTOP,
    "MONet's attention": with_model(attention_window=0, attention_channels=(32, 32, 64, 64, 64)),
    "MONet's encoder": with_model(encoder_window=0, encoder_hidden=256),
    "MONet's decoder": with_model(decoder_patch=0, decoder_width=32),
    "RMSProp 1e-4": dataclasses.replace(
        LAPTOP, optimiser="rmsprop", learning_rate=1e-4, warmup=0, decay_from=1.0, clip=0.0
    ),
    "beta and gamma 0.5 throughout": dataclasses.replace(LAPTOP, beta=((0.0, 0.5),), gamma=((0.0, 0.5),)),
}


def measure(name: str, steps: int) -> dict[str, float]:
    """Train a variant and return its scores on held-out scenes."""
    env = fewer_sprites(make("exploration"), SPRITES)
    config = dataclasses.replace(VARIANTS[name], steps=steps, evaluate_every=steps)
    with tempfile.TemporaryDirectory() as folder:
        trained = train_vision(config, env, Path(folder), seed=SEED, title=name)
    return evaluate_vision(trained, env, SCENES) | {"steps": steps, "seed": SEED}


def main() -> None:
    """Run the variants and write their scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("results", "structured", "vision_ablation.json"))
    options = parser.parse_args()
    figures = json.loads(options.out.read_text())["figures"] if options.out.exists() else {}
    for name in options.variants:
        if figures.get(name, {}).get("steps") != options.steps:
            figures[name] = measure(name, options.steps)
            write(options.out, figures=figures)
    show(figures)


if __name__ == "__main__":
    main()
