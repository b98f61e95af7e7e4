"""The cache of compiled code: whatever a process finds there, nothing but a recompilation follows."""

import os
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import compilation_cache

from cobra_rl.cache import UNFINISHED_ENTRY, AtomicCache, keep_compilations

KEY = "jit_f-0123"
VALUE = bytes(range(256)) * 40

# Writes the same entry again and again, each time with other bytes, until it is killed.
WRITER = """
import itertools, pathlib, sys
from cobra_rl.cache import AtomicCache
cache = AtomicCache(pathlib.Path(sys.argv[1]))
for number in itertools.count():
    cache.put("key", bytes([number % 256]) * 1_000_000)
    print("written", flush=True) if number == 0 else None
"""
# Compiles a few functions with a cache that others write to at the same time; a warning is an error.
COMPILER = """
import warnings
warnings.simplefilter("error")
import jax, jax.numpy as jnp
from cobra_rl.cache import keep_compilations
keep_compilations()
for power in range(8):
    assert jax.jit(lambda x: (x ** power).sum())(jnp.full(100, 2.0)) == 100 * 2.0 ** power
"""


@pytest.fixture
def cache_folder(tmp_path):
    """Let JAX keep everything in a folder of its own for one test."""
    before = {name: jax.config.values[name] for name in ("jax_compilation_cache_dir", _LEAST)}
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    jax.config.update(_LEAST, 0.0)
    keep_compilations()
    compilation_cache.reset_cache()
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


_LEAST = "jax_persistent_cache_min_compile_time_secs"


def test_an_entry_comes_back_as_it_was(tmp_path):
    cache = AtomicCache(tmp_path / "new")
    assert cache.get(KEY) is None
    cache.put(KEY, VALUE)
    assert cache.get(KEY) == VALUE
    assert [path.name for path in (tmp_path / "new").iterdir()] == [f"{KEY}-cobra"]


def test_half_an_entry_is_none_and_is_written_again(tmp_path):
    cache = AtomicCache(tmp_path)
    cache.put(KEY, VALUE)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for length in [*range(0, 100), *range(100, len(whole), 997), len(whole) - 1]:
        file.write_bytes(whole[:length])
        assert cache.get(KEY) is None
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert cache.get(KEY) is None
    cache.put(KEY, VALUE)
    assert cache.get(KEY) == VALUE


def test_jax_recompiles_where_it_meets_half_an_entry(cache_folder):
    """What a newcomer's first `make test` met, made to happen many times; in the tests a warning is an error."""
    expected = np.float32(3 * 7.0)
    for share in np.linspace(0.0, 0.99, 12):
        jax.clear_caches()
        assert jax.jit(lambda x: (x * 7.0).sum())(jnp.ones(3)) == expected
        files = list(cache_folder.glob("*-cobra"))
        assert files
        for file in files:
            content = file.read_bytes()
            file.write_bytes(content[: int(share * len(content))])
    jax.clear_caches()
    assert jax.jit(lambda x: (x * 7.0).sum())(jnp.ones(3)) == expected
    cache = AtomicCache(cache_folder)
    assert all(cache.get(file.name.removesuffix("-cobra")) for file in files)  # and the cache is whole again


def test_jax_reads_what_it_wrote(cache_folder):
    """The cache is in use at all: JAX asks our class, and gets what it put there."""
    ones = jnp.ones(4)

    def minus_five(x):
        return x - 5.0

    jax.jit(minus_five)(ones)
    assert isinstance(compilation_cache._cache, AtomicCache)
    read = []
    get = compilation_cache._cache.get
    compilation_cache._cache.get = lambda key: read.append(get(key)) or read[-1]
    jax.clear_caches()
    jax.jit(minus_five)(ones)
    assert read
    assert all(entry is not None for entry in read)


def test_a_reader_never_meets_half_an_entry_of_a_writer_that_is_killed(tmp_path):
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        try:
            assert writer.stdout.readline()
            cache = AtomicCache(tmp_path)
            found = [entry for _ in range(200) if (entry := cache.get("key")) is not None]
        finally:
            writer.kill()
            writer.communicate()
        assert found
        assert all(entry == entry[:1] * 1_000_000 for entry in found)
        assert cache.get("key") is not None  # also after the kill: an old entry or a new one


def test_processes_that_start_together_with_an_empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(_LEAST.upper(), "0")
    command = [sys.executable, "-c", COMPILER]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 2
    assert not list((tmp_path / "cache").glob(f"*{UNFINISHED_ENTRY}"))


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    cache = AtomicCache(tmp_path / "file" / "below")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, VALUE)
    assert cache.get(KEY) is None


def test_files_of_dead_writers_are_removed(tmp_path):
    old = tmp_path / f"old{UNFINISHED_ENTRY}"
    young = tmp_path / f"young{UNFINISHED_ENTRY}"
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (0, 0))
    AtomicCache(tmp_path)
    assert not old.exists()
    assert young.exists()


def test_a_cache_in_a_bucket_is_left_to_jax(monkeypatch):
    import cobra_rl.cache

    monkeypatch.setattr(cobra_rl.cache, "_file_cache_of_jax", lambda path: ("of JAX", path))
    assert cobra_rl.cache._file_cache("gs://bucket/cache") == ("of JAX", "gs://bucket/cache")
