"""Figures of a vision module as a table and JSON."""

import json
import math
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cobra_rl.evaluation.vision import evaluate_suite, evaluate_vision
from cobra_rl.pretrained import SHIPPED, load_vision

Figures = dict[str, dict[str, float]]

COLUMNS = {  # what the table shows, and how it is headed
    "fg_ari_attention": "FG-ARI, attention",
    "fg_ari_decoder": "FG-ARI, decoder",
    "alone": "sprites alone in a slot",
    "split": "sprites split over slots",
    "shared": "sprites sharing a slot",
    "mse": "MSE of V_dec(V_enc(x))",
    "position_error": "position error",
    "hue_error": "hue error",
    "saturation_error": "saturation error",
    "shape_accuracy": "shape accuracy",
    "angle_error": "angle error, degrees",
}


def report_vision(weights: Path | None, scenes: int, suite: bool, out: Path | None) -> Figures:
    """Evaluates, prints a table an environment, and writes the figures with the command that made them."""
    if scenes < 10:
        raise ValueError(f"--scenes is {scenes}; at least 10 are needed to fit and test the probes.")
    vision = load_vision(weights or SHIPPED / "vision")
    if suite:
        figures = evaluate_suite(vision, scenes)
    else:
        figures = {"paper/exploration/train": evaluate_vision(vision, scenes=scenes)}
    console = Console()
    for place, scores in figures.items():  # a figure a row: fits any terminal
        table = Table("figure", "", title=f"vision on held-out scenes: {place}")
        for name, heading in COLUMNS.items():
            table.add_row(heading, _shown(scores.get(name, math.nan)))
        console.print(table)
    if out is not None:
        record = {"command": "cobra " + " ".join(sys.argv[1:]), "figures": _without_nan(figures)}
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n")
        console.print(f"Raw figures: {out}")
    return figures


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


def _without_nan(figures: Figures) -> dict[str, dict[str, float | None]]:
    """JSON has no NaN: a figure that does not exist there (FG-ARI of single sprites) is null."""
    return {
        place: {name: None if math.isnan(value) else value for name, value in scores.items()}
        for place, scores in figures.items()
    }
