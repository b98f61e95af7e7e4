"""Messages outside of training loops: warnings, and signs of progress during long work."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

REMIND_EVERY = 4.0  # seconds between two plain lines about the same thing: nobody should think that it hangs


class SteadyConsole(Console):
    """A console that goes on silently once nobody reads what it prints; rich would end the process."""

    def on_broken_pipe(self) -> None:
        """Do nothing."""


def warn(text: str) -> None:
    """Print a line in yellow on stderr."""
    SteadyConsole(stderr=True).print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def working(text: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show that something is under way: a line that moves in a terminal, else a plain line at once and every 4 s.

    Args:
        text: What is being done, such as "filming".
        total: The number of parts that it has, if that is known.

    Yields:
        A function to be told how many parts are done.
    """
    console = SteadyConsole()
    if sys.stdout.isatty() and not console.is_dumb_terminal:
        middle = [] if total is None else [BarColumn(20), TextColumn("{task.completed}/{task.total}")]
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *middle,
            TimeElapsedColumn(),
            console=console,
            transient=True,
        ) as bar:
            line = bar.add_task(text, total=total)
            yield lambda count: bar.update(line, completed=count)
        return
    began = monotonic()
    over = threading.Event()
    counts = [0]  # the last is how many parts are done

    def remind() -> None:
        while not over.wait(REMIND_EVERY):
            progress = f" {counts[-1]}/{total}" if total else ""
            print(f"{text}{progress} {monotonic() - began:.0f} s", flush=True)

    print(text, flush=True)
    threading.Thread(target=remind, daemon=True).start()
    try:
        yield counts.append
    finally:
        over.set()
