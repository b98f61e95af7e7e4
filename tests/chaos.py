"""`make chaos`: what may go wrong in a run goes wrong, and a table says what was tried and what was lost.

Nothing may be lost: whatever happens to a run, the same command again ends as the run to which nothing happened, to
the bit. Runs are of the debug presets, on one core, for two threads may differ in the last bits. On two cores two
groups of parts (GROUPS) are tried side by side; Ray actors, which need both, come last.

    python tests/chaos.py [--short] [--only NAME ...] [--kills 30] [--seed 0] [--out results/chaos.json]
"""

import argparse
import functools
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
if CORES and __name__ == "__main__":
    os.sched_setaffinity(0, {random.choice(CORES)})
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # compiling is most of the time

from rich.console import Console
from rich.table import Table

import faults
import processes
import toy
from cobra_rl.cache import keep_compilations

SHORT = ("crash toy", "damage toy", "disk toy", "nan toy", "crash explore")
# By the seconds in results/chaos.json both take about as long; what is tried with vision alone is where vision is.
GROUPS = (("toy", "vision", "explore", "two processes", "output", "limited"), ("task", "baseline"))


class Tried(NamedTuple):
    """What a part of the chaos came to."""

    what: str
    tried: int  # how often something went wrong
    lost: list[str]  # what was lost, in words
    note: str = ""


