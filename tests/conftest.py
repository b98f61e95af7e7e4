"""Shapes and types of every annotated function of ours are checked at run time in all tests."""

import dataclasses
import os

import equinox as eqx
import jax
import pytest
from jaxtyping import install_import_hook

install_import_hook("cobra_rl", "beartype.beartype")


def pytest_configure(config):
    """Compiling is most of the tests' time: it is done fast instead of well, and once for all processes and runs."""
    cache = os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # of processes that tests start
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="session")
def debug_vision(tmp_path_factory):
    """A folder with the weights of a tiny, untrained vision module: it compiles in a fraction of the time."""
    from cobra_rl.config import VISION
    from cobra_rl.models.monet import Monet
    from cobra_rl.runtime.weights import save_weights

    folder, config = tmp_path_factory.mktemp("vision"), VISION["debug"].model
    save_weights(folder, eqx.filter_jit(Monet)(config, jax.random.key(0)), dataclasses.asdict(config), kind="vision")
    return folder
