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
from cobra_rl.reporting.figures import Drawn
from cobra_rl.reporting.page import page
from cobra_rl.reporting.page.page import FILMS, Picture, build, gather_figures, gather_films, write_report
from cobra_rl.reporting.results import results_of
from cobra_rl.runs.worlds import find_world

ROOT = Path(__file__).parents[2]
RESULTS = results_of("structured")
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


def draw(*_) -> Drawn:
    return Drawn(Figure(figsize=(0.2, 0.2)), "Drawn just now.")


def cannot_draw(*_) -> Drawn:
    raise FileNotFoundError("There are no results to draw this from.")


@pytest.fixture
def results(tmp_path):
    """The published figures of the exploration phase, and three seeds of a task of which one never got there."""
    folder = tmp_path / "clone" / "results"
    (folder / "solve").mkdir(parents=True)
    for name in ("vision", "explore", "explore_random", "demo"):
        shutil.copy(RESULTS / f"{name}.json", folder)
    solved = json.loads((RESULTS / "demo.json").read_text()) | {"command": "cobra solve sorting --note '<b>&'"}
    solved["problem"]["task"] = "sorting"
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
    assert not re.search(r"\{\{|\{%|#\}", re.sub("<style>.*?</style>", "", text, flags=re.DOTALL))  # all is filled in


def test_every_number_has_its_command(results):
    text = build(results, {}, {})
    for path in results.rglob("*.json"):
        command = json.loads(path.read_text())["command"]
        assert f"<code>{html.escape(command, quote=False)}</code>" in text.replace("&#39;", "'")
        assert f"results/{path.relative_to(results)}" in text


def test_numbers_come_with_intervals_and_lost_seeds_are_counted(results):
    text = build(results, {}, {})
    assert "<b>90.0%</b>" in text  # the interquartile mean of 100, 90 and 80 %
    assert '<span class="interval">80.0%-100.0%</span>' in text
    assert "<b>1 of 1</b> <span>tasks solved in training mode" in text  # 90 % is enough, exactly
    assert "2 of 3 seeds got there" in text
    assert "1 of 3 seeds never got to 90\u00a0% within 600 rewarded steps" in text
    assert "Not measured yet, COBRA: goal finding, new shape; goal finding, new position; " in text


def test_what_falls_short_is_said(results):
    record = json.loads((results / "explore.json").read_text())
    record["figures"] |= {"hit_rate": 0.5, "position_error": 0.01}
    (results / "explore.json").write_text(json.dumps(record))
    short = build(results, {}, {}).partition('id="short"')[2]
    assert '<a href="#curious">clicks on a sprite</a>: 50.0%, target ≥\u00a070%.' in short
    assert "position error" not in short
    assert "for uniform actions</a>: 0.792" in short


def test_without_results_of_tasks_the_page_says_so(results):
    shutil.rmtree(results / "solve")
    text = build(results, {}, {})
    Outline(text)
    assert "No task has been measured here yet" in text


def test_figures_are_reused_drawn_or_left_out(tmp_path, capsys):
    old = picture(tmp_path / "old.png").read_bytes()
    drawers = {"old": cannot_draw, "new": draw, "none": cannot_draw}
    figures = gather_figures(tmp_path, drawers, tmp_path)
    assert list(figures) == ["old", "new"]
    assert figures["old"] == Picture(old, "Scenes & slots, V_enc.", "cobra figures old")
    assert figures["new"].caption == "Drawn just now."
    said = capsys.readouterr().out
    assert "new: drawing ..." in said
    assert "none: left out. There are no results to draw this from." in said


@pytest.mark.parametrize("is_run", [False, True])
def test_a_figure_older_than_its_results_says_so(is_run, results, tmp_path):
    if is_run:
        (results / "solve" / "sorting").mkdir()
        (results / "solve" / "sorting.json").rename(results / "solve" / "sorting" / "result.json")
    path, drawers = picture(tmp_path / "performance.png"), {"performance": cannot_draw}
    assert gather_figures(tmp_path, drawers, results)["performance"].note == ""
    os.utime(path, (0, 0))
    assert "Drawn before" in gather_figures(tmp_path, drawers, results)["performance"].note


