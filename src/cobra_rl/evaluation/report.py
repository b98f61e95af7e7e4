"""Figures of a vision module as tables and JSON."""

import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cobra_rl.evaluation.vision import evaluate_suite, evaluate_vision
from cobra_rl.pretrained import SHIPPED, load_vision


def report_vision(weights: Path | None, scenes: int, suite: bool, out: Path | None) -> dict:
    """Evaluates, prints, and writes the figures with the command that made them."""
    if scenes < 10:
        raise ValueError(f"--scenes is {scenes}; at least 10 are needed to fit and test the probes.")
    vision = load_vision(weights or SHIPPED / "vision")
    figures = (
        evaluate_suite(vision, scenes) if suite else {"paper/exploration/train": evaluate_vision(vision, scenes=scenes)}
    )
    console = Console()
    names = list(next(iter(figures.values())))
    table = Table("", *figures, title="vision on held-out scenes")
    for name in names:
        table.add_row(name, *(f"{column[name]:.4g}" if name in column else "" for column in figures.values()))
    console.print(table)
    record = {"command": "cobra " + " ".join(sys.argv[1:]), "figures": figures}
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(record, indent=2) + "\n")
        console.print(f"Raw figures: {out}")
    return record
