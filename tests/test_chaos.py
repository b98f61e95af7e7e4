"""The short form of `make chaos`: whatever goes wrong, nothing is lost."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="files are locked by flock")
def test_nothing_is_lost(tmp_path):
    """In a process of its own, on one core: two threads may differ in the last bits."""
    out = tmp_path / "chaos.json"
    command = [sys.executable, str(Path(__file__).with_name("chaos.py")), "--short", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("lost: nothing") == 4
    assert "crash explore" in out.read_text()
