"""The README's code runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_python_blocks_run_in_order():
    namespace: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        exec(block, namespace)
    assert namespace["images"].shape == (1024, 64, 64, 3)
    assert namespace["envs"].num_envs == 64
    assert namespace["env"].reset(namespace["key"])[1].any()


def test_commands_and_files_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\bmake ([a-z]+)\b", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    tree = README[README.index("src/cobra_rl/\n") :]
    ours = {
        path.name for folder in ("src", "tests", "benchmarks", "notebooks") for path in (ROOT / folder).rglob("*.py")
    }
    assert set(re.findall(r"\b([a-z_]+\.py)\b", tree)) <= ours


def test_figures_exist():
    """They are drawn in tests/figures."""
    from cobra_rl.figures import FIGURES

    named = {name for names in re.findall(r"cobra figures ([a-z_ ]+)", README) for name in names.split()}
    assert named
    assert named <= FIGURES.keys()


@pytest.mark.parametrize("command", re.findall(r"`cobra (play-random [^`]+)`", README))
def test_cobra_commands_run(command, tmp_path, monkeypatch, capsys):
    from cobra_rl import cli

    monkeypatch.chdir(tmp_path)
    cli.main(command.split())
    assert (tmp_path / capsys.readouterr().out.split()[-1]).exists()


@pytest.mark.parametrize("command", re.findall(r"^\.venv/bin/cobra ([^#\n]+)", README, re.MULTILINE))
def test_long_commands_are_understood(command):
    """Those that take minutes or hours; tests of their phases run them on small settings."""
    from cobra_rl import cli

    assert cli.parse(command.replace("[", "").replace("]", "").split())
