"""Actors as Ray processes: on other cores of this machine, or on a cluster. Needs the extra `[ray]`.

Each actor plays one environment with its own copy of vision. A call of `play` takes the newest policy, plays 50 steps
and sends them back: so policies are fetched every 50 environment steps, as in the paper. An actor that dies is
replaced, and nobody waits for it.
"""

import os
import warnings
from typing import Any

import equinox as eqx
import jax
import numpy as np
import ray
from ray.exceptions import RayActorError, RayTaskError

from cobra_rl.models.exploration import Exploration
from cobra_rl.models.monet import Monet
from cobra_rl.runtime.actors import Collected, LocalActors
from cobra_rl.spriteworld import make

CHUNK = 50  # environment steps between two fetches of the policy
# An actor is one thread on one core: learners and other actors need the rest.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
}


class _Player:
    """What runs in an actor's process."""

    def __init__(self, env_name: str, vision: Monet, seed: int, uniform: float):
        self._actors = LocalActors(make(env_name), vision, 1, seed, uniform)

    def play(self, policy: Exploration | None) -> Collected:
        """A chunk of transitions."""
        parts = [part for _ in range(CHUNK) for part in self._actors.collect(policy)]
        return jax.tree.map(lambda *leaves: np.concatenate([np.atleast_1d(leaf) for leaf in leaves]), *parts)

    def pid(self) -> int:
        """Of this process."""
        return os.getpid()


class RayActors:
    """`count` actors, each with one chunk under way at any time."""

    def __init__(
        self,
        vision: Monet,
        count: int,
        seed: int,
        address: str | None = None,
        env_name: str = "exploration",
        uniform: float = 0.0,
    ):
        """With an address, on that cluster; without, on this machine. A share `uniform` of actions is random."""
        if count < 1:
            raise ValueError(f"--actors is {count}; there must be at least 1.")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's new default, without its warning
        where: dict[str, Any] = {"address": address} if address else {"num_cpus": max(count, os.cpu_count() or 1)}
        with warnings.catch_warnings():
            # Ray forks to start its own programs, which is safe: the child runs another program at once.
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False, **where)
        self._player = ray.remote(num_cpus=1, runtime_env={"env_vars": ENVIRONMENT})(_Player)
        self._vision, self._env_name, self._uniform, self._next_seed = (
            ray.put(_on_host(vision)),
            env_name,
            uniform,
            seed,
        )
        self._policy: Any = None
        self._under_way: dict[Any, Any] = {}  # future -> actor; empty until the first policy is known
        self._count, self.replaced = count, 0

    def collect(self, policy: Exploration | None, wait: bool = True) -> list[Collected]:
        """The chunks that are ready; their actors go on with this policy."""
        self._policy = ray.put(_on_host(policy))
        while len(self._under_way) < self._count:
            self._send(self._hire())
        ready, _ = ray.wait(list(self._under_way), num_returns=self._count, timeout=0)
        if wait and not ready:
            ready, _ = ray.wait(list(self._under_way), num_returns=1, timeout=60.0)
        chunks = []
        for future in ready:
            actor = self._under_way.pop(future)
            try:
                chunks.append(_with_mean_hits(ray.get(future)))
            except (RayActorError, RayTaskError):
                actor, self.replaced = self._hire(), self.replaced + 1
            self._send(actor)
        return chunks

    def processes(self) -> list[int]:
        """Process numbers of the actors; waits until they have finished what they are at."""
        return ray.get([actor.pid.remote() for actor in self._under_way.values()])

    def close(self) -> None:
        """Stops the actors, and Ray."""
        ray.shutdown()

    def _hire(self) -> Any:
        self._next_seed += 1
        return self._player.remote(self._env_name, self._vision, self._next_seed, self._uniform)

    def _send(self, actor: Any) -> None:
        self._under_way[actor.play.remote(self._policy)] = actor


def _on_host(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, tree)


def _with_mean_hits(part: Collected) -> Collected:
    return part._replace(hits=part.hits.mean())
