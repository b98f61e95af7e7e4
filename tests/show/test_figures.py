"""The figures, from the shipped weights."""

import json
import sys
import typing

import numpy as np
import pytest
from PIL import Image

from cobra_rl import cli, commands, load_pretrained
from cobra_rl.figures import FIGURES
from cobra_rl.figures.style import RESULTS
from cobra_rl.figures.traversals import STEPS, _example


def test_the_cli_lists_the_figures():
    assert typing.get_args(commands.FigureName) == tuple(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_and_its_caption_are_written(name, tmp_path, capsys, monkeypatch):
    module = sys.modules["cobra_rl.figures.solving"]
    monkeypatch.setattr(module, "TASKS", {"clustering": "clustering"})  # the others are alike
    monkeypatch.setattr(sys.modules["cobra_rl.figures.traversals"], "SCENES", 100)  # labels need not be exact here
    cli.main(["figures", name, "--out", str(tmp_path)])
    assert str(tmp_path / f"{name}.png") in capsys.readouterr().out
    with Image.open(tmp_path / f"{name}.png") as picture:
        assert picture.width > 1000
        assert np.asarray(picture.convert("RGB")).std() > 30.0
    assert (tmp_path / f"{name}.txt").read_text().endswith(".\n")


def test_the_ablation_shows_lost_seeds_and_is_not_drawn_without_its_results(tmp_path, monkeypatch, capsys):
    (tmp_path / "solve").mkdir()
    result = json.loads((RESULTS / "solve" / "sorting.json").read_text())
    (tmp_path / "solve" / "sorting.json").write_text(json.dumps(result))
    monkeypatch.setattr(sys.modules["cobra_rl.figures.performance"], "RESULTS", tmp_path)
    with pytest.raises(SystemExit):
        cli.main(["figures", "ablation", "--out", str(tmp_path)])
    assert "There is no result of `cobra solve --no-exploration-policy`" in capsys.readouterr().err
    for seed in result["seeds"][1:]:
        seed["steps_to_90"] = None
    (tmp_path / "solve" / "sorting-uniform.json").write_text(json.dumps(result))
    drawn = FIGURES["ablation"](load_pretrained())
    texts = [text.get_text() for axes in drawn.figure.axes for text in axes.texts]
    assert f"1 of {len(result['seeds'])}" in texts


def test_of_all_figures_those_without_results_are_left_out(tmp_path, capsys, monkeypatch):
    def missing(_):
        raise FileNotFoundError("There are no results of it.")

    monkeypatch.setattr("cobra_rl.figures.FIGURES", {"sparse": missing})
    cli.main(["figures", "--out", str(tmp_path)])
    assert "sparse: left out. There are no results of it." in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["figures", "sparse", "--out", str(tmp_path)])


def test_the_first_two_latents_are_the_place():
    vision = load_pretrained()
    scene, slot = _example(vision)
    for latent, axis in ((0, 1), (1, 0)):
        swept = np.repeat(scene, len(STEPS), axis=0)
        swept[:, slot, latent] = STEPS
        mask = np.asarray(vision.decode(swept).masks)[:, slot]
        centre = [np.average(np.arange(64), weights=m.sum(axis=1 - axis)) for m in mask]
        moves = np.diff(centre)
        assert (moves > 2.0).all() if axis == 1 else (moves < -2.0).all()  # x to the right, y up: fewer rows
