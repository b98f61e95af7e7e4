"""The `cobra` command in a process of its own, on one core, for two threads may differ in the last bits."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ON_ONE_CORE = """
import os
cores, worker = sorted(os.sched_getaffinity(0)), os.environ.get("PYTEST_XDIST_WORKER", "gw0")
os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})  # workers of pytest on different cores
from cobra_rl.cli import main
"""
SERVE = f"""{ON_ONE_CORE}
import gc, json, sys
gc.set_threshold(100_000, 20, 100)  # as in conftest.py
for line in sys.stdin:
    code = 0
    try:
        main(json.loads(line))
    except SystemExit as end:
        code = end.code
    print("ended with", code, flush=True)
"""

Cobra = Callable[..., str]


@contextlib.contextmanager
def on_one_core() -> Iterator[Cobra]:
    """One process that runs one command after the other, so that what they share is imported and compiled once.

    Yields:
        `cobra(command, folder, stop_at=None, code=0)`: the output of `cobra COMMAND --out folder`, which must end with
        this code. It gets SIGTERM once the file `stop_at` exists.
    """
    pipe = subprocess.PIPE
    serve = [sys.executable, "-u", "-c", SERVE]
    env = os.environ | {"GLIBC_TUNABLES": ""}  # no second start for the sake of huge pages, which would lose its input
    with subprocess.Popen(serve, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdin is not None

        def cobra(command: Sequence[str], folder: Path, stop_at: Path | None = None, code: int = 0) -> str:
            print(json.dumps([*command, "--out", str(folder)]), file=process.stdin, flush=True)
            while stop_at is not None and not stop_at.exists() and process.poll() is None:
                time.sleep(0.02)
            if stop_at is not None:
                process.send_signal(signal.SIGTERM)
            output = "".join(_until_it_ends(process))
            assert output.endswith(f"ended with {code}\n"), output
            return output

        yield cobra
        process.stdin.close()


def _until_it_ends(process: subprocess.Popen) -> Iterator[str]:
    for line in process.stdout or ():
        yield line
        if line.startswith("ended with "):
            return
