"""The log of a run: `log.jsonl`, TensorBoard, pictures, and a progress bar or, without a terminal, plain lines."""

import io
import json
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any, SupportsFloat

import numpy as np
from jaxtyping import Array, UInt8
from PIL import Image
from rich.progress import BarColumn, Progress, TextColumn

from cobra_rl.console import SteadyConsole
from cobra_rl.runs.tensorboard import EventFile
from cobra_rl.storage.files import explain, write_atomically

LOG = "log.jsonl"
RATE_WINDOW = 30.0  # seconds that the rate is averaged over
BAR_EVERY = 0.1  # seconds between two states of the bar: between them no value is read, so no device is waited for
START = 60.0  # seconds in which a run counts as starting
WORD_EVERY = 4.0  # seconds between two plain lines while a run starts: nobody should think that it hangs
LINE_EVERY = 30.0  # seconds between two plain lines later
COUNT_EVERY = 1.0  # seconds after which the bar says for how long a run has been busy

Scalars = Mapping[str, SupportsFloat]


class RunLog:
    """Log and progress display of a training loop, a context; neither a lost terminal nor TensorBoard stops a run.

    A run resumes from `start_step`, and what was logged after it is dropped; 0 is a new run, with an empty log. Of
    `columns`, the metrics to show beside the progress, the first are dropped last if there is no room.
    """

    def __init__(self, folder: Path, total_steps: int, title: str, start_step: int = 0, columns: Sequence[str] = ()):
        self.folder = folder
        self.total_steps = total_steps
        self.title = title
        self.columns = tuple(columns)
        self._start_step = start_step
        self._samples: deque[tuple[float, int]] = deque()  # (time, step) of what was shown in the rate window
        self._unseen: int | None = None  # the latest step, if it is not yet shown
        self._status = ""  # how far the run is, as it stands beside the bar if nothing keeps the run busy
        self._busy: list[threading.Event] = []  # the end of each thing that keeps the run busy, the innermost last
        self._said: dict[str, float] = {}  # when something that keeps the run busy was last said
        self._console = SteadyConsole()
        self._terminal = sys.stdout.isatty() and not self._console.is_dumb_terminal

    def __enter__(self) -> "RunLog":
        self._began = monotonic()
        path = self.folder / LOG
        kept, damaged = _lines_up_to(path, self._start_step)
        write_atomically(path, "".join(kept).encode())
        latest = json.loads(kept[-1]) if kept else {}  # what is shown until the next report
        self._latest: dict[str, SupportsFloat] = {name: n for name, n in latest.items() if isinstance(n, int | float)}
        self._stack = ExitStack()
        self._file = self._stack.enter_context(open(path, "ab", buffering=0))  # what cannot be written is not kept back
        self._tensorboard = EventFile(
            self.folder / "tensorboard",
            self._start_step + 1 if self._start_step else 0,
            self.say,
        )
        self._progress = None
        if self._terminal:
            width = self._console.width
            most = 3 * width // 10  # characters of the title
            heading = self.title if len(self.title) <= most else self.title[: most - 1] + "…"
            bar = 20 if width >= 100 else 10
            self._room = width - len(heading) - bar - 2  # for what stands beside the bar
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar),
                TextColumn("{task.fields[status]}", markup=False),
                console=self._console,
            )
            self._task = self._progress.add_task(heading, True, self.total_steps, self._start_step, status="")
            self._progress.start()
            self._stack.enter_context(suppress(OSError))  # that of the next line: the terminal may be gone
            self._stack.callback(self._progress.stop)
        if damaged:
            self.say(f"{path} had {damaged} damaged lines; they are left out.")
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            if self._unseen is not None:
                self._show(self._unseen, monotonic())

    def write(self, step: int, scalars: Scalars) -> None:
        """Log metrics as one line of JSON (NaN and infinity as null) and in TensorBoard."""
        self._latest.update(scalars)
        values = {name: float(value) for name, value in scalars.items()}
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        with self._named():
            self._file.write((json.dumps({"step": step, **finite}) + "\n").encode())
        self._tensorboard.scalars(step, values)

    def sync(self) -> None:
        """Put the log on the disk, so that it is never behind a checkpoint that is written next."""
        with self._named():
            os.fsync(self._file.fileno())

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder / LOG)) from error

    def picture(self, step: int, name: str, image: UInt8[Array | np.ndarray, "H W 3"]) -> None:
        """Keep a picture as `pictures/NAME_STEP.png` and in TensorBoard; if it cannot be written, print a warning."""
        picture = Image.fromarray(np.asarray(image))
        file = io.BytesIO()
        picture.save(file, format="PNG")
        try:
            write_atomically(self.folder / "pictures" / f"{name}_{step:08d}.png", file.getvalue())
        except OSError as error:
            self.say(f"A picture is lost: {explain(error)}.")
        self._tensorboard.picture(step, name, file.getvalue(), height=picture.height, width=picture.width)

    def progress(self, step: int, scalars: Scalars) -> None:
        """Show how far the run is; cheap enough for every step: metrics are read only if they are shown."""
        self._latest.update(scalars)
        now = monotonic()
        due = not self._samples or now - self._samples[-1][0] >= (BAR_EVERY if self._terminal else self._pause(now))
        if due:
            self._show(step, now)
        self._unseen = None if due else step

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        with suppress(OSError):  # the terminal may be gone
            self._console.print(text, markup=False, highlight=False, soft_wrap=not self._terminal)

    @contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """Show at once what the run is busy with, such as "compiling", and for how long."""
        since = monotonic()
        done = threading.Event()

        def show() -> None:
            self._said[text] = monotonic()
            seconds = round(self._said[text] - since)
            self._show_line(f"{text} {seconds} s" if seconds else text)

        def remind() -> None:
            while not done.wait(COUNT_EVERY if self._terminal else self._pause(monotonic())):
                if self._busy[-1:] == [done]:  # else something within it has its own reminder
                    show()

        self._busy.append(done)
        if self._terminal or since - self._said.get(text, -math.inf) >= LINE_EVERY:
            show()
        reminder = threading.Thread(target=remind, daemon=True)
        reminder.start()
        try:
            yield
        finally:
            self._busy.pop()
            done.set()
            reminder.join()
            if self._terminal:
                self._show_line(self._status)

    def _show_line(self, text: str, step: int | None = None) -> None:
        """Show a text beside the bar, or as a line of its own."""
        if self._progress is None:
            self.say(f"{self.title}  {text}")
        else:
            with suppress(OSError):
                self._progress.update(self._task, completed=step, status=text, refresh=True)

    def _pause(self, now: float) -> float:
        return WORD_EVERY if now - self._began < START else LINE_EVERY

    def _show(self, step: int, now: float) -> None:
        self._samples.append((now, step))
        while len(self._samples) > 2 and now - self._samples[1][0] >= RATE_WINDOW:
            self._samples.popleft()
        self._status = self._describe(step, self._room if self._terminal else sys.maxsize)
        self._show_line(self._status, step)

    def _describe(self, step: int, room: int) -> str:
        """Say how far the run is: "1,200/6,000  12.5/s  0:06:24 left  loss 0.0123", or less if there is no room."""
        parts = {"step": f"{step:,}/{self.total_steps:,}"}
        start, first = self._samples[0]
        end, last = self._samples[-1]
        if last > first and end > start:
            rate = (last - first) / (end - start)
            parts["rate"] = f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.3g}/s"
            parts["left"] = f"{timedelta(seconds=round((self.total_steps - step) / rate))} left"
        metrics = [name for name in self.columns if name in self._latest]
        parts |= {f"metric {name}": f"{name} {float(self._latest[name]):.4g}" for name in metrics}
        droppable = [f"metric {name}" for name in reversed(metrics[1:])] + ["rate", "left"]
        while len("  ".join(parts.values())) > room and droppable:
            parts.pop(droppable.pop(0), None)
        return "  ".join(parts.values())


def last_line(folder: Path) -> dict[str, Any]:
    """Return the newest metrics in the log of a run, with their step; nothing if there are none."""
    with suppress(OSError, ValueError, IndexError):
        line = json.loads((folder / LOG).read_text(encoding="utf-8", errors="replace").splitlines()[-1])
        return line if isinstance(line, dict) else {}
    return {}


def _lines_up_to(path: Path, step: int) -> tuple[list[str], int]:
    """Return the lines to keep (none of a new run, none after `step`), and how many are damaged."""
    kept = []
    damaged = 0
    if step == 0 or not path.exists():
        return kept, damaged
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except (ValueError, TypeError, KeyError, RecursionError):
            damaged += bool(line)
    return kept, damaged
