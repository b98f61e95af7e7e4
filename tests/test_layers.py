"""Imports point one way, and the library leaves the process alone."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "cobra_rl"
MODULES = sorted(SOURCE.rglob("*.py"))

# From the ground up: each room may use the rooms above it in this list, and nothing else of the package.
ROOMS = (
    "bounds",
    "cache",
    "xla",
    "backend",
    "console",
    "parts",
    "spriteworld",
    "storage",
    "collect",
    "models",
    "config",
    "agents",
    "environments",
    "evaluation",
    "phases",
    "runs",
    "reporting",
    "play",
    "cli",
    "__init__",
    "__main__",
)


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
    below = set(ROOMS[: ROOMS.index(room(path)) + 1]) | {"__version__"}
    assert imported(ast.parse(path.read_text())) <= below


def test_every_room_is_known():
    assert {room(path) for path in MODULES} == set(ROOMS)


def test_only_the_command_line_touches_the_process():
    """`sys.argv` and `os.execv` belong to `cli/`."""
    for path in MODULES:
        if room(path) != "cli":
            text = path.read_text()
            assert "sys.argv" not in text, path
            assert "os.execv" not in text, path
            assert "sys.exit" not in text, path
