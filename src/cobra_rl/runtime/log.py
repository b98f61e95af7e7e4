"""The log of a run: `log.jsonl`, TensorBoard, pictures, and a progress bar or, without a terminal, plain lines."""

import json
import math
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from time import monotonic, time_ns
from typing import SupportsFloat

import numpy as np
from jaxtyping import Array, UInt8
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from tensorboardX import SummaryWriter

from cobra_rl.runtime.storage import write_atomically

RATE_WINDOW = 30.0  # seconds that the rate is averaged over
BAR_EVERY = 0.1  # seconds between two states of the bar: between them no value is read, so no device is waited for
LINE_EVERY = 30.0  # seconds between two plain lines

Scalars = Mapping[str, SupportsFloat]


class RunLog:
    """Used by a training loop as a context; `columns` are the names of the figures to show beside the progress.

    A run that resumes passes the step of its checkpoint as `start_step`: what was logged after that step is dropped,
    so that the log is that of a run never interrupted. A `start_step` of 0 is a new run, with an empty log.
    """

    def __init__(self, folder: Path, total_steps: int, title: str, start_step: int = 0, columns: Sequence[str] = ()):
        self.folder, self.total_steps, self.title, self.columns = folder, total_steps, title, tuple(columns)
        self._start_step = start_step
        self._latest: dict[str, SupportsFloat] = {}
        self._samples: deque[tuple[float, int]] = deque()  # (time, step) of what was shown in the rate window
        self._unseen: int | None = None  # the latest step, if it is not yet shown
        self._console = Console()
        self._terminal = sys.stdout.isatty() and not self._console.is_dumb_terminal

    def __enter__(self) -> "RunLog":
        path = self.folder / "log.jsonl"
        write_atomically(path, "".join(_lines_up_to(path, self._start_step)).encode())
        self._stack = ExitStack()
        self._file = self._stack.enter_context(open(path, "a", encoding="utf-8"))
        first = self._start_step + 1 if self._start_step else 0
        self._tensorboard = SummaryWriter(
            str(self.folder / "tensorboard"),
            purge_step=first,
            flush_secs=30,
            filename_suffix=f".{time_ns()}",  # else a run started within the same second overwrites the file
        )
        self._stack.callback(self._tensorboard.close)
        self._progress = None
        if self._terminal:
            title, status = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[status]}"))
            self._progress = Progress(title, BarColumn(20), status, console=self._console)
            self._task = self._progress.add_task(self.title, total=self.total_steps, status="")
            self._progress.update(self._task, completed=self._start_step)
            self._stack.enter_context(self._progress)
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            if self._unseen is not None:
                self._show(self._unseen, monotonic())

    def write(self, step: int, scalars: Scalars) -> None:
        """One line of JSON (NaN and infinity as null), and TensorBoard."""
        self._latest.update(scalars)
        values = {name: float(value) for name, value in scalars.items()}
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._file.write(json.dumps({"step": step, **finite}) + "\n")
        self._file.flush()
        for name, value in values.items():
            self._tensorboard.add_scalar(name, value, step)

    def picture(self, step: int, name: str, image: UInt8[Array | np.ndarray, "H W 3"]) -> None:
        """`pictures/NAME_STEP.png`, and TensorBoard."""
        pixels = np.asarray(image)
        path = self.folder / "pictures" / f"{name}_{step:08d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
        self._tensorboard.add_image(name, pixels, step, dataformats="HWC")

    def progress(self, step: int, scalars: Scalars) -> None:
        """Shows how far the run is; cheap enough to be called at every step."""
        self._latest.update(scalars)
        now = monotonic()
        due = not self._samples or now - self._samples[-1][0] >= (BAR_EVERY if self._terminal else LINE_EVERY)
        if due:
            self._show(step, now)
        self._unseen = None if due else step

    def say(self, text: str) -> None:
        """Prints above the bar."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=not self._terminal)

    def _show(self, step: int, now: float) -> None:
        self._samples.append((now, step))
        while len(self._samples) > 2 and now - self._samples[1][0] >= RATE_WINDOW:
            self._samples.popleft()
        status = self._status(step)
        if self._progress:
            self._progress.update(self._task, completed=step, status=status)
        else:
            self.say(f"{self.title}  {status}")

    def _status(self, step: int) -> str:
        """1,200/6,000  12.5 steps/s  0:06:24 left  loss 0.0123."""
        parts = [f"{step:,}/{self.total_steps:,}"]
        (start, first), (end, last) = self._samples[0], self._samples[-1]
        if last > first and end > start:
            rate = (last - first) / (end - start)
            left = timedelta(seconds=round((self.total_steps - step) / rate))
            parts += [f"{rate:,.0f} steps/s" if rate >= 100 else f"{rate:.3g} steps/s", f"{left} left"]
        parts += [f"{name} {float(self._latest[name]):.4g}" for name in self.columns if name in self._latest]
        return "  ".join(parts)


def _lines_up_to(path: Path, step: int) -> Iterator[str]:
    """The lines to keep: none of a new run, none after `step`, none that a crash cut short."""
    if step == 0 or not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            if json.loads(line)["step"] <= step:
                yield line + "\n"
        except ValueError:
            continue
