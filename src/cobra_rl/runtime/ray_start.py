"""Starts Ray on this machine, or joins the cluster at an address, and sets the environment of its processes."""

import os
import socket
import sys
import threading
import warnings
from typing import Any

import jax
import ray
from ray._private import ray_constants

REACHABLE = 5.0  # seconds in which a cluster must answer


def environment_here(address: str | None) -> dict[str, str]:
    """Return the environment of Ray's processes: on this machine they import what this process imports, and all of
    them, also one that takes the place of another, share its compiled code."""
    keep = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    if address is not None:
        return keep
    keep["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    cache = jax.config.values["jax_compilation_cache_dir"]
    return keep | ({"JAX_COMPILATION_CACHE_DIR": cache} if cache else {})


def cause_of(error: Exception) -> str:
    """Return what was raised in another process: Ray puts it into the last line."""
    return str(error).strip().splitlines()[-1].strip().rstrip(".")


def start_ray(cores: int, address: str | None) -> None:
    """Start Ray on this machine, listening on the loopback interface only; or, given an address, join its cluster."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's new default, without its warning
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Without clusters Ray takes 127.0.0.1 for this machine's address, and all its processes listen there alone. Given
    # as `_node_ip_address`, Ray would replace it by the address that other machines see.
    ray_constants.ENABLE_RAY_CLUSTER = address is not None
    # "local": a cluster that the environment names is none that was asked for.
    here = {"address": "local", "num_cpus": cores}
    where: dict[str, Any] = {"address": address} if address else here
    with warnings.catch_warnings():
        # Ray forks to start its own programs, which is safe: the child runs another program at once.
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
        quiet = {"log_to_driver": False, "configure_logging": False}
        if address is None:
            ray.init(include_dashboard=False, **quiet, **where)
            return
        try:
            _knock(address)
            ray.init(**quiet, **where)
        except (OSError, ValueError, RuntimeError) as error:
            cause = str(error).strip().splitlines()[0].rstrip(".")
            raise ConnectionError(
                f"No Ray cluster answers at --address {address} ({cause}); start one with `ray start --head`, "
                "give its host:port, or leave --address out to use this machine."
            ) from error


def _knock(address: str) -> None:
    """Raise an error at once if nothing listens at an address; Ray would try for a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto" or not colon:
        return
    if not port.isdigit():
        raise ValueError("it must be auto, host:port or ray://host:port")
    answers: list[OSError | None] = []

    def try_it() -> None:
        try:
            socket.create_connection((host, int(port)), REACHABLE).close()
            answers.append(None)
        except OSError as error:
            answers.append(error)

    # In a thread, for nobody limits how long the search for a host by its name takes.
    thread = threading.Thread(target=try_it, daemon=True)
    thread.start()
    thread.join(2 * REACHABLE)
    if not answers:
        raise TimeoutError(f"no answer within {2 * REACHABLE:.0f} seconds")
    if answers[0] is not None:
        raise answers[0]
