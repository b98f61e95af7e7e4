"""The process that a command runs in."""

import os
import sys


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