def main() -> int:
    """Try all parts; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a part of it, in half a minute")
    parser.add_argument("--only", nargs="*", default=[], help="parts whose names hold one of these words")
    parser.add_argument("--kills", type=int, default=30, help="kills at random times for each phase")
    parser.add_argument("--every", type=int, default=1, help="of the states that crashes leave, try each n-th")
    parser.add_argument("--seed", type=int, default=0, help="of the random times")
    parser.add_argument("--out", type=Path, help="where to write what came of it as JSON")
    options = parser.parse_args()
    began = time.monotonic()
    rows = try_parts(options) if options.only or options.short or len(CORES) < 2 else try_side_by_side(options)
    show(rows, time.monotonic() - began)
    if options.out:
        record = {"command": "make chaos", "minutes": (time.monotonic() - began) / 60, "parts": rows}
        options.out.write_text(json.dumps(record, indent=2) + "\n")
    return int(any(row["lost"] for row in rows))


def try_side_by_side(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Try each group of parts in a process and on a core of its own, then those that need all cores."""
    told = ["--kills", str(options.kills), "--every", str(options.every), "--seed", str(options.seed)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for groups in (GROUPS, (("ray",),)):
            outs = [Path(folder, f"{'-'.join(words)}.json") for words in groups]
            running = [
                subprocess.Popen(
                    [sys.executable, __file__, *told, "--out", str(out), "--only", *words],
                    preexec_fn=functools.partial(os.sched_setaffinity, 0, {core}),
                )
                for words, out, core in zip(groups, outs, itertools.cycle(CORES))
            ]
            for words, process, out in zip(groups, running, outs, strict=True):
                process.wait()
                rows += json.loads(out.read_text())["parts"] if out.exists() else [crashed(words, process.returncode)]
    return rows


def crashed(words: tuple[str, ...], code: int) -> dict[str, Any]:
    """The row of a group of parts whose process left no results; it said why."""
    lost = f"all results: the process that tried it ended with exit code {code}"
    return Tried("chaos itself failed", 0, [lost])._asdict() | {"part": ", ".join(words), "seconds": 0.0}


def try_parts(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Try the parts that are asked for, one after the other."""
    keep_compilations()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, part in parts(Path(folder), options):
            if (options.only and not any(word in name for word in options.only)) or (
                options.short and name not in SHORT
            ):
                continue
            start, cpu = time.monotonic(), sum(os.times()[:4])
            try:
                tried = part()
            except Exception as error:  # the other parts and the table are worth more
                traceback.print_exc()
                tried = Tried("chaos itself failed", 0, [f"{type(error).__name__}: {error}"])
            seconds, used = time.monotonic() - start, sum(os.times()[:4]) - cpu
            rows.append(tried._asdict() | {"part": name, "seconds": round(seconds, 1)})
            lost = "; ".join(tried.lost) or "nothing"
            took = f"{seconds:.0f} s, {used:.0f} s of CPU"
            print(f"{name}: {tried.what}: {tried.tried} tried, lost: {lost} ({took})", flush=True)
    return rows


def parts(folder: Path, options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Tried]]]:
    """The parts by name, in the order in which they are tried."""
    world = faults.make_world(folder / "world")
    trains = {"toy": toy.train} | faults.phases(world)
    commands = processes.commands(world)
    places = (folder / str(number) for number in range(10**6))
    every = {"explore": 8} if options.short else {}
    for phase, train in trains.items():
        step = every.get(phase, options.every)
        yield f"crash {phase}", lambda train=train, step=step: crashes(train, next(places), step)
        yield f"damage {phase}", lambda train=train: damages(train, next(places))
        step = 1 if phase == "toy" else 6
        yield f"disk {phase}", lambda train=train, step=step: full_disks(train, next(places), step)
        yield f"nan {phase}", lambda train=train: poisons(train, next(places))
    for phase, command in commands.items():
        yield f"kill {phase}", lambda command=command: kills(command, next(places), options)
        which = processes.SIGNALS if phase == "vision" else processes.SIGNALS[:1]
        yield f"signals {phase}", lambda now=(command, which): Tried(*processes.signals(now[0], next(places), now[1]))
    vision = commands["vision"]
    yield "two processes", lambda: Tried(*processes.two_processes(vision, next(places)))
    yield "closed output", lambda: Tried(*processes.closed_outputs(vision, next(places)))
    yield "limited disk", lambda: Tried(*processes.limited_disk(vision, next(places)))
    yield "ray actors", lambda: Tried(*processes.killed_actors(world, next(places)))


def crashes(train: faults.Train, folder: Path, every: int) -> Tried:
    """Resume from what a death at every rename and fsync, before and after, would leave."""
    found = faults.crash_everywhere(train, folder, every)
    note = f"{found['points']} points, {found['states']} different states, copied at that moment: no process is killed"
    return Tried("as if it had died at a rename or an fsync", found["tried"], found["lost"], note)


def damages(train: faults.Train, folder: Path) -> Tried:
    """Damage each kind of file of a run that died on its way."""
    lost, tried = [], 0
    with faults.quiet():
        train(folder / "whole")
    expected = faults.outcome(folder / "whole")
    for name, damage in faults.DAMAGES.items():
        for number, place in enumerate(faults.damaged(train, folder / "damaged", damage)):
            tried += 1
            lost += [f"{name} ({number}): {what}" for what in faults.resumed(train, place, expected)]
    return Tried("a file was damaged", tried, lost)


def full_disks(train: faults.Train, folder: Path, every: int) -> Tried:
    """Let the disk be full from the n-th write on."""
    lost, tried = [], 0
    with faults.quiet():
        train(folder / "whole")
    expected = faults.outcome(folder / "whole")
    for place, sentence in faults.full_disks(train, folder, every):
        tried += 1
        if str(place) not in sentence or "free some space" not in sentence:
            lost.append(f"the sentence says too little: {sentence}")
        lost += faults.resumed(train, place, expected)
    return Tried("the disk was full", tried, lost)


def poisons(train: faults.Train, folder: Path) -> Tried:
    """Let a metric, then a weight be no number: nothing of it may be saved."""
    with faults.quiet():
        train(folder / "whole")
    found = list(faults.poisoned(train, folder, faults.outcome(folder / "whole")))
    return Tried("a number was NaN", len(found), [f"{what}: {each}" for what, lost in found for each in lost])


def kills(command: list[str], folder: Path, options: argparse.Namespace) -> Tried:
    """Kill a command at random times until it is finished, again and again."""
    times = random.Random(options.seed)
    return Tried(*processes.kills(command, folder, options.kills, times))


def show(rows: list[dict[str, Any]], seconds: float) -> None:
    """Print the table."""
    table = Table("part", "what went wrong", "tried", "lost", "note", title=f"Chaos, {seconds / 60:.1f} minutes")
    for row in rows:
        table.add_row(row["part"], row["what"], str(row["tried"]), "\n".join(row["lost"]) or "nothing", row["note"])
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
