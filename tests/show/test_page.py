"""The report: one page, whole in itself, that says where each number comes from."""

import html
import json
import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image

from cobra_rl import cli
from cobra_rl.figures import Drawn
from cobra_rl.figures.style import RESULTS
from cobra_rl.report import page, pictures
from cobra_rl.report.page import build, write_report
from cobra_rl.report.pictures import FILMS, Picture, gather_figures, gather_films

ROOT = Path(__file__).parents[1]
VOID = {"meta", "img", "br", "hr", "link", "rect"}


class Outline(HTMLParser):
    """Checks that what is opened is closed, in order; remembers what is loaded and linked, and the names of places."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.loaded, self.linked, self.places = [], [], [], set()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.loaded += [named[name] for name in ("src", "srcset", "data", "poster") if name in named]
        self.linked += [named["href"]] if "href" in named else []
        self.places |= {named["id"]} if "id" in named else set()
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def picture(path: Path, size: tuple[int, int] = (8, 6)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, "white").save(path)
    path.with_suffix(".txt").write_text("Scenes & slots, V_enc.\n")
    return path


def draw(_) -> Drawn:
    return Drawn(Figure(figsize=(0.2, 0.2)), "Drawn just now.")


def cannot_draw(_) -> Drawn:
    raise FileNotFoundError("There are no results to draw this from.")


@pytest.fixture
def results(tmp_path):
    """The published figures of the exploration phase, and three seeds of a task of which one never got there."""
    folder = tmp_path / "clone" / "results"
    (folder / "solve").mkdir(parents=True)
    for name in ("vision", "explore", "explore_random", "demo"):
        shutil.copy(RESULTS / f"{name}.json", folder)
    solved = json.loads((RESULTS / "demo.json").read_text()) | {"command": "cobra solve sorting --note '<b>&'"}
    scores = [(1.0, 0.9, 300), (0.9, 0.5, 400), (0.8, 0.4, None)]
    solved["seeds"] = [
        solved["seeds"][0] | {"seed": seed, "success_train": train, "success_test": test, "steps_to_90": steps}
        for seed, (train, test, steps) in enumerate(scores)
    ]
    (folder / "solve" / "sorting.json").write_text(json.dumps(solved))
    return folder


def test_the_page_is_whole_in_itself(results, tmp_path):
    png = picture(tmp_path / "a.png").read_bytes()
    figures = {name: Picture(png, "A <figure>.", f"cobra figures {name}") for name in ("decomposition", "of_tomorrow")}
    gif = picture(tmp_path / "solving.gif").read_bytes()
    text = build(results, figures, {"solving": Picture(gif, "A film.", "make demo")})
    outline = Outline(text)
    assert [source[:22] for source in outline.loaded].count("data:image/png;base64,") == 2
    assert all(source.startswith("data:image/") for source in outline.loaded)
    assert all(link[0] == "#" and link[1:] in outline.places for link in outline.linked)
    for outside in (
        "http:",
        "https:",
        "<script",
        "<link",
        "@import",
        "url(",
        "file:",
        str(tmp_path),
        str(ROOT),
        "/root",
    ):
        assert outside not in text
    assert "A &lt;figure&gt;." in text
    assert "$" not in re.sub('base64,[^"]*', "", text)  # every place of the template is filled


def test_every_number_has_its_command(results):
    text = build(results, {}, {})
    for path in results.rglob("*.json"):
        assert f"<code>{html.escape(json.loads(path.read_text())['command'])}</code>" in text
        assert f"results/{path.relative_to(results)}" in text


def test_numbers_come_with_intervals_and_lost_seeds_are_counted(results):
    text = build(results, {}, {})
    assert "<b>90.0%</b>" in text  # the interquartile mean of 100, 90 and 80 %
    assert '<span class="interval">80.0%-100.0%</span>' in text
    assert "2 of 3 seeds got there" in text
    assert "1 of 3 seeds never got to 90\u00a0% within 600 rewarded steps" in text
    assert "Not measured yet: goal finding: new shape" in text


def test_what_falls_short_is_said(results):
    record = json.loads((results / "explore.json").read_text())
    record["figures"] |= {"hit_rate": 0.5, "position_error": 0.01}
    (results / "explore.json").write_text(json.dumps(record))
    short = build(results, {}, {}).partition('id="short"')[2]
    assert '<a href="#curious">clicks on a sprite</a>: 50.0%, asked ≥\u00a070%.' in short
    assert "position error" not in short
    assert "for uniform actions</a>: 0.733" in short


def test_without_results_of_tasks_the_page_says_so(results):
    shutil.rmtree(results / "solve")
    text = build(results, {}, {})
    Outline(text)
    assert "No task has been measured here yet" in text


def test_figures_are_reused_drawn_or_left_out(tmp_path, capsys):
    old = picture(tmp_path / "old.png").read_bytes()
    drawers = {"old": cannot_draw, "new": draw, "none": cannot_draw}
    figures = gather_figures(tmp_path, drawers, tmp_path, load=lambda: None)
    assert list(figures) == ["old", "new"]
    assert figures["old"] == Picture(old, "Scenes & slots, V_enc.", "cobra figures old")
    assert figures["new"].caption == "Drawn just now."
    assert "none: left out. There are no results to draw this from." in capsys.readouterr().out


def test_a_figure_older_than_its_results_says_so(results, tmp_path):
    path, drawers = picture(tmp_path / "performance.png"), {"performance": cannot_draw}
    assert gather_figures(tmp_path, drawers, results)["performance"].note == ""
    os.utime(path, (0, 0))
    assert "Drawn before" in gather_figures(tmp_path, drawers, results)["performance"].note


def test_the_command_writes_the_page(tmp_path, monkeypatch, capsys):
    picture(tmp_path / "figures" / "clicks.png")
    monkeypatch.setattr(page, "FIGURES", {"clicks": cannot_draw})
    cli.main(["report", "--out", str(tmp_path / "a" / "report.html"), "--figures", str(tmp_path / "figures")])
    assert str(tmp_path / "a" / "report.html") in capsys.readouterr().out
    text = (tmp_path / "a" / "report.html").read_text()
    outline = Outline(text)
    assert "Scenes &amp; slots, V<sub>enc</sub>." in text
    assert len(outline.loaded) == 1 + len(
        [path for path in (ROOT / "docs").glob("*.gif") if path.stem in pictures.FILMS]
    )


def test_a_mistake_is_one_sentence(results, tmp_path):
    file = picture(tmp_path / "file.png")
    with pytest.raises(FileNotFoundError, match="made from the results of a clone"):
        write_report(tmp_path / "report.html", tmp_path, tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"--out is .*, a folder"):
        write_report(tmp_path, tmp_path, results)
    with pytest.raises(ValueError, match=r"--figures is .*, a file"):
        write_report(tmp_path / "report.html", file, results)
    for name, content, sentence in (
        ("vision.json", "{", "results/vision.json is not JSON"),
        ("vision.json", "{}", "results/vision.json does not say which command made it"),
        ("solve/juggling.json", '{"command": "cobra"}', "results/solve/juggling.json is not the result of a task"),
    ):
        (results / name).write_text(content)
        with pytest.raises(ValueError, match=sentence):
            build(results, {}, {})
        (results / name).unlink()


def test_the_films_of_the_page_are_in_docs():
    assert set(gather_films(ROOT / "docs")) == set(FILMS)
