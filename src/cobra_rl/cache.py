"""Keeps compiled code from one process to the next, in files that are whole or not there.

The command line, the environments, the phases and `Agent` all import `spriteworld/env.py` or `runs/worlds.py`, which
call `keep_compilations`. Where code is found again, first steps take a third of the time. It is switched off by
JAX_ENABLE_COMPILATION_CACHE=0.
"""

import hashlib
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

import jax
from jax._src import compilation_cache  # there is no public way to register a cache; tests/test_cache.py watches it

UNFINISHED_ENTRY = ".unfinished"  # suffix of temporary files
ABANDONED_SECONDS = 600.0  # after which a temporary file counts as that of a dead process
DIGEST_SIZE = hashlib.sha256().digest_size

_file_cache_of_jax = compilation_cache.get_file_cache


class AtomicCache:
    """A folder of compiled code that any number of processes may read and write at the same time.

    JAX's own cache writes an entry in place and never again. Another process may thus read half of it, and if the
    writer is killed, every later process does. Here an entry gets its name when it is whole, begins with the sha256 of
    the rest, and counts as missing if that is wrong, so that the code is compiled and written again.
    """

    def __init__(self, folder: Path):
        self._path = folder  # JAX logs it under this name
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob(f"*{UNFINISHED_ENTRY}"):
                with suppress(FileNotFoundError):  # its writer may finish it meanwhile
                    if path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                        path.unlink()

    def get(self, key: str) -> bytes | None:
        """Return the entry of a key; None if there is none, or only a damaged one."""
        try:
            entry = self._file(key).read_bytes()
        except OSError:
            return None
        value = entry[DIGEST_SIZE:]
        return value if hashlib.sha256(value).digest() == entry[:DIGEST_SIZE] else None

    def put(self, key: str, value: bytes) -> None:
        """Write an entry, whole or not at all; if the disk is full or read-only, do nothing: it only saves time."""
        temporary = self._path / f"{secrets.token_hex(8)}{UNFINISHED_ENTRY}"
        with suppress(OSError):
            try:
                temporary.write_bytes(hashlib.sha256(value).digest() + value)
                os.replace(temporary, self._file(key))
            finally:
                temporary.unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self._path / f"{key}-cobra"  # JAX's own entries, which may lie in the same folder, end in "-cache"


def keep_compilations() -> None:
    """Keep compiled code for the next process: where JAX was told to, or else in the user's cache folder."""
    if compilation_cache.get_file_cache is not _file_cache:
        compilation_cache.get_file_cache = _file_cache
        compilation_cache.reset_cache()  # in case JAX has opened its own already
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or jax.config.values["jax_compilation_cache_dir"]:
        return
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "cobra-rl", "jax")
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # many small functions add up to seconds


def _file_cache(path: str):
    """Open the cache at a path, for JAX; one in a bucket is left to JAX's own."""
    return _file_cache_of_jax(path) if "://" in path else (AtomicCache(Path(path)), path)
