"""`cobra play`: an interactive page in the browser."""

import re
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cobra_rl.bounds import Bounds
from cobra_rl.cli.options import Maybe, OutFolder
from cobra_rl.players import player_settings
from cobra_rl.worlds import load_world


@dataclass(frozen=True)
class Play:
    """Open a page in the browser: push sprites, look inside the agent, watch it, and teach it a task of your own."""

    world: Maybe[Path] = None  # World model: a folder written by `cobra train explore`. Default: the shipped one.
    port: Annotated[int, Bounds(0, 65535)] = 8765  # Port on the loopback interface; 0: any free port.
    browser: bool = True  # Open the page in the browser; with --no-browser, only print its address.
    run_folder: Annotated[Maybe[Path], tyro.conf.arg(name="run", help_behavior_hint="")] = None
    """A run of `cobra solve` or `cobra baseline` whose agent can be watched on the page, beside the shipped ones."""
    runs: OutFolder = Path("runs", "play")
    """Folder in which the page saves and finds agents; it has no access to other folders."""

    def run(self) -> None:
        """Serve the page until it is stopped with Ctrl-C."""
        if self.run_folder is not None:
            player_settings(self.run_folder)  # refuses what is no run, before any work is done
        try:
            from cobra_rl.play.house import House
            from cobra_rl.play.server import serve
        except ImportError as error:
            raise ValueError(f"`cobra play` needs its extra: pip install 'cobra-rl[play]' ({error}).") from error
        given = {}
        if self.run_folder is not None:
            name = re.sub(r"[^A-Za-z0-9._-]", "-", self.run_folder.resolve().name)  # as protocol.py allows it
            given = {name.strip("._-")[:40] or "run": self.run_folder}
        house = House(load_world(self.world), self.world, self.runs, given)
        if house.world.sizes.action != 4:
            raise ValueError("`cobra play` shows worlds of sprites that are clicked and pushed; this is another.")
        serve(house, self.port, self._ready)
        print("The page is closed; what was saved is in", self.runs)

    def _ready(self, address: str) -> None:
        print(f"Open {address}\n(Ctrl-C stops it.)", flush=True)
        if self.browser:
            opener = threading.Timer(0.5, webbrowser.open, (address,))
            opener.daemon = True
            opener.start()
