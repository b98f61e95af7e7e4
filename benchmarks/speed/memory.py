"""Memory of the exploration phase with a full replay: the steady state, and the peaks of saving and of resuming.

python -m benchmarks.speed.memory [--preset laptop] [--out results/memory.json]
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.tools.record import write
from cobra_rl.collect.replay import Replay
from cobra_rl.collect.transition import Transition
from cobra_rl.config import EXPLORE
from cobra_rl.storage import checkpoint, files

GIGABYTE = 1e9


def resident() -> float:
    """Memory of this process now, in gigabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / GIGABYTE


class Peak:
    """The largest memory within the context, above that at its beginning."""

    def __enter__(self) -> "Peak":
        self._over, self.start, self.most = threading.Event(), resident(), 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.most = max(self.most, resident() - self.start)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def main() -> None:
    """Fill a replay with pictures like Spriteworld's, mostly black; save it, and restore it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="laptop", choices=list(EXPLORE))
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    options = parser.parse_args()
    config = EXPLORE[options.preset]
    replay = Replay(config.capacity, config.batch)
    image = jnp.zeros((64, 64, 3), jnp.uint8)
    state = replay.init(Transition(jnp.zeros((8, 8)), jnp.zeros(4), image))
    noise = np.random.default_rng(0).integers(0, 256, (config.capacity, 8, 16, 3), np.uint8)
    fill = jax.jit(lambda memory, noise: memory.at[:, 20:28, 30:46].set(noise), donate_argnums=0)
    images = fill(state.items.next_observation, jnp.asarray(noise))
    state = jax.block_until_ready(state._replace(items=state.items._replace(next_observation=images)))
    del images, noise
    steady = resident()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        with Peak() as saving:
            path = checkpoint.save(Path(folder), 1, state, meta={}, compressed=True)
        seconds, size = time.monotonic() - began, path.stat().st_size
        state = files.outline(state)  # as the run loop does it
        empty = resident()
        with Peak() as resuming:
            checkpoint.restore(Path(folder), state)
    found = {"steady_gb": steady, "saving_above_gb": saving.most, "resuming_above_gb": resuming.most + empty - steady}
    found |= {"checkpoint_gb": size / GIGABYTE, "saving_seconds": seconds}
    for name, value in found.items():
        print(f"{name}: {value:.2f}")
    if options.out:
        write(options.out, memory=found)


if __name__ == "__main__":
    main()
