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
from cobra_rl.cli.process import end_at_once, ended_by_interrupts, keep_talking, use_huge_pages
from cobra_rl.parts import trusting
from cobra_rl.runs import signals

# By command: the module and the class that implement it, imported only when it is called, and a line of help. Tasks are
# learnt and drawn by modules that are imported later still, by the methods that use them, so that --help is quick.
COMMANDS = {
    "solve": ("learning:Solve", "Learn a task: train the reward predictor (phase 3)."),
    "baseline": ("learning:Baseline", "Learn a task with a model-free baseline: MPO."),
    "watch": ("watch:Watch", "Film an agent, its slots and its imagined scenes."),
    "play": ("play:Play", "Play with, watch and teach an agent in the browser."),
    "play-random": ("watch:PlayRandom", "Film an environment under random actions."),
    "train vision": ("train:TrainVision", "Train the vision module (phase 1)."),
    "train explore": ("train:TrainExplore", "Train transition model and exploration policy (phase 2)."),
    "runs": ("runs:Runs", "List runs with their progress and main metric."),
    "worlds": ("runs:Worlds", "List the worlds by name: what each is, and how good."),
    "evaluate": ("evaluate:EvaluateRun", "Measure the agents of a run of `solve` or `baseline`."),
    "evaluate vision": ("evaluate:EvaluateVision", "Measure the vision module on held-out scenes."),
    "evaluate explore": ("evaluate:EvaluateExplore", "Measure transition model and exploration policy."),
    "figures": ("report:Figures", "Draw the paper's figures."),
    "report": ("report:Report", "Write one page with all figures, films and tables."),
    "reproduce": ("reproduce:Reproduce", "Run all phases and write the report."),
}
TRAINING = ("solve", "baseline", "train vision", "train explore", "reproduce")


def main(args: list[str] | None = None) -> None:
    """Run a command; on a user's mistake, print one sentence to stderr and exit with 2 (`--debug`: and a traceback)."""
    keep_talking()
    given = sys.argv[1:] if args is None else args
    words = [word for word in given if word not in ("--debug", "--trust")]
    if not words or words[0] in ("-h", "--help"):
        _print_help()
        sys.exit(0)
    if words[0] == "--version":
        print(f"cobra-rl {__version__}")
        sys.exit(0)
    with trusting("--trust" in given):
        code = _run(words, "--debug" in given)
    if code:
        sys.exit(code)


def parse(words: list[str]) -> Any:
    """Parse a command line into an instance of the command's class; its method `run` executes it."""
    from cobra_rl.cli.options import parse_command

    name, rest = _command_and_options(words)
    return parse_command(pkgutil.resolve_name(f"cobra_rl.cli.{COMMANDS[name][0]}"), f"cobra {name}", rest)


def _run(words: list[str], debug: bool) -> int:
    signals.at_second_interrupt = end_at_once
    try:
        with ended_by_interrupts():
            if _command_and_options(words)[0] in TRAINING and not {"-h", "--help"} & set(words):
                use_huge_pages()
            command = parse(words)
        command.run()
    except signals.Stopped as stop:
        print(stop, file=sys.stderr)
        return 128 + stop.signal
    except (ValueError, OSError, ArithmeticError, ImportError) as error:
        if debug:
            traceback.print_exc()
        sentence = str(error)
        if isinstance(error, OSError):
            from cobra_rl.storage.files import explain

            sentence = f"{explain(error)}."
        print(f"cobra: {sentence}", file=sys.stderr)
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


def _command_and_options(words: list[str]) -> tuple[str, list[str]]:
    """Split a command line into the name of the command, one or two words, and its options."""
    for count in (2, 1):
        if (name := " ".join(words[:count])) in COMMANDS:
            return name, words[count:]
    close = (
        [name for name in COMMANDS if name.startswith(f"{words[0]} ")]
        or difflib.get_close_matches(" ".join(words[:2]), COMMANDS, n=1)
        or difflib.get_close_matches(words[0], COMMANDS, n=1)
    )
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"There is no command {words[0]!r}; choose one of {', '.join(COMMANDS)}.{hint}")


def _print_help() -> None:
    lines = (f"  {name:{max(map(len, COMMANDS)) + 2}}{line}" for name, (_, line) in COMMANDS.items())
    print("usage: cobra COMMAND [OPTIONS]\n", (__doc__ or "").partition("\n\n")[2], "commands:", *lines, sep="\n")
    print("\n  cobra COMMAND --help lists its options; --debug adds tracebacks; cobra --version prints the version.")
    print("  --trust lets a command run code of your own that a run or a world names as its environment or as a part.")
