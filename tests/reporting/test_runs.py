"""`cobra runs`: what, how far, how good, since when; running and damaged runs have their line too."""

import json
import os
import shutil
from pathlib import Path

import pytest

from cobra_rl import cli
from cobra_rl.reporting.runs import read_runs
from cobra_rl.runs.folder import locked
from cobra_rl.runs.worlds import agents_in
from cobra_rl.storage.files import write_json

GONE = "/nowhere/of-a-long-name-without-any-space/explore/world"


def make_run(folder: Path, settings: dict, step: int = 0, log: str = "") -> Path:
    write_json(folder / "run.json", {"settings": settings})
    place = folder / "seed0" if settings.get("phase") == "task" else folder
    (place / "checkpoints").mkdir(parents=True)
    if step:
        (place / "checkpoints" / f"step_{step:08d}.safetensors").touch()
    (place / "log.jsonl").write_text(log)
    return folder


@pytest.fixture
def runs(tmp_path) -> Path:
    seen = json.dumps({"step": 50, "fg_ari_attention": 0.8125}) + '\n{}\nnull\n{"step": 60, "fg_ari'
    make_run(tmp_path / "vision", {"phase": "vision", "seed": 3, "config": {"steps": 200}}, 50, seen)
    make_run(tmp_path / "explore", {"phase": "explore", "seed": 0, "config": {"steps": 40}}, 40, '{"hit_rate": 0.5}')
    sorting = {"phase": "task", "problem": {"task": "sorting"}, "steps": 100, "seed_count": 2}
    gone = {"world": {"path": GONE, "sha256": ""}}
    make_run(tmp_path / "solve" / "sorting", sorting | gone, 60, '{"step": 60, "success": 0.25}')
    finished = make_run(tmp_path / "solve" / "done", sorting | {"seed_count": 1}, 100)
    write_json(finished / "result.json", {"seeds": [{"success_test": 0.97}]})
    for name, content in (("empty", ""), ("list", "[]"), ("other", '{"settings": {"phase": 7}}')):
        make_run(tmp_path / name, {})
        (tmp_path / name / "run.json").write_text(content)
    shutil.copytree(agents_in("structured")["sorting"], tmp_path / "shipped")
    taught = {"phase": "task", "problem": {"task": "my agent"}, "steps": None, "seed_count": 1}  # on the page
    make_run(tmp_path / "taught", taught, log='{"step": 40, "success": 0.5}\n{"step": 90, "success": 0.9}\n')
    return tmp_path


def test_every_run_has_its_line(runs):
    with locked(runs / "vision"):
        lines = {line.folder.name: line for line in read_runs(runs)}
    assert len(lines) == 9
    assert lines["taught"][1:4] == ("my agent, 1 seed", "agent", "success 90.0%")
    assert lines["taught"].state == "finished"
    vision = lines["vision"]
    assert (vision.what, vision.far, vision.good) == ("vision, seed 3", "50/200", "FG-ARI 0.812")
    assert vision.state == "running"
    assert lines["explore"][1:4] == ("explore, seed 0", "40/40", "hits 50.0%")
    assert lines["explore"].state == "finished"
    assert lines["sorting"][1:4] == ("sorting, 2 seeds", "60/200", "success 25.0%")
    assert lines["sorting"].state == f"its world is gone: {GONE}"
    assert (lines["done"].good, lines["done"].state) == ("success, test 97.0%", "finished")
    for name in ("empty", "list", "other"):
        assert lines[name].state == "damaged"
        assert lines[name].what.startswith("run.json is damaged: ")
    assert all(line.since.startswith("20") for line in lines.values())


@pytest.mark.parametrize("columns", [60, 80])
def test_the_table_is_readable_in_narrow_terminals(runs, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    cli.main(["runs", str(runs)])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= columns
    words = " ".join(text.replace("│", " ").split())
    for expected in ("vision", "50/200", "stopped", "FG-ARI", "97.0%", "damaged", "finished"):
        assert expected in words
    rows = [line.split("│")[2].strip() for line in text.splitlines() if line.startswith("│")]
    assert GONE in "".join(rows)  # a long name is folded and not cut


def test_of_a_running_one_the_log_says_how_far_it_is(runs):
    sorting = runs / "solve" / "sorting"
    for logged, far in (("75", "75/200"), ("1e999", "100/200"), ("-3", "60/200"), ("40", "60/200")):
        (sorting / "seed0" / "log.jsonl").write_text(f'{{"step": {logged}, "success": 0.25}}\n')
        with locked(sorting):
            assert {line.folder.name: line.far for line in read_runs(runs)}["sorting"] == far
    assert {line.folder.name: line.far for line in read_runs(runs)}["sorting"] == "60/200"


def test_a_folder_without_runs_is_said_and_what_is_no_folder_is_refused(tmp_path, capsys):
    cli.main(["runs", str(tmp_path)])
    assert "There are no runs in" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["runs", str(tmp_path / "nowhere")])
    assert f"{tmp_path / 'nowhere'} is no folder" in capsys.readouterr().err.replace(os.linesep, "")
