"""Where the `cobra` command starts. Outside the package, since importing anything of it imports Gymnasium first."""

import sys


def main() -> None:
    """Run the command; Ctrl-C while it is still being imported ends it with one line, too."""
    try:
        from cobra_rl.cli import main as run

        run()
    except KeyboardInterrupt:
        print("cobra: stopped at once; what was saved before is intact.", file=sys.stderr)
        sys.exit(130)
