"""Imports point one way, files and functions stay short, and the library leaves the process alone."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "cobra_rl"
MODULES = sorted(SOURCE.rglob("*.py"))

# Each room may use those of its own list, `bounds` and `cache`, and nothing else of the package.
ALLOWED = {
    "bounds": set(),
    "cache": set(),
    "spriteworld": set(),
    "runtime": set(),
    "models": set(),
    "config": {"models"},
    "agents": {"spriteworld", "models", "config", "runtime"},
    "environments": {"spriteworld"},
    "evaluation": {"spriteworld", "models", "config", "agents"},
    "worlds": {"models", "runtime"},
    "records": {"config", "environments", "worlds", "runtime"},
    "phases": {"spriteworld", "models", "config", "agents", "environments", "evaluation", "worlds", "runtime"},
    "agent": {"spriteworld", "models", "config", "agents", "environments", "worlds", "records", "phases", "runtime"},
    "players": {"models", "config", "agents", "environments", "worlds", "records", "agent", "runtime"},
    "show": {"spriteworld", "models", "agents", "environments", "evaluation", "worlds", "agent", "players", "runtime"},
    "play": {
        "spriteworld", "models", "config", "agents", "environments", "evaluation", "worlds", "agent", "players",
        "runtime",
    },
    "cli": {
        "spriteworld", "models", "config", "agents", "environments", "evaluation", "worlds", "phases", "agent",
        "players", "show", "play", "runtime",
    },
    "__init__": {"spriteworld", "agent", "worlds", "show"},
    "__main__": {"cli"},
}  # fmt: skip


def room(path: Path) -> str:
    """The part of the package that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    """The rooms that a file imports from."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cobra_rl."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "cobra_rl":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("cobra_rl.")}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_below(path):
    allowed = ALLOWED[room(path)] | {room(path), "bounds", "cache", "__version__"}
    assert imported(ast.parse(path.read_text())) <= allowed


def test_every_room_is_known():
    assert {room(path) for path in MODULES} == set(ALLOWED)


def test_only_the_command_line_touches_the_process():
    """`sys.argv` and `os.execv` belong to `cli/`."""
    for path in MODULES:
        if room(path) != "cli":
            text = path.read_text()
            assert "sys.argv" not in text, path
            assert "os.execv" not in text, path
            assert "sys.exit" not in text, path


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_and_functions_are_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            words = (ast.get_docstring(node, clean=False) or "").count("\n") + 1
            lines = node.end_lineno - node.lineno + 1 - words
            assert lines <= 50, f"{node.name} has {lines} lines without its docstring"