def test_a_figure_older_than_its_world_says_so(results, tmp_path):
    path, drawers = picture(tmp_path / "clicks.png"), {"clicks": cannot_draw}
    shutil.copytree(find_world("structured"), tmp_path / "world")
    assert gather_figures(tmp_path, drawers, results, world=tmp_path / "world")["clicks"].note == ""
    os.utime(path, (0, 0))
    assert "Drawn before" in gather_figures(tmp_path, drawers, results, world=tmp_path / "world")["clicks"].note


def test_the_report_is_written_with_films_and_figures(tmp_path, monkeypatch):
    picture(tmp_path / "figures" / "clicks.png")
    monkeypatch.setattr(page, "FIGURES", {"clicks": cannot_draw})
    said = []
    out = write_report(tmp_path / "a" / "report.html", tmp_path / "figures", say=said.append)
    assert out == tmp_path / "a" / "report.html"
    assert said == [f"clicks: {tmp_path / 'figures' / 'clicks.png'}"]
    outline = Outline(out.read_text())
    assert "Scenes &amp; slots, V<sub>enc</sub>." in out.read_text()
    assert len(outline.loaded) == 1 + len([path for path in (ROOT / "docs").glob("*.gif") if path.stem in FILMS])


def test_the_command_writes_the_page(results, tmp_path, monkeypatch, capsys):
    picture(tmp_path / "figures" / "clicks.png")
    monkeypatch.setattr(page, "FIGURES", {"clicks": cannot_draw})
    out = tmp_path / "a" / "report.html"
    cli.main(["report", "--out", str(out), "--figures", str(tmp_path / "figures"), "--results", str(results)])
    assert str(out) in capsys.readouterr().out
    assert "cobra solve sorting --note" in out.read_text()


def test_a_page_of_ones_own_world_shows_no_film_of_the_shipped_agents(results, tmp_path, monkeypatch):
    picture(tmp_path / "figures" / "clicks.png")
    monkeypatch.setattr(page, "FIGURES", {"clicks": cannot_draw})
    shutil.copytree(find_world("structured"), tmp_path / "world")
    out = write_report(
        tmp_path / "report.html", tmp_path / "figures", results, world=tmp_path / "world", say=lambda _: None
    )
    assert len(Outline(out.read_text()).loaded) == 1


def test_markup_in_names_commands_and_captions_is_text(results, tmp_path):
    """What a file of results or a caption says is shown, never obeyed."""
    mark = "<script>alert('x')</script>&\""
    for name in ("vision", "explore", "explore_random", "demo", "solve/sorting"):
        record = json.loads((results / f"{name}.json").read_text())
        record["command"] = f"cobra {name} {mark}"
        if name == "vision":
            record["figures"] = {f"paper/{mark}/train": metrics for metrics in record["figures"].values()}
        if name == "demo":
            record["problem"]["task"] = mark
        (results / f"{name}.json").write_text(json.dumps(record))
    shutil.copy(results / "solve" / "sorting.json", results / "solve" / "sorting-<i>x.json")
    png = picture(tmp_path / "a.png").read_bytes()
    figures = {name: Picture(png, f"Caption {mark}.", f"cobra {mark}", f"Note {mark}") for name in ("clicks", "other")}
    text = build(results, figures, {"cobra": Picture(png, f"Film {mark}.", f"cobra {mark}")})
    Outline(text)
    assert "<script" not in text
    assert "<i>" not in text
    escaped = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&#34;"
    for place in ("cobra vision", "cobra explore", "cobra explore_random", "cobra demo", "cobra solve/sorting"):
        assert f"<code>{place} {escaped}</code>" in text
    assert f'<th scope="row">paper, {escaped.replace("/", ", ")}, train</th>' in text
    assert text.count(f'alt="Caption {escaped}."') == text.count(f"<figcaption>Caption {escaped}.") == len(figures)
    assert text.count(f'<strong class="note">Note {escaped}</strong>') == len(figures)
    assert f"Film {escaped}." in text
    assert '<th scope="row">sorting, &lt;i&gt;x</th>' in text


def test_a_mistake_is_one_sentence(results, tmp_path):
    file = picture(tmp_path / "file.png")
    with pytest.raises(FileNotFoundError, match="nowhere, which is no folder; give one"):
        write_report(tmp_path / "report.html", tmp_path, tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"--out is .*; it must be a path for a file, its name ending in .html"):
        write_report(tmp_path, tmp_path, results)
    with pytest.raises(ValueError, match=r"--figures is .*; it must be a path for a folder"):
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
