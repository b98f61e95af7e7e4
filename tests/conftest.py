"""Shapes and types of every annotated function of ours are checked at run time in all tests, except in bounds.py.

That one checks types itself, a value at a time: to check its own a million times took a tenth of all the tests' time.
"""

import gc
import os
import signal
from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

SOURCE = Path(__file__).parents[1] / "src" / "cobra_rl"
CHECKED = [f"cobra_rl.{path.stem}" for path in SOURCE.iterdir() if path.suffix in ("", ".py") and path.stem != "bounds"]
install_import_hook(CHECKED, "beartype.beartype")

# Of XLA's ways from HLO to machine code the older one takes half the time, and so does code that is not cut in parts.
QUICK = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
# JAX makes objects by the million that live as long as its caches; to look through them for garbage takes a tenth of
# the tests' time where it is done as often as is the default, each time that there are 700 more.
gc.set_threshold(100_000, 20, 100)
MOST_MEMORY = 1 / 6  # of the machine; a module adds up to one more gigabyte, and there are two workers


def pytest_configure(config):
    """Compiling is most of the tests' time: it is done fast instead of well, and once for all processes and runs."""
    cache = os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
    if QUICK not in (flags := os.environ.get("XLA_FLAGS", "")):
        os.environ["XLA_FLAGS"] = f"{flags} {QUICK}".strip()
    os.environ["COBRA_WORLDS"] = str(config.cache.mkdir("worlds"))  # not those of whoever runs the tests
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # of processes that tests start
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.02"  # less is compiled as fast as it is read
    os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"  # where in Python an operation is from takes time to note
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)
    jax.config.update("jax_traceback_in_locations_limit", 0)


# The files that take longest, from the longest on; then whole pipelines, then the rest.
LONG = ("test_figures", "test_reproduce", "test_tour", "test_worlds", "test_oracle", "test_baseline", "test_own_world")
LONG += ("test_chaos", "test_browser", "test_ray_tasks", "test_devices", "test_task", "test_evaluate_vision")
LONG += ("test_session", "test_actors", "test_explore", "test_vision", "test_explorer", "test_films")
LONG += ("test_baseline_actors", "test_baseline_steps", "test_actor_critic")


def pytest_collection_modifyitems(items):
    """Long files first, so that no worker is left alone with one of them at the end."""

    def place(item):
        name = item.path.stem
        return LONG.index(name) if name in LONG else len(LONG) + (item.path.parent != Path(__file__).parent)

    items.sort(key=place)


def pytest_collection_finish():
    """What was imported is not garbage."""
    gc.freeze()


@pytest.fixture
def hangup_is_heard():
    """Tests that are run under nohup, where a hangup is ignored, can send one all the same."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def interrupt_is_heard():
    """Tests that are run in the background, where an interrupt is ignored, can send one all the same."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def debug_vision(tmp_path_factory):
    """A folder with the weights of a tiny, untrained vision module: it compiles in a fraction of the time."""
    from cobra_rl.config import VISION
    from cobra_rl.models.world import make_vision, vision_weights
    from cobra_rl.storage.weights import save_weights
    from untrained import untrained

    folder = tmp_path_factory.mktemp("vision")
    model = untrained(lambda key: make_vision(VISION["debug"].model, key))
    save_weights(folder, vision_weights(model))
    return folder


@pytest.fixture(scope="session")
def debug_world(debug_vision, tmp_path_factory):
    """A folder with a tiny, untrained world on that vision."""
    from cobra_rl.config import EXPLORE
    from cobra_rl.models.world import make_exploration, make_transition, part_weights
    from cobra_rl.runs.worlds import copy_vision, load_vision, seal_world
    from cobra_rl.storage.weights import save_weights, sha256
    from untrained import untrained

    folder = tmp_path_factory.mktemp("world")
    config, vision = EXPLORE["debug"], load_vision(debug_vision)
    copy_vision(debug_vision, folder / "vision")
    models = {
        "transition": untrained(lambda key: make_transition(config.transition, vision, 4, key)),
        "exploration": untrained(lambda key: make_exploration(config.exploration, vision, 4, key)),
    }
    for part, model in models.items():
        save_weights(folder / part, part_weights(part, model, 4, sha256(debug_vision)))
    seal_world(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_code():
    """Compiled code of one module is of some use to the next, but all of it together takes gigabytes."""
    yield
    if _resident_memory() > MOST_MEMORY * _memory():
        jax.clear_caches()
        gc.collect()


def _memory() -> float:
    """How much memory the machine has, in bytes; none where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0.0


def _resident_memory() -> float:
    """How much memory this process takes now, in bytes; infinite where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return float("inf")
