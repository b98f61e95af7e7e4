"""Switches off what the pinned compiler computes wrongly on a CPU, before JAX starts.

jaxlib 0.10.2 hands some sums and products to YNNPACK and gets wrong numbers (jax-ml/jax 39103), without a word. With
this flag they are right; benchmarks/speed/jax_versions.py measures both. Other versions may not know the flag, and end.
"""

import importlib.metadata
import os
import sys
import warnings

WRONG = ("0.10.2",)  # versions of jaxlib that need the flag
FLAG = "--xla_cpu_experimental_ynn_fusion_type="


def compute_right_numbers() -> None:
    """Set the flag, unless the user has set it; warn if JAX has started without it, since it is then too late."""
    flags = os.environ.get("XLA_FLAGS", "")
    if FLAG in flags or importlib.metadata.version("jaxlib") not in WRONG:
        return
    os.environ["XLA_FLAGS"] = f"{flags} {FLAG}".strip()
    bridge = sys.modules.get("jax._src.xla_bridge")  # JAX has no public way to ask whether it has started
    if bridge is not None and bridge.backends_are_initialized():
        warnings.warn(
            "JAX was used before cobra_rl was imported, and its compiler may compute wrong numbers on a CPU; import "
            f"cobra_rl first, or set XLA_FLAGS={FLAG} (an empty value).",
            RuntimeWarning,
            stacklevel=3,
        )
