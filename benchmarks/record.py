"""What the benchmarks share: a table of rates, and the raw figures with the command and the machine."""

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table


def show(figures: dict[str, dict[str, float]]) -> None:
    """A row a setting, a column a figure."""
    table = Table("", *next(iter(figures.values())))
    for name, row in figures.items():
        table.add_row(name, *(f"{value:.3g}" for value in row.values()))
    Console().print(table)


def write(out: Path, versions: dict[str, str] | None = None, **record: Any) -> None:
    """As JSON; `versions` are of other libraries than JAX."""
    command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "jax": jax.__version__} | (versions or {})
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"command": command, "machine": machine} | record, indent=2) + "\n")
    print(f"Raw figures: {out}")
