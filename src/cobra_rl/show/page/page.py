"""The page: figures, films and tables put into template.html. Only `write_report` draws and writes."""

from collections.abc import Mapping
from pathlib import Path
from string import Template

from cobra_rl.figures import FIGURES
from cobra_rl.figures.style import RESULTS
from cobra_rl.report.measured import Measured, read, read_solved
from cobra_rl.report.pictures import Picture, figure_html, gather_figures, gather_films
from cobra_rl.report.sections import GROUPS, falls_short, in_short, task_name, task_sections
from cobra_rl.report.tables import CURIOUS, IMAGINE, Row, explore_table, scenes_table, task_table, vision_table
from cobra_rl.runtime.storage import write_atomically

REWARD = "“Reward”: that of an episode's last step; a random policy has 0 and a search that knows all has 1."
FOLDED = {"rollout_sheet": "Sixteen scenes, not chosen", "traversals": "What each latent does"}


def write_report(out: Path, figures: Path, results: Path = RESULTS) -> Path:
    """Draws the figures that are missing in the folder `figures`, and writes the page."""
    if not results.is_dir():
        raise FileNotFoundError(
            "The report is made from the results of a clone, and this is an installed package without them."
        )
    if out.is_dir():
        raise ValueError(f"--out is {out}, a folder; it must be the name of a file, such as runs/report.html.")
    if figures.exists() and not figures.is_dir():
        raise ValueError(f"--figures is {figures}, a file; it must be a folder.")
    pictures = gather_figures(figures, FIGURES, results)
    page = build(results, pictures, gather_films(results.parent / "docs"))
    write_atomically(out, page.encode())
    print(f"The report ({len(page) / 1e6:.1f} MB, opens in any browser): {out}")
    return out


def build(results: Path, pictures: Mapping[str, Picture], films: Mapping[str, Picture]) -> str:
    """The page, from the results of a clone and the pictures there are."""
    template = Template(_text("template.html"))
    vision, explore, random = (read(results, f"{name}.json") for name in ("vision", "explore", "explore_random"))
    demo, solved = read(results, "demo.json"), read_solved(results)
    figures = {name: figure_html(picture, FOLDED.get(name, "")) for name, picture in pictures.items()}
    parts = {f"figure_{name}": text for name, text in figures.items()}
    parts |= {f"film_{name}": figure_html(film) for name, film in films.items()}
    parts["film_first"] = parts.pop("film_cobra", None) or parts.pop("film_solving", "")
    parts["style"] = _text("style.css")
    parts["in_short"] = in_short(vision, explore, solved)
    if vision:
        parts |= {"table_vision": vision_table(vision), "table_scenes": scenes_table(vision)}
    if explore:
        parts["table_imagine"] = explore_table(explore, random, IMAGINE)
        parts["table_curious"] = explore_table(explore, None, CURIOUS)
    if demo:
        parts["table_demo"] = _demo(demo)
    if any("normalised_reward_train" in of.record["seeds"][0] for tasks in solved.values() for of in tasks.values()):
        parts["reward_note"] = REWARD
    parts["results"] = task_sections(solved, figures)
    parts["short"] = falls_short(vision, explore, solved)
    places = template.get_identifiers()
    grouped = {name for group in GROUPS for name in group.figures}
    homeless = [text for name, text in figures.items() if f"figure_{name}" not in places and name not in grouped]
    parts["figures_more"] = "".join(homeless)
    return template.substitute(dict.fromkeys(places, "") | parts)


def _demo(demo: Measured) -> str:
    problem, steps = demo.record["problem"], demo.record["steps"]
    return task_table([Row(f"{task_name(problem['task'])}, {steps:,} rewarded steps", demo)])


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
