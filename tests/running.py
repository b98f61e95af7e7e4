"""The `cobra` command in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ON_ONE_CORE = """
import os
cores, worker = sorted(os.sched_getaffinity(0)), os.environ.get("PYTEST_XDIST_WORKER", "gw0")
os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})  # workers of pytest on different cores
from cobra_rl.cli import main
main()
"""

QUICK = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # with conftest.py's settings: compiling is most of it


def cobra(command: Sequence[str], folder: Path, stop_at: Path | None = None, code: int = 0) -> str:
    """The output of `cobra COMMAND --out folder`, which must end with this code; SIGTERM once `stop_at` exists.

    On one core, for two threads may differ in the last bits.
    """
    with subprocess.Popen(
        [sys.executable, "-c", ON_ONE_CORE, *command, "--out", str(folder)],
        env=os.environ | QUICK,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        while stop_at is not None and not stop_at.exists() and process.poll() is None:
            time.sleep(0.02)
        if stop_at is not None:
            process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=500)
    assert process.returncode == code, output
    return output
