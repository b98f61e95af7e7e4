"""What the benchmarks share: a table of rates, and raw numbers written with the command and the machine."""

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]


def show(metrics: dict[str, dict[str, float]]) -> None:
    """Print a table with one row per metric and one column per setting."""
    table = Table("", *metrics)
    for name in next(iter(metrics.values())):
        table.add_row(name, *(f"{column[name]:.3g}" for column in metrics.values()))
    Console().print(table)


def write(out: Path, versions: dict[str, str] | None = None, **record: Any) -> None:
    """Write a record as JSON, with the command and the machine.

    Args:
        out: The file.
        versions: Versions of other libraries than JAX.
        record: What was measured.
    """
    module = ".".join(Path(sys.argv[0]).resolve().relative_to(ROOT).with_suffix("").parts)
    command = " ".join(["python", "-m", module, *sys.argv[1:]])
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "jax": jax.__version__} | (versions or {})
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"command": command, "machine": machine} | record, indent=2) + "\n")
    print(f"Raw numbers: {out}")
