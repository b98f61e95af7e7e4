"""The task phase's speed, and that of encoding, before and after a change, by turns in one run.

    git worktree add /tmp/before COMMIT
    .venv/bin/python -m benchmarks.speed.before_after --before /tmp/before [--out results/benchmark_before_after.json]

Each turn runs `benchmarks/speed/task.py` of this checkout in a process of its own, with the package of either checkout
and the world that it ships. The medians over the turns are compared. Nothing else should run meanwhile.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.tools.record import show, write

ROOT = Path(__file__).resolve().parents[2]


def measure(source: Path, seconds: float) -> dict[str, float]:
    """Return what `benchmarks/speed/task.py` measures of the package in `source`."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "task.json")
        command = [sys.executable, "-m", "benchmarks.speed.task", "--seconds", str(seconds), "--out", str(out)]
        variables = os.environ | {"PYTHONPATH": str(source.resolve())}
        subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.DEVNULL, check=True)
        return next(iter(json.loads(out.read_text())["figures"].values()))


def main() -> None:
    """Measure by turns, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the older state")
    parser.add_argument("--commit", default="", help="what is recorded as the older state")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--out", type=Path, default=Path("results", "benchmark_before_after.json"))
    options = parser.parse_args()
    sources = {"before": options.before / "src", "after": ROOT / "src"}
    runs = {name: [] for name in sources}
    for _ in range(options.turns):
        for name, source in sources.items():
            runs[name].append(measure(source, options.seconds))
    names = [name for name in runs["after"][0] if not name.startswith("share")]
    medians = {which: {name: statistics.median(run[name] for run in runs[which]) for name in names} for which in runs}
    medians["ratio"] = {name: medians["after"][name] / medians["before"][name] for name in names}
    show(medians)
    write(options.out, before_commit=options.commit, figures=medians, turns=runs)


if __name__ == "__main__":
    main()
