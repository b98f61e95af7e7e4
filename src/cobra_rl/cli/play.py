"""`cobra play`: an interactive page in the browser."""

import re
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cobra_rl.bounds import Bounds
from cobra_rl.cli.options import Maybe, OutFolder, WorldOption
from cobra_rl.parts import is_trusting
from cobra_rl.runs.settings import task_settings
from cobra_rl.runs.worlds import load_world


@dataclass(frozen=True)
class Play:
    """Open a page in the browser: push sprites, look inside the agent, watch it, and teach it a task of your own."""

    world: WorldOption = None
    port: Annotated[int, Bounds(0, 65535)] = 8765  # Port on the loopback interface; 0: any free port.
    browser: bool = True  # Open the page in the browser; with --no-browser, only print its address.
    run_folder: Annotated[Maybe[Path], tyro.conf.arg(name="run", help_behavior_hint="")] = None
    """A run of `cobra solve` or `cobra baseline` whose agent can be watched on the page, beside those of the world."""
    env: Maybe[str] = None  # The environment of --run, given again, as module:name or file.py:name.
    runs: OutFolder = Path("runs", "play")
    """Folder in which the page saves and finds agents; it has no access to other folders."""

    def run(self) -> None:
        """Serve the page until it is stopped with Ctrl-C."""
        try:
            from cobra_rl.play.catalogue import AgentCatalogue, GivenRun
            from cobra_rl.play.server import serve
        except ImportError as error:
            raise ValueError(
                f"`cobra play` needs its extra: in a clone, pip install -e '.[play]' ({error})."
            ) from error
        given = {}
        if self.run_folder is None and self.env is not None:
            raise ValueError("--env goes with --run.")
        if self.run_folder is not None:
            task_settings(self.run_folder, self.env)  # refuses what is no run, before any work is done
            name = re.sub(r"[^A-Za-z0-9._-]", "-", self.run_folder.resolve().name)  # as protocol.py allows it
            given = {name.strip("._-")[:40] or "run": GivenRun(self.run_folder, self.env, is_trusting())}
        catalogue = AgentCatalogue(load_world(self.world), self.world, self.runs, given)
        if catalogue.world.sizes.action != 4:
            raise ValueError("`cobra play` needs a world of sprites that are clicked and pushed; give another --world.")
        serve(catalogue, self.port, self._ready)
        print("The page is closed; what was saved is in", self.runs)

    def _ready(self, address: str) -> None:
        print(f"Open {address}\n(Ctrl-C stops it.)", flush=True)
        if self.browser:
            opener = threading.Timer(0.5, webbrowser.open, (address,))
            opener.daemon = True
            opener.start()
