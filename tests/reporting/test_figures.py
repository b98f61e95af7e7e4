"""The figures, from the shipped weights."""

import functools
import json
import re
import shutil
from contextlib import nullcontext

import equinox as eqx
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from cobra_rl import cli
from cobra_rl.agents.cobra import make_reward
from cobra_rl.config import COBRA as TASK_PRESETS
from cobra_rl.environments import Problem
from cobra_rl.evaluation.vision import TEST_SEED, fixed_scenes
from cobra_rl.models.world import WorldModel
from cobra_rl.reporting.figures import FIGURES, tasks, worlds, write
from cobra_rl.reporting.figures.style import exploration_env
from cobra_rl.reporting.figures.worlds import LEVELS, STEPS, _example, deformed_grid
from cobra_rl.reporting.page.page import build
from cobra_rl.reporting.results import results_of
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.worlds import load_world
from untrained import untrained

CONFIG = TASK_PRESETS["debug"]
RESULTS = results_of("structured")
BESIDE = ("baselines", "learning_curves")  # figures of COBRA beside model-free agents


@pytest.fixture(scope="module")
def world():
    return load_world()


def _bias(world):
    return world.exploration.net.layers[-1].bias  # of the logit, the mean and the scale of a deformation


LONG = ("rollout_sheet", "solving", "traversals")  # take longest, and are drawn by what draws the others
PUBLISHED = [name for name in FIGURES if name not in BESIDE or (RESULTS / "baseline").is_dir()]
DRAWN = [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in PUBLISHED]


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_and_its_caption_are_written(name, world, tmp_path, monkeypatch):
    monkeypatch.setattr(worlds, "SCENES", 50)  # labels need not be exact here
    monkeypatch.setattr(worlds, "fit_probes", functools.partial(worlds.fit_probes, steps=100))
    options = {}
    if name == "solving":
        monkeypatch.setattr(tasks, "REWARDED", ("goal_finding_new_shape",))  # others are alike
        options["agents"] = {"goal_finding_new_shape": Agent.pretrained("goal_finding_new_position")}.__getitem__
    assert write(FIGURES[name](world, RESULTS, **options), name, tmp_path) == tmp_path / f"{name}.png"
    with Image.open(tmp_path / f"{name}.png") as picture:
        assert picture.width > 1000
        assert np.asarray(picture.convert("RGB")).std() > 30.0
    assert (tmp_path / f"{name}.txt").read_text().endswith(".\n")


def test_the_ablation_shows_lost_seeds_and_is_not_drawn_without_its_results(world, tmp_path):
    (tmp_path / "solve").mkdir()
    result = json.loads((RESULTS / "solve" / "sorting.json").read_text())
    (tmp_path / "solve" / "sorting.json").write_text(json.dumps(result))
    with pytest.raises(FileNotFoundError, match="There is no result of `cobra solve --no-exploration-policy`"):
        FIGURES["ablation"](world, tmp_path)
    for seed in result["seeds"][1:]:
        seed["steps_to_90"] = None
    (tmp_path / "solve" / "sorting-uniform.json").write_text(json.dumps(result))
    drawn = FIGURES["ablation"](world, tmp_path)
    texts = [text.get_text() for axes in drawn.figure.axes for text in axes.texts]
    assert any(text.startswith(f"1 of {len(result['seeds'])}") for text in texts)


