"""Starts Ray on this machine, or joins the cluster at an address, and sets the environment of its processes.

Import `ray` from here: Ray reads some settings only once, when it is imported.
"""

import ipaddress
import os
import socket
import sys
import warnings
from typing import Any

import jax

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's new default, without its warning
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Unless it may start clusters, Ray takes 127.0.0.1 for this machine's address, and all its processes listen there
# alone. It can join a cluster all the same.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
try:
    import ray.exceptions
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("--runtime ray needs Ray; in a clone, pip install -e '.[ray]' installs it.") from missing

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
    with warnings.catch_warnings():
        # Ray forks to start its own programs, which is safe: the child runs another program at once.
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
        quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if address is None:
            # "local": ignore RAY_ADDRESS, for the user did not ask for a cluster.
            ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
            if not ipaddress.ip_address(ray.util.get_node_ip_address()).is_loopback:
                ray.shutdown()
                raise ConnectionError(
                    "Ray was imported too early and would listen to other machines; import "
                    "cobra_rl.collect.ray_start before ray."
                )
            return
        try:
            _knock(address)
            ray.init(address=address, **quiet)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConnectionError(
                f"No Ray cluster answers at --address {address} ({str(error).strip().splitlines()[0].rstrip('.')}); "
                "start one with `ray start --head`, give its host:port, or leave --address out to use this machine."
            ) from error


def _knock(address: str) -> None:
    """Raise an error at once if nothing listens at an address; Ray would try for a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto" or not colon:
        return
    if not port.isdigit():
        raise ValueError("it must be auto, host:port or ray://host:port")
    socket.create_connection((host, int(port)), REACHABLE).close()
