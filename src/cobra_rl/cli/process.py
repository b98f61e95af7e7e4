"""The process that a command runs in: its output, its end, its memory."""

import io
import os
import sys
from contextlib import suppress


class _Steady(io.FileIO):
    """A stream that goes on silently once nobody reads it: `| head`, a closed terminal."""

    def write(self, data) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def keep_talking() -> None:
    """Let nothing that is printed stop a command: output that is closed, or that nobody reads, is dropped."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: or the next file that is opened would be taken for it
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, number in (("stdout", 1), ("stderr", 2)):
        old = getattr(sys, name)
        if old is getattr(sys, f"__{name}__"):  # else somebody listens who is neither a terminal nor a pipe
            raw = _Steady(number, "w", closefd=False)
            encoding, lines = old.encoding if old else "utf-8", raw.isatty() or name == "stderr"
            stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=lines)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)  # the old one would complain at the end


def end_at_once() -> None:
    """End this process in one line, whatever it is doing: files are written whole or not at all."""
    with suppress(OSError):
        cursor = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar hides it
        os.write(2, cursor + b"\ncobra: stopped at once; what was saved before is intact.\n")
    os._exit(130)


def use_huge_pages() -> None:
    """Start this process again with glibc's allocator using huge pages: a training step on a CPU is a quarter faster.

    The allocator reads its settings only at the start of a process; a user's own settings are left alone.
    """
    if sys.platform == "linux" and "GLIBC_TUNABLES" not in os.environ and "pytest" not in sys.modules:
        os.environ["GLIBC_TUNABLES"] = (
            f"glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold={2**32}:glibc.malloc.trim_threshold={2**33}"
        )
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
