"""What differs between a CPU and an accelerator: the one place that asks which of them computes."""

import os

import jax


def on_cpu() -> bool:
    """Tell whether JAX computes on a CPU; this starts JAX."""
    return jax.default_backend() == "cpu"


def at_a_time(few: int, count: int) -> int:
    """Return how many of `count` rows are worth computing together, where often fewer are needed.

    On a CPU a few are: more take as much longer. An accelerator computes all of them in about the same time.
    """
    return min(few, count) if on_cpu() else count


def memory() -> tuple[int, str]:
    """Return how many bytes of memory arrays can take, and whose memory it is: this machine's, or the accelerator's."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if on_cpu():
        return host, "this machine"
    device = jax.local_devices()[0]
    stats = device.memory_stats() or {}  # not every platform says it
    return (stats["bytes_limit"], str(device)) if "bytes_limit" in stats else (host, "this machine")
