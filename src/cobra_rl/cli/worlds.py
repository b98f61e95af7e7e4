"""`cobra worlds`."""

from dataclasses import dataclass

from cobra_rl.reporting.tables import print_worlds


@dataclass(frozen=True)
class Worlds:
    """List the worlds that --world takes by name: those that are shipped, and your own."""

    def run(self) -> None:
        """Print a row per world."""
        print_worlds()
