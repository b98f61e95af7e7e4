"""The `cobra` command: a COBRA agent, from pixels to solved tasks.

COBRA learns to see objects, to imagine what its actions do and to be curious, all without reward,
and then solves new tasks from a few hundred rewarded steps.
"""

import difflib
import pkgutil
import sys
import traceback
from typing import Any

from cobra_rl import __version__
from cobra_rl.cli.process import end_at_once, keep_talking, use_huge_pages
from cobra_rl.runtime import signals

# The file of this folder and the class in it, imported only if the command is asked for; a line of help.
COMMANDS = {
    "solve": ("solve:Solve", "Want and act: learn a task from reward."),
    "baseline": ("baseline:Baseline", "Learn a task without a model: the paper's MPO."),
    "watch": ("watch:Watch", "Film an agent beside what it sees and imagines."),
    "play": ("play:Play", "Push, look inside, watch and teach, in the browser."),
    "play-random": ("watch:PlayRandom", "Film a world under random pushes."),
    "train vision": ("train:TrainVision", "Look: train the vision module."),
    "train explore": ("train:TrainExplore", "Imagine and be curious: train T and D."),
    "runs": ("runs:Runs", "List runs: what, how far, how good, since when."),
    "evaluate": ("evaluate:EvaluateRun", "Measure a run of `cobra solve` or `baseline`."),
    "evaluate vision": ("evaluate:EvaluateVision", "Measure vision on held-out scenes."),
    "evaluate explore": ("evaluate:EvaluateExplore", "Measure imagination and curiosity."),
    "figures": ("report:Figures", "Draw the paper's figures."),
    "report": ("report:Report", "Tell the whole story on one page."),
    "reproduce": ("reproduce:Reproduce", "From nothing to the report, in one command."),
}
TRAINING = ("solve", "baseline", "train vision", "train explore", "reproduce")


def main(args: list[str] | None = None) -> None:
    """Run a command; a user's mistake is one sentence on stderr and exit code 2 (`--debug` shows where it arose)."""
    keep_talking()
    words = sys.argv[1:] if args is None else list(args)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        _print_help()
        sys.exit(0)
    if words[0] == "--version":
        print(f"cobra-rl {__version__}")
        sys.exit(0)
    if code := _run(words, debug):
        sys.exit(code)


def parse(words: list[str]) -> Any:
    """Return what is asked for, not yet done: an instance of a command's class, with its `run`."""
    from cobra_rl.cli.options import parse_command

    name, rest = _split(words)
    return parse_command(pkgutil.resolve_name(f"cobra_rl.cli.{COMMANDS[name][0]}"), f"cobra {name}", rest)


def _run(words: list[str], debug: bool) -> int:
    signals.at_second_interrupt = end_at_once
    try:
        if _split(words)[0] in TRAINING:
            use_huge_pages()
        command = parse(words)
        from cobra_rl.runtime.cache import keep_compilations

        keep_compilations()
        command.run()
    except signals.Stopped as stop:
        print(stop, file=sys.stderr)
        return 128 + stop.signal
    except (ValueError, OSError, ArithmeticError, ImportError) as error:
        if debug:
            traceback.print_exc()
        print(f"cobra: {_sentence(error)}", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        print("cobra: there is not enough memory for this; take a smaller batch, size or model.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("cobra: stopped at once; what was saved before is intact.", file=sys.stderr)
        return 130
    finally:
        signals.at_second_interrupt = None
    return 0


def _sentence(error: Exception) -> str:
    """Return what went wrong as a sentence; of an error of the system, with the file and what to do."""
    if not isinstance(error, OSError):
        return str(error)
    from cobra_rl.runtime.storage import explain

    return f"{explain(error)}."


def _split(words: list[str]) -> tuple[str, list[str]]:
    """Return the name of the command, one or two words, and the rest."""
    for count in (2, 1):
        if (name := " ".join(words[:count])) in COMMANDS:
            return name, words[count:]
    close = [name for name in COMMANDS if name.startswith(f"{words[0]} ")]
    close = close or difflib.get_close_matches(" ".join(words[:2]), COMMANDS, n=1)
    close = close or difflib.get_close_matches(words[0], COMMANDS, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"There is no command {words[0]!r}; choose one of {', '.join(COMMANDS)}.{hint}")


def _print_help() -> None:
    print("usage: cobra COMMAND [OPTIONS]\n")
    print((__doc__ or "").partition("\n\n")[2])
    print("commands:")
    for name, (_, line) in COMMANDS.items():
        print(f"  {name:{max(map(len, COMMANDS)) + 2}}{line}")
    print("\n  cobra COMMAND --help shows its options; cobra --version the version; --debug where an error arose.")
