"""Measures what each of the laptop preset's deviations from MONet does: short runs, one thing put back at a time.

    .venv/bin/python benchmarks/vision_ablation.py [--steps 1500] [--variants NAME ...] [--out FILE]

Every run has the same number of steps, the same seed and the preset's curriculum stretched to that length, so the
metrics are those of the first minutes of training and not of its end. Results are added to the JSON file as they
come; a variant that is there already, measured with the same steps, is not run again. Neither `make bench` nor the
tests run it.
"""

from cobra_rl.cli.process import use_huge_pages

use_huge_pages()  # as `cobra train vision` does

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from cobra_rl.config import VISION, Stage, VisionConfig
from cobra_rl.phases import vision
from cobra_rl.spriteworld import make

LAPTOP = VISION["laptop"]


def with_model(**changes) -> VisionConfig:
    """Return the laptop preset with some settings of its model changed."""
    return dataclasses.replace(LAPTOP, model=dataclasses.replace(LAPTOP.model, **changes))


VARIANTS = {
    "laptop": LAPTOP,
    "MONet's attention": with_model(attention_window=0, attention_channels=(32, 32, 64, 64, 64)),
    "MONet's encoder": with_model(encoder_window=0, encoder_hidden=256),
    "MONet's decoder": with_model(decoder_patch=0, decoder_width=32),
    "MONet's optimiser": dataclasses.replace(
        LAPTOP, optimiser="rmsprop", learning_rate=1e-4, warmup=0, decay_from=1.0, clip=0.0
    ),
    "no curriculum": dataclasses.replace(LAPTOP, stages=(Stage(1.0, 6, 8),)),
    "beta and gamma 0.5 throughout": dataclasses.replace(LAPTOP, beta=((0.0, 0.5),), gamma=((0.0, 0.5),)),
}


def main() -> None:
    """Run the variants and write their last validation scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("results", "vision_ablation.json"))
    options = parser.parse_args()
    record = json.loads(options.out.read_text()) if options.out.exists() else {"runs": {}}
    record["command"] = "python benchmarks/vision_ablation.py " + " ".join(sys.argv[1:])
    for name in options.variants:
        if record["runs"].get(name, {}).get("step") == options.steps:
            continue
        config = dataclasses.replace(VARIANTS[name], steps=options.steps, evaluate_every=options.steps, average=0.99)
        with tempfile.TemporaryDirectory() as folder:
            vision.train(config, make("exploration"), Path(folder), seed=0, title=name)
            record["runs"][name] = json.loads(Path(folder, "log.jsonl").read_text().splitlines()[-1]) | {"seed": 0}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=2) + "\n")
    print(f"Raw numbers: {options.out}")


if __name__ == "__main__":
    main()
