"""A table of the runs in a folder: their task, progress, main metric and time, also of running and damaged ones."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Column, Table

from cobra_rl.parts import short_name
from cobra_rl.reporting.tables import share
from cobra_rl.runs.folder import RECORD, holder, refuse_links, seeds_in
from cobra_rl.runs.log import LOG
from cobra_rl.runs.loop import CHECKPOINTS
from cobra_rl.runs.worlds import name_of_world
from cobra_rl.storage import checkpoint
from cobra_rl.storage.files import read_json

# The metric that one waits for, by phase: its name in the log, and how it is called here.
AWAITED = {
    "vision": (("fg_ari_attention", "FG-ARI"), ("mse", "squared error")),
    "explore": (("hit_rate", "hits"), ("changed", "changes")),
    "task": (("success", "success"),),
    "baseline": (("success", "success"),),  # of version 0.2, in which it was a phase of its own
}
SEEDED = ("task", "baseline")  # phases whose runs have a folder for each seed, or group of seeds
SHARES = ("hits", "changes", "success")  # written in percent


class RunLine(NamedTuple):
    """A row of the table."""

    folder: Path
    what: str  # such as "sorting, 5 seeds"
    far: str  # such as "600/1,000"
    good: str  # such as "success 97.0%"
    since: str  # of a running one when it began, else when it last changed
    state: str  # running, finished, stopped, or what is wrong


def read_runs(folder: Path) -> list[RunLine]:
    """Describe all runs below a folder, or the folder itself; whatever is in them, each has its line."""
    return [_read_run(path.parent) for path in sorted(folder.rglob(RECORD))]


def print_runs(lines: list[RunLine], folder: Path) -> None:
    """Print a row per run."""
    heads = [Column(head, overflow="fold") for head in ("run", "how far", "how good", "since")]  # no path is cut
    table = Table(*heads, title=f"Runs in {folder}", expand=False, padding=(0, 1, 0, 0))
    for line in lines:
        name = line.folder.relative_to(folder) if line.folder != folder else line.folder.name
        table.add_row(f"{name}\n{line.what}", f"{line.far}\n{line.state}", line.good, line.since)
    Console().print(table)


def _read_run(folder: Path) -> RunLine:
    try:
        refuse_links(folder)
    except ValueError as error:
        return RunLine(folder, str(error), "?", "", "", "damaged")
    written = (folder / RECORD, *folder.rglob(LOG), *folder.rglob("step_*"))
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(max(path.stat().st_mtime for path in written)))
    held = holder(folder)
    if held is not None:
        since = held.rpartition("since ")[2][:16] or since
    try:
        settings = read_json(folder / RECORD).get("settings")
        if not isinstance(settings, dict) or settings.get("phase") not in AWAITED:
            raise ValueError("it holds no settings of a run")
        far, finished = _how_far(folder, settings, running=held is not None)
        state = _lost_world(folder, settings) or ("running" if held else "finished" if finished else "stopped")
        return RunLine(folder, _what(settings), far, _how_good(folder, settings), since, state)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{RECORD} is damaged: {str(error).removeprefix(str(folder / RECORD)).strip()}"
        return RunLine(folder, reason, "?", "", since, "running" if held else "damaged")


def _what(settings: Mapping[str, Any]) -> str:
    if settings["phase"] not in SEEDED:
        return f"{settings['phase']}, seed {settings.get('seed')}"
    agent = settings.get("agent") or settings.get("config", {}).get("agent", "cobra")
    seeds = settings.get("seed_count", 1)
    by = "" if agent == "cobra" else f"{short_name(str(agent))}, "
    return f"{by}{settings['problem']['task']}, {seeds} seed{'s' * (seeds != 1)}".replace("_", " ")


def _how_far(folder: Path, settings: Mapping[str, Any], running: bool) -> tuple[str, bool]:
    """Return the steps that are done, of all seeds together, and whether that is all."""
    if settings["phase"] not in SEEDED:
        done = _steps(folder, running)
        total = settings["config"]["steps"]
        return f"{done:,}/{total:,}", done >= total
    if settings.get("steps") is None:  # a saved agent
        return "agent", True
    first = settings.get("first_seed", 0)
    seeds = range(first, first + settings.get("seed_count", 1))
    total = settings["steps"] * len(seeds)
    each = settings.get("config", {}).get("envs", 1)  # environment steps in a step
    done = 0
    for checkpoints in folder.glob(f"seed*/{CHECKPOINTS}"):
        wanted = set(seeds_in(checkpoints.parent.name)) & set(seeds)
        done += len(wanted) * min(settings["steps"], each * _steps(checkpoints.parent, running))
    return f"{done:,}/{total:,}", done >= total and (folder / "result.json").exists()


def _steps(folder: Path, running: bool) -> int:
    """Return the step of the newest checkpoint; a running one may have logged a later one."""
    steps = [step for step, _ in checkpoint.checkpoints(folder / CHECKPOINTS)]
    logged = _latest(folder / LOG, "step") if running else None
    return max([0, *steps, int(min(max(logged or 0, 0), 1e12))])


def _how_good(folder: Path, settings: Mapping[str, Any]) -> str:
    """Return the latest value of the metric that one waits for; of a finished task, the success at its end."""
    with suppress(ValueError, TypeError, KeyError, ZeroDivisionError):  # no result, or a damaged one
        scores = [float(seed["success_test"]) for seed in read_json(folder / "result.json")["seeds"]]
        return f"success, test {share(sum(scores) / len(scores))}"
    logs = [folder / LOG] if settings["phase"] not in SEEDED else sorted(folder.glob(f"seed*/{LOG}"))
    for field, title in AWAITED[settings["phase"]]:
        if found := [value for log in logs if (value := _latest(log, field)) is not None]:
            mean = sum(found) / len(found)
            return f"{title} {share(mean) if title in SHARES else f'{mean:.3g}'}"
    return "-"


def _latest(log: Path, field: str) -> float | None:
    """Return the last value of a metric in a log that may be damaged."""
    with suppress(OSError):
        for line in reversed(log.read_text(encoding="utf-8", errors="replace").splitlines()):
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                if isinstance(value := json.loads(line)[field], int | float):
                    return float(value)
    return None


def _lost_world(folder: Path, settings: Mapping[str, Any]) -> str:
    """Return where the world of a task lay, if it is there no longer."""
    world = settings.get("world")
    if not world or name_of_world(world.get("sha256")):
        return ""
    path = Path(str(world.get("path")))
    kept = (folder / "world" / "world.json").exists() or (path / "world.json").exists()
    return "" if kept else f"its world is gone: {path}"
