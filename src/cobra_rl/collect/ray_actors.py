"""Actors as Ray processes: on other cores of this machine, or on a cluster. Needs the extra `[ray]`.

Each actor plays one environment. A call of `play` takes the newest policy, plays 50 steps and sends them back: so
policies are fetched every 50 environment steps, as in the paper. An actor that dies is replaced at once by a spare one,
which has started before and waits, and another spare one is started. So one core more than actors is of use.
"""

import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from cobra_rl.collect.actors import Actors, Collected, LocalActors
from cobra_rl.collect.ray_start import cause_of, environment_here, ray, start_ray

CHUNK = 50  # environment steps between two fetches of the policy
MOST_FAILURES = 3  # in a row, without any success: then it is no accident
PATIENCE = 60.0  # seconds to wait for anything at all
# An actor is one thread on one core: learners and other actors need the rest.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "JAX_TRACEBACK_FILTERING": "off",  # it ends an error with a remark on itself, where `collect` looks for the cause
}


class _Player:
    """What runs in an actor's process."""

    def __init__(self, begin: Callable, play: Callable, parts: Any, seed: int, number: int):
        self._actors = LocalActors(begin, play, parts, jax.random.fold_in(jax.random.key(seed), number))

    def play(self, policy: Any) -> Collected:
        """Play a chunk; T steps of one environment become a leading axis."""
        parts = [part for _ in range(CHUNK) for part in self._actors.collect(policy)]
        return jax.tree.map(lambda *leaves: np.concatenate([np.atleast_1d(leaf) for leaf in leaves]), *parts)


class RayActors(Actors):
    """`count` actors, each with one chunk under way at any time; `replaced` counts those that had to be replaced.

    Ray starts on this machine and listens on the loopback interface only, unless the address of a cluster is given.
    `begin` and `play` are for one environment and travel to the actors: importable functions, or partials of them.
    """

    def __init__(self, begin: Callable, play: Callable, parts: Any, count: int, seed: int, address: str | None = None):
        if count < 1:
            raise ValueError(f"There are {count} actors; there must be at least 1.")
        start_ray(max(count + 1, os.cpu_count() or 1), address)
        environment = {"env_vars": ENVIRONMENT | environment_here(address)}
        self._player = ray.remote(num_cpus=1, runtime_env=environment)(_Player)
        self._given = begin, play, ray.put(parts), seed
        self._policy: Any = None
        self._under_way: dict[Any, Any] = {}  # future -> actor; empty until the first policy is known
        self._spare: Any = None  # an actor that waits until another dies; hired once the others play
        self._count = count
        self._hired = 0
        self._failures = 0  # in a row
        self._idle = 0  # times in a row that nothing came

    def collect(self, policy: Any, wait: bool = True) -> list[Collected]:
        """Return the chunks of `CHUNK` steps that are ready; their actors go on with this policy.

        With `wait`, waits up to a minute if none is ready. Actors that fail again and again, or of which nothing comes
        for minutes, are a ChildProcessError that says why.
        """
        self._policy = ray.put(policy)
        while len(self._under_way) < self._count:
            self._send(self._hire())
        ready, _ = ray.wait(list(self._under_way), num_returns=self._count, timeout=0)
        if wait and not ready:
            ready, _ = ray.wait(list(self._under_way), num_returns=1, timeout=PATIENCE)
            self._idle = 0 if ready else self._idle + 1
            if self._idle >= MOST_FAILURES:
                raise ChildProcessError(
                    f"No actor began to play within {self._idle * PATIENCE:.0f} seconds: is there a core for each of "
                    "them?"
                )
        chunks = []
        for future in ready:
            actor = self._under_way.pop(future)
            try:
                chunk = ray.get(future)
                chunks.append(chunk._replace(hits=chunk.hits.mean()))
                self._failures = 0
            except (ray.exceptions.RayActorError, ray.exceptions.RayTaskError) as error:
                self._failures += 1
                cause = cause_of(error)
                if self._failures >= MOST_FAILURES:
                    raise ChildProcessError(f"{self._failures} actors failed in a row: {cause}.") from error
                actor = self._spare or self._hire()
                self._spare = None
                self.replaced += 1
                print(f"An actor is replaced, {self.replaced} so far: {cause}.", flush=True)
            self._send(actor)
        if chunks and self._spare is None:
            self._spare = self._hire()
        return chunks

    def close(self) -> None:
        """Stop the actors, and Ray."""
        ray.shutdown()

    def _hire(self) -> Any:
        self._hired += 1
        return self._player.remote(*self._given, self._hired)

    def _send(self, actor: Any) -> None:
        self._under_way[actor.play.remote(self._policy)] = actor
