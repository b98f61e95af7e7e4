"""Settings of the process that a command runs in: robust output, immediate exit, huge memory pages."""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class _Steady(io.FileIO):
    """A stream that silently drops its output once the reader is gone, as with `| head` or a closed terminal."""

    def write(self, data) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def keep_talking() -> None:
    """Make sure that printing never stops a command: if standard output is closed or has no reader, drop the output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: or the next file that is opened would be taken for it
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, number in (("stdout", 1), ("stderr", 2)):
        old = getattr(sys, name)
        if old is getattr(sys, f"__{name}__"):  # else somebody listens who is neither a terminal nor a pipe
            raw = _Steady(number, "w", closefd=False)
            stream = io.TextIOWrapper(
                io.BufferedWriter(raw),
                old.encoding if old else "utf-8",
                "backslashreplace",
                line_buffering=raw.isatty() or name == "stderr",
            )
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)  # the old one would complain at the end


def end_at_once() -> None:
    """Print one line and end this process at once, which is safe because all files are written atomically."""
    with suppress(OSError):
        cursor = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar hides it
        os.write(2, cursor + b"\ncobra: stopped at once; what was saved before is intact.\n")
    os._exit(130)


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """Let Ctrl-C end this process at once: imports of compiled code abort by a KeyboardInterrupt, or swallow it."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler  # such as ignored
    ):
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: end_at_once())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def use_huge_pages() -> None:
    """Restart this process so that glibc allocates huge pages, which makes a training step on a CPU a quarter faster.

    The allocator reads its settings only when a process starts. Settings of the user are not changed. Ctrl-C waits
    until the new process is here again: while Python starts, nobody could catch it.
    """
    if sys.platform != "linux":
        return
    if "GLIBC_TUNABLES" not in os.environ and "pytest" not in sys.modules:
        os.environ["GLIBC_TUNABLES"] = (
            f"glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold={2**32}:glibc.malloc.trim_threshold={2**33}"
        )
        sys.stdout.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