def made_up(folder, name, reached):
    """The result of a baseline at sorting, made of COBRA's: seeds that reached 90 % say so, a curve of three points."""
    record = json.loads((RESULTS / "solve" / "sorting.json").read_text())
    seeds = []
    for number, steps in enumerate(reached):
        kept = {
            key: value for key, value in record["seeds"][number].items() if key not in ("ends", "success", "checks")
        }
        curve = {"steps": [100, 1000, 100_000], "success": [0.0, 0.1, 0.9 if steps else 0.3]}
        lost = {} if steps else {"success_train": 0.28, "success_test": 0.2}
        seeds.append(kept | {"steps_to_90": steps, "episodes_to_90": steps and steps // 10, "curve": curve} | lost)
    options = {"agent": name, "steps": 200_000, "config": {"replay_ratio": 16.0}, "seeds": seeds}
    (folder / "baseline").mkdir(exist_ok=True)
    (folder / "baseline" / f"sorting-{name}.json").write_text(json.dumps(record | options))


@pytest.fixture
def beside(tmp_path):
    """COBRA's results of two tasks, and two baselines of one."""
    (tmp_path / "solve").mkdir()
    for task in ("sorting", "clustering"):
        shutil.copy(RESULTS / "solve" / f"{task}.json", tmp_path / "solve")
    made_up(tmp_path, "mpo_raw", [None, None])
    made_up(tmp_path, "mpo_handheld", [7040, 9000])
    return tmp_path


@pytest.mark.parametrize("name", ["performance", "baselines"])
def test_bars_of_model_free_agents_say_who_did_not_get_there(name, beside, debug_world):
    drawn = FIGURES[name](load_world(debug_world), beside)
    texts = [text.get_text() for axes in drawn.figure.axes for text in axes.texts]
    assert "0 of 2\n28%" in texts
    assert "8020" in texts
    grey = [bar for bar in drawn.figure.axes[-1].patches if bar.get_facecolor()[:3] == to_rgb(tasks.GREY)]
    assert [bar.get_height() for bar in grey] == [200_000]
    assert [text.get_text() for text in drawn.figure.legends[0].get_texts()] == ["COBRA", "MPO handheld", "MPO raw"]
    assert "200,000 (MPO raw)" in drawn.caption
    assert ("16 transitions" in drawn.caption) == (name == "baselines")


def test_learning_curves_are_on_a_logarithmic_axis(beside, debug_world):
    drawn = FIGURES["learning_curves"](load_world(debug_world), beside)
    panels = {axes.get_title(): axes for axes in drawn.figure.axes}
    assert {axes.get_xscale() for axes in panels.values()} == {"log"}
    lines = {line.get_label(): line for line in panels["sorting"].lines}
    assert lines["MPO raw"].get_ydata()[-1] == pytest.approx(0.3)
    assert lines["MPO handheld"].get_xdata()[-1] == pytest.approx(200_000)
    assert not {"MPO raw", "MPO handheld"} & {line.get_label() for line in panels["clustering"].lines}


def test_the_page_shows_baselines_where_there_are_results(beside):
    page = build(beside, {}, {})
    assert "Beside model-free agents" in page
    assert "sorting, MPO handheld" in page
    assert "have not been run" not in page
    assert re.search("Not measured yet, MPO raw: .*more distractors; clustering[.]", page)
    assert re.search("Not measured yet, MPO, slots: .*; sorting; clustering[.]", page)
    shutil.rmtree(beside / "baseline")
    assert "(MPO) have not been run" in build(beside, {}, {})


def test_the_command_says_where_a_figure_lies(tmp_path, capsys):
    cli.main(["figures", "performance", "--out", str(tmp_path)])
    assert str(tmp_path / "performance.png") in capsys.readouterr().out
    assert (tmp_path / "performance.png").exists()


def test_of_all_figures_those_without_results_are_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cobra_rl.cli.report.FIGURES", {"sparse": FIGURES["sparse"]})
    cli.main(["figures", "--results", str(tmp_path), "--out", str(tmp_path / "figures")])
    assert "sparse: left out. There is no result of `cobra solve TASK --sparse`" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["figures", "sparse", "--results", str(tmp_path), "--out", str(tmp_path / "figures")])


TASK = "goal_finding_new_shape"


@pytest.fixture
def only_solving(monkeypatch):
    """Of all figures the one of agents at play, of one task; the shipped agents are not to be asked."""
    monkeypatch.setattr(tasks, "REWARDED", (TASK,))
    for module in ("cli.report", "reporting.page.page"):
        monkeypatch.setattr(f"cobra_rl.{module}.FIGURES", {"solving": FIGURES["solving"]})
    monkeypatch.setattr(Agent, "pretrained", None)


@pytest.mark.parametrize("command", ["figures", "report"])
def test_agents_at_play_are_those_of_the_runs_or_none(command, only_solving, debug_world, tmp_path, capsys):
    place, out = ("--out", []) if command == "figures" else ("--figures", ["--out", str(tmp_path / "report.html")])

    def draw(name, *options):
        cli.main([command, place, str(tmp_path / name), *out, *map(str, options)])
        return capsys.readouterr().out

    lacks = f"solving: left out. There is no run {tmp_path / 'solve' / TASK} of `cobra solve {TASK}`"
    assert lacks in draw("none", "--results", tmp_path)
    known = load_world(debug_world)
    predictor = untrained(lambda key: make_reward(CONFIG.reward, known.sizes.latents, key))
    Agent(known, predictor, CONFIG, Problem(TASK), debug_world).save(tmp_path / "solve" / TASK)
    assert "solving: left out. The run " in draw("none", "--results", tmp_path, "--world", "structured")  # another one
    assert not (tmp_path / "none" / "solving.png").exists()
    assert "left out" not in draw("own", "--results", tmp_path, "--world", debug_world)
    assert (tmp_path / "own" / "solving.png").exists()


@pytest.mark.parametrize("command", ["figures", "figures performance", "report"])
def test_published_results_do_not_stand_beside_another_world(command, debug_world, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cobra_rl.cli.report.FIGURES", {"performance": FIGURES["performance"]})
    place = "--figures" if command == "report" else "--out"
    with nullcontext() if command == "figures" else pytest.raises(SystemExit):
        cli.main([*command.split(), "--world", str(debug_world), place, str(tmp_path)])
    assert re.search(rf"There (is|are) no results? .*in {debug_world / 'results'}", "".join(capsys.readouterr()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["emergence", "performance", "sparse", "ablation", "latents_read", *BESIDE])
def test_a_figure_of_results_that_are_not_there_says_so(name, world, tmp_path):
    with pytest.raises(FileNotFoundError, match=f"There is no .*{tmp_path}"):
        FIGURES[name](world, tmp_path)


def test_a_folder_of_ones_own_gives_its_own_figure(world, tmp_path):
    shutil.copy(RESULTS / "explore_log.jsonl", tmp_path)
    drawn = FIGURES["emergence"](world, tmp_path)
    assert [line.get_label() for line in drawn.figure.axes[0].lines] == ["curious"]


def test_a_world_of_other_actions_is_refused(world):
    other = WorldModel(world.vision, world.transition, world.exploration, action_size=2)
    with pytest.raises(ValueError, match="whose actions have 4 dimensions; those of this world have 2"):
        FIGURES["clicks"](other, RESULTS)


def test_the_deformation_mirrors_where_the_policy_does(world):
    """Beyond the frame the policy's actions are mirrored into it; cut off, they would pile up at its border."""
    scenes = fixed_scenes(exploration_env(world), 100, 1, seed=TEST_SEED)
    slots = world.encode(scenes.images[:1])[0]
    further = eqx.tree_at(_bias, world, _bias(world).at[3].add(0.5))  # the first dimension of the motion click
    lattice, deformed = deformed_grid(world, slots, 2)[..., 0], deformed_grid(further, slots, 2)[..., 0]
    assert lattice.shape == (LEVELS, LEVELS)
    mirrored = 1.0 - np.abs(1.0 - (lattice + 0.5))
    np.testing.assert_allclose(deformed, mirrored, atol=1e-5)
    assert (lattice + 0.5 > 1.0).any()


def test_the_first_two_latents_are_the_place(world):
    scene, slot = _example(world)
    for latent, axis in ((0, 1), (1, 0)):
        swept = np.repeat(scene, len(STEPS), axis=0)
        swept[:, slot, latent] = STEPS
        mask = np.asarray(world.decode(swept).masks)[:, slot]
        centre = [np.average(np.arange(64), weights=m.sum(axis=1 - axis)) for m in mask]
        moves = np.diff(centre)
        assert (moves > 2.0).all() if axis == 1 else (moves < -2.0).all()  # x to the right, y up: fewer rows
