"""Independent jobs as Ray tasks: on the cores of this machine, or on a cluster. Needs the extra `[ray]`.

Scheduling, placement and retries are Ray's: a job whose worker dies is tried again, and goes on from what it had saved.
"""

import math
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from cobra_rl.collect.ray_start import cause_of, environment_here, ray, start_ray
from cobra_rl.console import SteadyConsole
from cobra_rl.runs.log import last_line
from cobra_rl.runs.signals import Stopped, StopRequested

RETRIES = 5  # of a job whose worker dies
LOOK_EVERY = 1.0  # seconds between two looks at how far the jobs are
TIME_TO_SAVE = 60.0  # seconds that jobs have to save what they did, when all is to stop

# By default JAX takes three quarters of a GPU when it starts, so that a second job would find none.
SHARED_GPU = {"XLA_PYTHON_CLIENT_PREALLOCATE": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false")}

Jobs = Mapping[str, tuple[Callable[[], Any], Path]]  # by name: what to do, and the folder of its log


def spread(jobs: Jobs, workers: int, address: str | None = None) -> None:
    """Do jobs in Ray's processes, and show how far each is.

    Args:
        jobs: The jobs, which travel to the workers; on a cluster their folders are on a disk that all machines see.
        workers: The number of jobs at a time on this machine; a cluster does as many as it has cores.
        address: The address of a cluster; by default Ray is started on this machine.

    Raises:
        ChildProcessError: If some jobs fail, once all others are done; it says which and why.
        Stopped: If a signal asked to stop; all jobs have saved what they did.
    """
    start_ray(workers, address)
    try:
        has = ray.cluster_resources()
        at_once = min(len(jobs), max(int(has.get("CPU", 1)), 1))
        share = gpu_share(has.get("GPU", 0.0), at_once)
        work = ray.remote(
            num_cpus=1,
            num_gpus=share,
            max_retries=RETRIES,
            runtime_env={"env_vars": environment_here(address) | (SHARED_GPU if share else {})},
        )(_do)
        names = {work.remote(*job): name for name, job in jobs.items()}
        with StopRequested(lambda text: print(text, flush=True)) as stop:
            _wait(names, jobs, stop)
    finally:
        ray.shutdown()


def gpu_share(gpus: float, at_once: int) -> float:
    """Return the share of a GPU that each of several jobs gets, so that as many run at a time as without GPUs.

    Ray shows a job only the GPU that its share belongs to; without a share it would see all of them, or none.
    """
    share = min(gpus / max(at_once, 1), 1.0)
    return share if share == 1.0 else math.floor(share * 1e4) / 1e4  # Ray counts in parts of 10,000


def _do(job: Callable[[], Any], folder: Path) -> Any:
    """Do a job; this runs in a worker."""
    if not folder.parent.exists():
        raise FileNotFoundError(f"{folder.parent} is not on this machine; give --out on a disk that all machines see")
    return job()


def _wait(names: Mapping[Any, str], jobs: Jobs, stop: StopRequested) -> None:
    """Wait for all jobs, whose names are given by future, and show a table of their progress."""
    done = []
    failures = {}
    waiting = list(names)
    console = SteadyConsole()
    with Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else nullcontext() as live:
        while waiting and not stop.requested:
            ready, waiting = ray.wait(waiting, num_returns=1, timeout=LOOK_EVERY)
            for future in ready:
                name = names[future]
                try:
                    ray.get(future)
                    done.append(name)
                    console.print(f"{name}: done, {len(done)} of {len(names)}", highlight=False)
                except ray.exceptions.RayError as error:
                    failures[name] = cause_of(error)
                    console.print(f"{name}: failed, {failures[name]}", highlight=False, soft_wrap=True)
            if live is not None:
                live.update(_progress_table(jobs, done, failures), refresh=True)
    if stop.requested:
        for future in waiting:
            ray.cancel(future, force=False)  # as Ctrl-C would: they save what they did
        ray.wait(waiting, num_returns=len(waiting), timeout=TIME_TO_SAVE)
        raise Stopped(
            f"Stopped; {len(done)} of {len(names)} are done, and the same command goes on from here.",
            stop.signal or 0,
        )
    if failures:
        name, cause = next(iter(failures.items()))
        raise ChildProcessError(f"{len(failures)} of {len(names)} failed, such as {name}: {cause}.")


def _progress_table(jobs: Jobs, done: Collection[str], failures: Collection[str]) -> Table:
    table = Table("job", "how far", "success")
    for name, (_, folder) in jobs.items():
        latest = last_line(folder)
        step = f"step {int(latest.get('env_steps', latest['step'])):,}" if "step" in latest else "waiting"
        far = "done" if name in done else "failed" if name in failures else step
        success = f"{latest['success']:.0%}" if isinstance(latest.get("success"), float) else ""
        table.add_row(name, far, success)
    return table
