"""Commands in processes of their own that are killed, stopped, started twice, or run out of room or of readers."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faults
from running import ON_ONE_CORE

LONGEST = 600.0  # seconds that a command may take
ON_ALL_CORES = "from cobra_rl.cli import main\n"
SIGNALS = ((signal.SIGTERM,), (signal.SIGINT,), (signal.SIGHUP,), (signal.SIGINT, signal.SIGINT))
Process = subprocess.Popen
Found = tuple[str, int, list[str], str]  # what went wrong, how often, what was lost, a note

_known: dict[str, tuple[dict[str, str], float]] = {}  # what a command leaves if nothing happens to it, and its seconds


def commands(world: Path) -> dict[str, list[str]]:
    """The four phases as one types them, long enough to be killed on their way; `world` has what they build on."""
    often = ["--preset", "debug", "--steps", "16", "--config.evaluate-every", "4"]
    return {
        "vision": ["train", "vision", *often],
        "explore": ["train", "explore", *often, "--vision", str(world / "vision")],
        "task": ["solve", "goal_finding_new_shape", "--preset", "debug", "--world", str(world)]
        + ["--steps", "1200", "--final", "1"],
        "baseline": ["baseline", "goal_finding_new_shape", "--preset", "debug", "--steps", "800", "--final", "1"],
    }


def start(command: list[str], folder: Path, first: str = "", code: str = ON_ONE_CORE, **options: Any) -> Process:
    """Start `cobra COMMAND --out folder` on one core, after the code `first`; its output is read from the process."""
    words = [sys.executable, "-c", f"{first}\n{code}main()", *command, "--out", str(folder)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | options
    return subprocess.Popen(words, text=True, **streams)


def whole(command: list[str], folder: Path) -> tuple[dict[str, str], float]:
    """What a run leaves to which nothing happens, and how long it takes once its code is compiled."""
    key = " ".join(command)
    if key not in _known:
        for name in ("compiled", "whole"):
            began, (code, output) = time.monotonic(), finished(start(command, folder / name))
            assert code == 0, output
        _known[key] = faults.outcome(folder / "whole"), time.monotonic() - began
    return _known[key]


def finished(process: Process) -> tuple[int, str]:
    """Wait for the end: exit code and output."""
    output, _ = process.communicate(timeout=LONGEST)
    return process.returncode, output or ""


def ended_well(command: list[str], folder: Path, expected: dict[str, str]) -> list[str]:
    """Give the command once more, and name what is lost."""
    code, output = finished(start(command, folder))
    return faults.differences(expected, faults.outcome(folder)) if code == 0 else [f"exit code {code}: {output[-300:]}"]


def kills(command: list[str], folder: Path, count: int, times: random.Random) -> Found:
    """Kill the command at random times, and give it again until it comes to its end; then begin anew."""
    expected, seconds = whole(command, folder)
    lost, killed, runs = [], 0, 0
    while killed < count:
        place = folder / f"run{runs}"
        process = start(command, place, stdout=subprocess.DEVNULL)
        try:
            process.wait(times.uniform(1.0, seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
            continue
        lost += [f"exit code {process.returncode}"] if process.returncode else []
        lost += faults.differences(expected, faults.outcome(place))
        runs += 1
    lost += ended_well(command, folder / f"run{runs}", expected)
    return "killed at a random time", killed, lost, f"{runs + 1} runs came to their end"


def until(process: Process, holds: Callable[[], Any]) -> None:
    """Wait until something holds, or the process is over."""
    while not holds() and process.poll() is None:
        time.sleep(0.02)


def signals(command: list[str], folder: Path, which: Sequence[tuple[signal.Signals, ...]] = SIGNALS) -> Found:
    """Stop a run that is under way by each signal, and by Ctrl-C twice."""
    expected, _ = whole(command, folder)
    lost = []
    for numbers in which:
        name = " ".join(number.name for number in numbers)
        place = folder / name.replace(" ", "-")
        process = start(command, place, "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)")  # unlike nohup
        until(process, lambda place=place: list(place.rglob("step_*.safetensors*")))
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.05)
        code, output = finished(process)
        said = "the same command goes on from here" in output and "Stopping after this step" in output
        said |= len(numbers) > 1 and "stopped at once" in output  # unless it had stopped before the second signal
        if code != 128 + numbers[0] or not said or "Traceback" in output:
            lost.append(f"{name}: exit code {code}, {output[-300:]!r}")
        lost += [f"{name}: {what}" for what in ended_well(command, place, expected)]
    return "stopped by signals", len(which), lost, "exit codes 128 + signal"


def two_processes(command: list[str], folder: Path) -> Found:
    """Start the same run twice at once."""
    expected, _ = whole(command, folder)
    place = folder / "both"
    first = start(command, place)
    until(first, lambda: (place / "run.json").exists())
    code, output = finished(start(command, place))
    refused = code == 2 and re.search(rf"is in use by process {first.pid} since \d{{4}}", output.replace("\n", " "))
    lost = [] if refused else [f"the second was not refused: exit code {code}, {output[-300:]}"]
    code, output = finished(first)
    lost += [f"exit code {code}: {output[-300:]}"] if code else []
    return "two processes in one folder", 1, lost + faults.differences(expected, faults.outcome(place)), ""


def closed_outputs(command: list[str], folder: Path) -> Found:
    """Read only the first line of the output, or close it at the start."""
    expected, _ = whole(command, folder)
    process = start(command, folder / "head")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    lost = [f"head: exit code {process.returncode}"] if process.wait(LONGEST) else []
    lost += faults.differences(expected, faults.outcome(folder / "head"))
    process = start(command, folder / "closed", "import os; os.close(1); os.close(2)", stdout=None, stderr=None)
    lost += [f"closed: exit code {process.returncode}"] if process.wait(LONGEST) else []
    return "nobody read the output", 2, lost + faults.differences(expected, faults.outcome(folder / "closed")), ""


def limited_disk(command: list[str], folder: Path) -> Found:
    """Let no file be as large as a checkpoint, by the limit of the system."""
    expected, _ = whole(command, folder)
    place, probe = folder / "limited", start(command, folder / "probe", stdout=subprocess.DEVNULL)
    until(probe, lambda: list((folder / "probe").rglob("step_*.safetensors")))
    probe.kill()
    probe.wait()
    size = next((folder / "probe").rglob("step_*.safetensors")).stat().st_size - 1
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))"
    code, output = finished(start(command, place, limit))
    said = re.search(
        r"cobra: \S+step_\d+\.safetensors: File too large; free some space.*; nothing was saved yet", output
    )
    lost = [] if code == 2 and said else [f"exit code {code}: {output[-300:]}"]
    return "files could not grow", 1, lost + ended_well(command, place, expected), f"largest file {size:,} bytes"


def killed_actors(world: Path, folder: Path, seconds: float = 45.0, every: float = 10.0) -> Found:
    """Kill a Ray actor every 10 seconds: all are replaced and counted, and at most a third of the rate is lost."""
    often = ["--preset", "debug", "--steps", "1000000", "--config.evaluate-every", "50", "--config.updates", "1"]
    command = ["train", "explore", *often, "--vision", str(world / "vision"), "--runtime", "ray", "--actors", "2"]
    rates, lost, killed = [], [], 0
    for name, kill in (("quiet", False), ("killed", True)):
        place = folder / name
        process = start(command, place, "import os; os.sched_setaffinity(0, range(os.cpu_count()))", ON_ALL_CORES)
        until(process, lambda place=place: rows(place))
        began, known = time.monotonic(), 0.0
        while time.monotonic() - began < seconds and process.poll() is None:
            time.sleep(every)
            steps = rows(place)[-1]["env_steps"]
            # Three failures in a row stop a run by design: none is killed before anything came since the last one.
            if kill and steps > known and (actors := descendants(process.pid, "ray::_Player")):
                os.kill(actors[0], signal.SIGKILL)
                killed, known = killed + 1, steps
        process.send_signal(signal.SIGTERM)
        code, output = finished(process)
        lost += [] if code == 143 else [f"exit code {code}: {output[-300:]}"]
        first, *_, last = rows(place)
        rates.append((last["env_steps"] - first["env_steps"]) / (last["minutes"] - first["minutes"]) / 60)
        if kill and not killed - 1 <= output.count("An actor is replaced") <= killed:
            lost.append(
                f"{killed} actors were killed and {output.count('An actor is replaced')} replaced: {output[-300:]}"
            )
        if kill and last["replaced"] < killed - 2:
            lost.append(f"the log counts {last['replaced']} of {killed}")
    lost += [] if killed else ["no actor was killed"]
    if rates[1] < rates[0] * 2 / 3:
        lost.append("more than a third of the rate")
    return "Ray actors were killed", killed, lost, f"{rates[0]:.0f} steps/s, with kills {rates[1]:.0f}"


def rows(folder: Path) -> list[dict[str, float]]:
    """The lines of a log."""
    path = folder / "log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def descendants(process: int, title: str) -> list[int]:
    """Processes that this one started, or those did, whose title begins so."""
    found, parents = [], {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = {process}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    for pid in sorted(family):
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").startswith(title):
                found.append(pid)
        except OSError:
            continue
    return found
