"""Messages outside of training loops: warnings, and signs of progress during long work."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

AGAIN_EVERY = 4.0  # seconds between two plain lines about the same thing: nobody should think that it hangs


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
        text: what is being done, such as "filming".
        total: number of parts that it has, if that is known.

    Yields:
        a function to be told how many parts are done.
    """
    console, done, began = SteadyConsole(), threading.Event(), monotonic()
    if sys.stdout.isatty() and not console.is_dumb_terminal:
        middle = [] if total is None else [BarColumn(20), TextColumn("{task.completed}/{task.total}")]
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *middle, TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            line = bar.add_task(text, total=total)
            yield lambda count: bar.update(line, completed=count)
        return
    counted = 0

    def tell(count: int) -> None:
        nonlocal counted
        counted = count

    def remind() -> None:
        while not done.wait(AGAIN_EVERY):
            far = f" {counted}/{total}" if total else ""
            print(f"{text}{far} {monotonic() - began:.0f} s", flush=True)

    print(text, flush=True)
    threading.Thread(target=remind, daemon=True).start()
    try:
        yield tell
    finally:
        done.set()
