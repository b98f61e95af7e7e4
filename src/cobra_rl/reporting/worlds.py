"""A table of the worlds that are known by name: what each is, how it was trained, and how good it is."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cobra_rl.reporting.page.rows import solved
from cobra_rl.reporting.results import EXPLORE, VISION, Metric, read_explore, read_task, read_vision, results_of
from cobra_rl.reporting.tables import shown
from cobra_rl.runs.worlds import DEFAULT_WORLD, named_worlds, own_worlds, world_sha256
from cobra_rl.spriteworld.names import REWARDED


def print_worlds() -> None:
    """Print a row for each world that is known by name, whatever is in its folder."""
    table = Table("world", "what it is", "how it was trained", "how good", title="Worlds", padding=(0, 1, 0, 0))
    for name, home in named_worlds().items():
        title = f"{name}\n(default)" if name == DEFAULT_WORLD else name
        card = front_matter(home / "README.md")
        cells = (title, card.get("what", "-"), card.get("trained", "-"), _how_good(name))
        table.add_row(*(Text(cell, overflow="fold") for cell in cells))  # no markup: a card may be a stranger's
    Console().print(table)
    print(f"Worlds of your own are looked for in {own_worlds()} (COBRA_WORLDS names another folder).")


def front_matter(card: Path) -> dict[str, str]:
    """Read the lines `name: text` between the two lines `---` at the beginning of a model card, if there are any."""
    before, _, rest = card.read_text(errors="replace").partition("---\n") if card.is_file() else ("", "", "")
    lines = rest.partition("\n---\n")[0].splitlines() if not before else ()
    return {name.strip(): text.strip() for name, _, text in (line.partition(":") for line in lines)}


def _how_good(name: str) -> str:
    """Return the main metrics of a world in a line each, or the sentence that says what is damaged."""
    results = results_of(name)
    found = []
    try:
        world_sha256(name)
        if vision := read_vision(results):
            found.append(_measured(VISION["fg_ari_attention"], vision.main.get("fg_ari_attention")))
        if explore := read_explore(results):
            found.append(_measured(EXPLORE["hit_rate"], explore.metrics.get("hit_rate")))
        if tasks := {task: result for task in REWARDED if (result := read_task(results, f"solve/{task}"))}:
            found.append(f"tasks solved: {solved(tasks, 'train')}, in test mode {solved(tasks, 'test')}")
    except (ValueError, OSError) as error:
        return str(error)
    return "\n".join(found) or "not measured"


def _measured(metric: Metric, value: Any) -> str:
    return f"{metric.heading}: {shown(metric, value)}"
