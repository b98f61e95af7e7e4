"""A wheel, in a fresh environment and an empty folder: what it ships is enough. Run by `make test-wheel` only."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILT = (".*", "build", "dist", "runs", "*.egg-info", "__pycache__")  # what is not a part of the source
TASK = "goal_finding_new_position"
COMMANDS = {  # with the file that each is to leave
    "play-random sorting --steps 3": "runs/play-random/sorting-train-paper.gif",
    f"watch {TASK} --frames 2 --world structured": f"runs/watch/{TASK}-train.gif",
    f"solve {TASK} --preset debug --steps 20 --final 2": f"runs/solve/{TASK}-debug/film.gif",
    f"evaluate runs/solve/{TASK}-debug --episodes 2 --out metrics.json": "metrics.json",
    "figures performance": "runs/figures/performance.png",
    "report --world structured": "runs/report.html",
}


@pytest.fixture(scope="module")
def cobra(tmp_path_factory):
    """The command of a wheel that was built from a copy of the source."""
    place = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, place / "source", symlinks=True, ignore=shutil.ignore_patterns(*BUILT))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", place, place / "source"], check=True)
    (wheel,) = place.glob("*.whl")
    shutil.rmtree(place / "source")  # nothing may be found there
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    pip[0] = str(place / "venv" / "bin" / "python")
    subprocess.run([*pip, "install", "--constraint", ROOT / "constraints.txt", wheel], check=True)
    return place / "venv" / "bin" / "cobra"


@pytest.mark.wheel
def test_a_wheel_works_in_an_empty_folder(cobra, tmp_path):
    ours = ("PYTHON", "JAX_", "XLA_")  # settings of the tests, which users do not have
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env |= {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    folder = tmp_path / "empty"
    folder.mkdir()
    for command, left in COMMANDS.items():
        subprocess.run([cobra, *command.split()], cwd=folder, env=env, check=True)
        assert (folder / left).stat().st_size > 0, command
