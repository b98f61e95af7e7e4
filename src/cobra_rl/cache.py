"""Where compiled code is kept from one process to the next.

The command line, the environments, the phases and `Agent` all import `spriteworld/env.py` or `worlds.py`, which call
this. Where code is found again, first steps take a third of the time. JAX_ENABLE_COMPILATION_CACHE=0 switches it off.
"""

import os
from pathlib import Path

import jax


def keep_compilations() -> None:
    """Keep compiled code for the next process, in the user's cache folder, unless JAX was told where."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or jax.config.values["jax_compilation_cache_dir"]:
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "cobra-rl", "jax")
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # many small functions add up to seconds
