"""The `cobra` command: a COBRA agent, from pixels to solved tasks.

COBRA learns to see objects, to imagine what its actions do and to be curious, all without reward,
and then solves new tasks from a few hundred rewarded steps.
"""

import sys
from typing import Any

import tyro

from cobra_rl import commands, evaluate_commands
from cobra_rl.process import keep_compilations

COMMANDS = {
    "play-random": commands.PlayRandom,
    "train vision": commands.TrainVision,
    "train explore": commands.TrainExplore,
    "solve": commands.Solve,
    "watch": commands.Watch,
    "evaluate": evaluate_commands.EvaluateRun,
    "evaluate vision": evaluate_commands.EvaluateVision,
    "evaluate explore": evaluate_commands.EvaluateExplore,
    "figures": commands.Figures,
    "report": commands.Report,
}


def parse(words: list[str]) -> Any:
    """What is asked for, not yet done: one of COMMANDS, with its `run`."""
    if " ".join(words[:2]) in COMMANDS:  # two words name one command
        words = [" ".join(words[:2]), *words[2:]]
    return tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="cobra", description=__doc__, args=words)


def main(args: list[str] | None = None) -> None:
    """Runs a command; a user's mistake is one sentence on stderr and exit code 2."""
    keep_compilations()
    command = parse(sys.argv[1:] if args is None else args)
    try:
        command.run()
    except (ValueError, OSError, ArithmeticError) as error:
        sys.exit(_complain(error))


def _complain(error: Exception) -> int:
    print(f"cobra: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
