"""The README's code runs as it stands, each block alone."""

import re
from pathlib import Path

import pytest

from cobra_rl import cli
from cobra_rl.show.figures import FIGURES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
OWN = (ROOT / "docs" / "worlds-of-your-own.md").read_text()
LEARNS = [block for block in re.findall(r"```python\n(.*?)```", OWN, re.DOTALL) if "Agent.learn" in block]


@pytest.mark.parametrize("block", [*BLOCKS, *LEARNS], ids=lambda block: re.sub(r"\W+", " ", block)[-40:])
def test_a_python_block_runs_alone(block, monkeypatch, tmp_path, debug_world):
    monkeypatch.chdir(tmp_path)
    if "Agent.learn" in block:  # in a tiny world, which compiles in a fraction of the time
        for module in ("worlds", "agent", "records"):
            monkeypatch.setattr(f"cobra_rl.{module}.SHIPPED", debug_world)
    quick = re.sub(r"steps=[23]00\)", "steps=8, final=2)", block)  # what it learns is tested elsewhere
    namespace: dict = {}
    exec(quick, namespace)
    if "keys = jax" in block:
        assert namespace["images"].shape == (1024, 64, 64, 3)
    if "imagined" in block:
        assert namespace["actions"].shape == (128, 4)
        assert namespace["imagined"].slots.shape == (8, 8, 12)
    if "make_vec" in block:
        assert namespace["envs"].num_envs == 64


def test_there_are_blocks_for_all_that_is_offered():
    assert len(BLOCKS) == 5
    assert len(LEARNS) == 1


def test_commands_and_files_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`|^)make ([a-z-]+)\b", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("https://arxiv.org/") or (ROOT / link).exists(), link
    tree = README[README.index("src/cobra_rl/\n") :]
    ours = {
        path.name for folder in ("src", "tests", "benchmarks", "notebooks") for path in (ROOT / folder).rglob("*.py")
    }
    assert set(re.findall(r"\b([a-z_]+\.py)\b", tree)) <= ours


def test_figures_exist():
    """They are drawn in tests/show."""
    named = {name for names in re.findall(r"cobra figures ([a-z_ ]+)`", README) for name in names.split()}
    assert named
    assert named <= FIGURES.keys()


@pytest.mark.parametrize("command", re.findall(r"`cobra (play-random [^`]+)`", README))
def test_cobra_commands_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cli.main(command.split())
    assert (tmp_path / capsys.readouterr().out.split()[-1]).exists()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = sorted(
    {
        command
        for page in PAGES
        for block in re.findall(r"```\n(.*?)```", page.read_text(), re.DOTALL)
        for command in re.findall(r"^(?:\.venv/bin/)?cobra ([^#\n]+)", block.replace("\\\n", " "), re.MULTILINE)
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_long_commands_are_understood(command):
    """Those that take minutes or hours; tests of their phases run them on small settings."""
    words = re.sub(r"[\[\]]", "", command).split()
    if "YOUR" not in command and words[0] not in ("COMMAND", "--help"):
        assert cli.parse(words)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "src/cobra_rl/show/page/page.html.j2"], ids=lambda page: page.name)
def test_a_folder_of_results_is_made_by_the_commands_before_it(page):
    """`--results A` is the folder into which what is read of it was put: evaluations, explore/ and solve/."""
    text = page.read_text()
    for found in re.finditer(r"^[\w./]*cobra .*--results ([\w/]+)", text, re.MULTILINE):
        made = re.findall(r"cobra (\w+ \w+) .*--out (\S+)", text[: found.start()])
        folder = found[1]
        assert {("evaluate vision", f"{folder}/vision.json"), ("evaluate explore", f"{folder}/explore.json")} <= {*made}
        assert ("train explore", f"{folder}/explore") in made
        solved = {out for command, out in made if command.startswith("solve")}
        assert solved & {f"{folder}/solve", f"{folder}/solve/sorting"}
