"""Figures as tables and JSON."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cobra_rl.evaluation.explore import evaluate_explore
from cobra_rl.evaluation.vision import evaluate_suite, evaluate_vision
from cobra_rl.pretrained import SHIPPED, load_curious, load_vision
from cobra_rl.process import command_line

Figures = dict[str, dict[str, float]]

VISION_ROWS = {  # what the table shows, and how it is headed
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
EXPLORE_ROWS = {
    "hit_rate": "clicks on a sprite",
    "hit_rate_uniform": "clicks on a sprite, uniform policy",
    "sprites_struck": "sprites struck by 128 proposals",
    "motion_deformation": "motion deformation",
    "octant_least": "rarest octant of motions, of its share",
    "octant_most": "most frequent octant, of its share",
    "position_error": "position error of a pushed sprite",
    "others_drift": "drift of the others",
    "empty_drift": "drift after a click on nothing",
    "ratio_to_encoded": "pixel error / encoding the truth",
    "ratio_to_unchanged": "pixel error / predicting no change",
    "error_correlation": "correlation of e_pred and L_T",
    "error_correlation_ceiling": "... at best, in view of the noise",
    "error_correlation_uniform": "... for uniform actions",
    "error_correlation_ceiling_uniform": "... at best",
    "rollout_position_error": "position error after 1-5 steps",
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
    _report({f"vision on held-out scenes: {place}": scores for place, scores in figures.items()}, VISION_ROWS)
    write_figures(out, _without_nan(figures))
    return figures


def report_explore(weights: Path | None, vision: Path | None, scenes: int, out: Path | None) -> dict[str, Any]:
    """Evaluates T and D, prints a table, and writes the figures with the command that made them."""
    if scenes < 10:
        raise ValueError(f"--scenes is {scenes}; at least 10 are needed to fit the position probe.")
    agent = load_curious(load_vision(vision or SHIPPED / "vision"), weights or SHIPPED)
    figures = evaluate_explore(agent, scenes)
    _report({"imagination and curiosity on held-out scenes": figures}, EXPLORE_ROWS)
    write_figures(out, figures)
    return figures


def _report(tables: Mapping[str, Mapping[str, Any]], rows: dict[str, str]) -> None:
    """A figure a row: fits any terminal."""
    for title, scores in tables.items():
        table = Table("figure", "", title=title)
        for name, heading in rows.items():
            table.add_row(heading, _shown(scores.get(name, math.nan)))
        Console().print(table)


def write_figures(out: Path | None, figures: Mapping[str, Any]) -> None:
    """As JSON, with the command that made them."""
    if out is None:
        return
    record = {"command": command_line(), "figures": figures}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n")
    print(f"Raw figures: {out}")


def _shown(value: float | list[float]) -> str:
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    return "-" if math.isnan(value) else f"{value:.3g}"


def _without_nan(figures: Figures) -> dict[str, dict[str, float | None]]:
    """JSON has no NaN: a figure that does not exist there (FG-ARI of single sprites) is null."""
    return {
        place: {name: None if math.isnan(value) else value for name, value in scores.items()}
        for place, scores in figures.items()
    }
