"""Actors, in this process and as real Ray processes, in a world of random numbers."""

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

from cobra_rl.collect.actors import Actors, Collected, LocalActors


def parts():
    """Return what the play of all actors here is scaled with."""
    return {"scale": jnp.float32(2.0)}


def test_local_actors_take_a_step_at_each_call_and_go_on_from_a_kept_state():
    actors = LocalActors(playing.begin, playing.play, parts(), seed=3)
    assert isinstance(actors, Actors)
    numbers, kept = [], None
    for step in range(6):
        if step == 4:
            kept = actors.state
        (part,) = actors.collect(None)
        assert int(part.transitions["step"][0]) == step
        numbers.append(float(part.transitions["number"][0]))
    again = LocalActors(playing.begin, playing.play, parts(), seed=8)
    again.state = kept
    assert [float(again.collect(None)[0].transitions["number"][0]) for _ in range(2)] == numbers[4:]
    with_key = LocalActors(playing.begin, playing.play, parts(), jax.random.key(3))
    assert float(with_key.collect(None)[0].transitions["number"][0]) == numbers[0]
    assert float(with_key.collect(jnp.float32(100.0))[0].transitions["number"][0]) == pytest.approx(100 + numbers[1])


def test_parts_are_arguments_and_no_constants_of_the_compiled_code():
    traces = []

    def play(parts, policy, state):
        traces.append(parts["scale"])
        return playing.play(parts, policy, state)

    actors = LocalActors(playing.begin, play, parts(), seed=0)
    for _ in range(3):
        actors.collect(None)
    assert len(traces) == 1
    assert isinstance(traces[0], jax.core.Tracer)


def test_actors_of_runs_with_other_seeds_have_other_streams():
    streams = {tuple(playing.stream(seed, number, 3).tolist()) for seed in range(4) for number in range(1, 5)}
    assert len(streams) == 16


@pytest.fixture
def ray_actors():
    return pytest.importorskip("cobra_rl.collect.ray_actors")


@pytest.mark.slow
def test_a_dead_ray_actor_is_replaced_and_the_replay_keeps_filling(ray_actors, capsys):
    begin, play = functools.partial(playing.begin), functools.partial(playing.play)
    actors = ray_actors.RayActors(begin, play, parts(), count=2, seed=1)
    assert isinstance(actors, Actors)
    try:
        chunks = collect_until(actors, lambda chunks: len(chunks) >= 2)
        dead, _ = processes(actors)
        if Path("/proc/net/tcp").exists():
            assert listeners_for_others() == []
        os.kill(dead, signal.SIGKILL)
        chunks += collect_until(actors, lambda chunks: actors.replaced and len(chunks) >= 4)
        assert actors.replaced == 1
        assert "An actor is replaced, 1 so far: " in capsys.readouterr().out
        alive = processes(actors)
        assert len(set(alive)) == 2
        assert dead not in alive
    finally:
        actors.close()
    # Every chunk is a piece of the stream of one of the three actors that were hired.
    length = 1 + max(int(chunk.transitions["step"].max()) for chunk in chunks)
    streams = [playing.stream(1, number, length) for number in (1, 2, 3)]
    for chunk in chunks:
        assert chunk.hits == 0.5
        numbers, steps = chunk.transitions["number"], chunk.transitions["step"]
        assert numbers.shape == (ray_actors.CHUNK,)
        assert sum(np.allclose(stream[steps], numbers, rtol=1e-5) for stream in streams) == 1


@pytest.mark.slow
def test_ray_actors_that_can_never_play_are_an_error_that_says_why(ray_actors):
    actors = ray_actors.RayActors(playing.fail, playing.play, parts(), count=3, seed=0)
    try:
        with pytest.raises(ChildProcessError, match=r"^3 actors failed in a row: .*there is no world to play in\.$"):
            collect_until(actors, lambda chunks: False)
        assert actors.replaced == 2
    finally:
        actors.close()
    with pytest.raises(ValueError, match="There are 0 actors; there must be at least 1"):
        ray_actors.RayActors(playing.begin, playing.play, parts(), count=0, seed=0)


@pytest.mark.parametrize("address", ["nowhere.invalid:1", "127.0.0.1:1", "127.0.0.1:x"])
def test_an_address_where_no_cluster_is_is_refused_soon(ray_actors, address):
    began = time.monotonic()
    with pytest.raises(
        ConnectionError, match=rf"^No Ray cluster answers at --address {address} \(.*\); start one with"
    ):
        ray_actors.RayActors(playing.begin, playing.play, parts(), count=1, seed=0, address=address)
    assert time.monotonic() - began < 10


EARLY = """
import ray
from cobra_rl.collect.ray_start import start_ray
try:
    start_ray(1, None)
except ConnectionError as error:
    print(error)
print(ray.is_initialized())
"""


@pytest.mark.slow
def test_a_ray_that_other_machines_could_reach_is_ended_at_once(ray_actors):
    """Ray reads how to listen when it is imported, here before we could say so."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_ENABLE")}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", EARLY], env=env, capture_output=True, text=True)
    said, initialised = done.stdout.splitlines()[-2:]
    assert said.startswith("Ray was imported too early and would listen to other machines; import ")
    assert initialised == "False"


def processes(actors) -> list[int]:
    """Process numbers of the actors; waits until they have finished what they are at."""
    import ray

    return ray.get([actor.__ray_call__.remote(lambda _: os.getpid()) for actor in actors._under_way.values()])


def collect_until(actors, done: Callable[[list[Collected]], bool]) -> list[Collected]:
    deadline, chunks = time.monotonic() + 240, []
    while not done(chunks):
        assert time.monotonic() < deadline, "the actors take too long"
        chunks += actors.collect(None)
    return chunks


def listeners_for_others() -> list[str]:
    """Addresses at which this process or one that it started can be reached from other machines."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    sockets = set()
    for pid in family:
        with suppress(OSError):
            sockets |= {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    assert listening  # else nothing was looked at
    return [address for address in listening if not address.partition(":")[0].endswith("0100007F")]
