"""The README's code runs as it stands, each block alone."""

import re
from pathlib import Path

import pytest

from cobra_rl import cli
from cobra_rl.reporting.figures import FIGURES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
ARCHIVE = sorted((ROOT / "docs" / "archive").glob("*.md"))


def blocks(page: Path) -> list[str]:
    """The blocks of Python that stand on their own."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


OWN = ROOT / "docs" / "worlds-of-your-own.md"
BLOCKS = [
    (page.stem, block) for page in (ROOT / "README.md", ROOT / "docs" / "environment.md") for block in blocks(page)
]
BLOCKS += [(OWN.stem, block) for block in blocks(OWN) if "Agent.learn" in block]
ENVIRONMENT = (ROOT / "docs" / "environment.md").read_text()


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[page for page, _ in BLOCKS])
def test_a_python_block_runs_alone(page, block, monkeypatch, tmp_path, debug_world):
    monkeypatch.chdir(tmp_path)
    if "Agent.learn" in block:  # in a tiny world, which compiles in a fraction of the time
        (tmp_path / "worlds").mkdir()
        (tmp_path / "worlds" / "tiny").symlink_to(debug_world)
        monkeypatch.setenv("COBRA_WORLDS", str(tmp_path / "worlds"))
        monkeypatch.setattr("cobra_rl.runs.worlds.DEFAULT_WORLD", "tiny")
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
    assert [page for page, _ in BLOCKS] == 3 * ["README"] + 3 * ["environment"] + ["worlds-of-your-own"]


def test_the_readme_is_short():
    assert len(README.encode()) < 9_000
    assert README.index("make demo") < README.index("![") < README.index("## Results") < README.index("What differs")


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *ARCHIVE], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not link.startswith("https://"):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_files_exist(page):
    makefile = (ROOT / "Makefile").read_text()
    text = page.read_text()
    for target in re.findall(r"(?:`|^)make ([a-z-]+)\b", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for module in re.findall(r"python -m (benchmarks[\w.]+)", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module
    for path in re.findall(r"`((?:benchmarks|tests|results|notebooks)/[a-z0-9_./-]+)`", text):
        assert (ROOT / path).exists(), path


def test_the_map_of_the_code_names_what_there_is():
    """Each row of docs/architecture.md's table of rooms begins with folders and files of the package."""
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## The rooms")[2].partition("\n## ")[0]
    package = ROOT / "src" / "cobra_rl"
    cells = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`([\w./]+)`", cell)} - {"src/cobra_rl/"}
    found = {path.name + "/" * path.is_dir() for path in package.iterdir() if not path.name.startswith("_")}
    links = {"docs/", "results/", "py.typed"}
    assert {name.replace("weights/NAME/", "weights/") for name in named} == found - links


@pytest.mark.parametrize("page", [*PAGES, *ARCHIVE], ids=lambda page: page.name)
def test_cells_are_short(page):
    """A table is for looking things up."""
    for line in page.read_text().splitlines():
        if line.startswith("|"):
            assert max(map(len, line.split(" | "))) <= 340, line


def test_figures_exist():
    """They are drawn in tests/reporting."""
    text = "".join(page.read_text() for page in PAGES)
    named = {name for names in re.findall(r"cobra figures ([a-z_]+(?: [a-z_]+)*)`", text) for name in names.split()}
    assert named
    assert named <= FIGURES.keys()


@pytest.mark.parametrize("command", re.findall(r"^cobra (play-random [^#\n]+)", ENVIRONMENT, re.MULTILINE))
def test_cobra_commands_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cli.main(command.split())
    assert (tmp_path / capsys.readouterr().out.split()[-1]).exists()


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


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "src/cobra_rl/reporting/page/page.html.j2"], ids=lambda page: page.name
)
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
