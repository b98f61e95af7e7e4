"""The command line as a person meets it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cobra_rl import __version__, cli, spriteworld
from cobra_rl.cli import COMMANDS, process
from cobra_rl.config import COBRA, VISION
from cobra_rl.runs.worlds import agents_in
from cobra_rl.spriteworld import REWARDED, TASKS

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
AGENTS = agents_in("structured")
PROGRAM = str(Path(sys.executable).with_name("cobra"))


def test_play_random_writes_a_moving_picture(tmp_path, capsys):
    out = tmp_path / "films" / "sorting.gif"
    cli.main(["play-random", "sorting", "--steps", "6", "--size", "64", "--out", str(out)])
    assert str(out) in capsys.readouterr().out
    with Image.open(out) as film:
        assert film.size == (64, 64)
        assert film.n_frames == 6
        first = np.asarray(film.convert("RGB"))
        film.seek(5)
        assert not np.array_equal(first, np.asarray(film.convert("RGB")))


def test_watch_films_the_shipped_agent_beside_what_it_sees_and_imagines(tmp_path, capsys):
    out = tmp_path / "watch.gif"
    cli.main(["watch", "goal_finding_new_shape", "--mode", "test", "--frames", "3", "--out", str(out)])
    assert str(out) in capsys.readouterr().out
    with Image.open(out) as film:
        assert film.width > 2.9 * film.height * 192 / 214  # three pictures side by side
        assert film.n_frames >= 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["watch", "sorting", "--frames", "0"], "--frames is 0; it must be a whole number from 1 to 2,000"),
        (["watch", "sorting", "--run", "nowhere"], "nowhere is no run of `cobra solve`"),
        (["watch"], "Name a task, or give a run"),
        (["play-random", "sorting", "--steps", "0"], "--steps is 0; it must be a whole number from 1 to 2,000"),
        (["play-random", "sorting", "--size", "9"], "--size is 9; it must be a whole number from 16 to 1,024"),
        (["play-random", "sorting", "--steps", "1", "--out", "/dev/null/x.gif"], "/dev/null"),
        (["play-random", "sorting", "--steps", "1", "--out", "film.mp4"], "its name ending in .gif"),
        (["play-random", "sorting", "--steps", "2000", "--size", "1024"], "a film holds at most 300,000,000"),
        (["solve", "sorting", "--seeds", "100000"], "--seeds is 100000; it must be a whole number from 1 to 10,000"),
        (["solve", "sorting", "--first-seed", "4294967296"], "from 0 to 4,294,967,295"),
        (["solve", "sorting", "--first-seed", "4294967295", "--seeds", "2"], "--seeds - 1) is 4294967296; it must be"),
        (["baseline", "sorting", "--first-seed", "4294967294"], "--seeds - 1) is 4294967294; it must be"),
        (["train", "vision", "--seed", "4294967294"], "--seed is 4294967294; it must be a whole number from 0 to"),
        (["solve", "sorting", "--address", "auto"], "--address is auto, but only Ray uses it; add --runtime ray"),
        (["baseline", "sorting", "--workers", "2"], "--workers is 2, but only Ray uses it; add --runtime ray"),
        (["train", "explore", "--actors", "2"], "--actors is 2, but only Ray uses it; add --runtime ray"),
        (["reproduce", "--workers", "3"], "--workers is 3, but only Ray uses it; add --runtime ray"),
        (["play-random", "sortin"], "sortin"),
        (["play", "--port", "-1"], "--port is -1; it must be a whole number from 0 to 65,535"),
        (["play", "--run", "nowhere"], "nowhere is no run of `cobra solve`"),
        (["solve", "sorting", "--steps", "-5"], "--steps is -5; it must be a whole number from 1 to 1,000,000,000."),
        (["sovle", "sorting"], "There is no command 'sovle'; choose one of solve, baseline, watch"),
        (["train"], "Did you mean 'train vision'?"),
        (["solve"], "Name a task (goal_finding_new_shape"),
        (["solve", "sorting", "--world", "nowhere"], "nowhere is no world: it has no world.json"),
        (["solve", "sorting", "--env", "stars.py:task"], "not both"),
        (["solve", "--env", "no_such_module:task"], "nothing is found there: No module named 'no_such_module'"),
        (["solve", "--env", "json:dumps"], "json:dumps"),
        (["solve", "--env", "stars.py:task", "--variant", "released"], "--variant released is for tasks of the suite"),
        (["baseline"], "Name a task (goal_finding_new_shape"),
        (["baseline", "sorting", "--env", "stars.py:task"], "not both"),
        (["baseline", "--env", "no_such_module:task"], "nothing is found there: No module named 'no_such_module'"),
        (["solve", "sorting", "--preset", "big"], "big"),
        (["train", "explore", "--vision", "nowhere"], "There are no vision weights in nowhere"),
        (["figures", "--results", "nowhere"], "nowhere"),
        (["watch", "sorting", "--run-seed", "7"], "--run-seed goes with --run"),
        (["evaluate", "vision", "--suite", "--env", "stars.py:task"], "give --suite or --env, not both"),
        (["solve", "sorting", "--predictor", "reward", "--config.value"], "--config.value contradict each other"),
        (["train", "vision", "--steps", "5", "--config.steps", "7"], "--steps and --config.steps (7) contradict"),
        (
            ["train", "explore", "--policy", "per_slot", "--config.exploration.net", "joint"],
            "exploration.net (joint) con",
        ),
        (
            ["baseline", "sorting", "--features", "pixels", "--config.features", "slots"],
            "features (slots) con",
        ),
        (["evaluate", str(AGENTS["sorting"]), "--sampled"], "--sampled is for runs of MPO"),
        (["evaluate", "vision", "--scenes", "3"], "--scenes is 3; it must be a whole number from 10"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    output = capsys.readouterr()
    assert sentence in output.err
    assert "Traceback" not in output.err


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [
        (["solve", "sorthing"], (*REWARDED, "all")),
        (["watch", "sorthing"], REWARDED),
        (["play-random", "sorthing"], (*TASKS, "all")),
        (["solve", "sorting", "--predictor", "foo"], ("reward", "value")),
    ],
)
def test_choices_are_listed_in_their_order(arguments, choices, capsys):
    """The same in each process; tyro's own are in the order of a set, and offer None."""
    with pytest.raises(SystemExit):
        cli.main(arguments)
    said = re.sub(r"[│\s]+", " ", capsys.readouterr().err)
    assert f"Expected one of {tuple(choices)}." in said


def test_without_its_extra_the_page_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cobra_rl.play.server", None)  # as if what it imports were missing
    with pytest.raises(SystemExit):
        cli.main(["play", "--no-browser"])
    assert "`cobra play` needs its extra: in a clone, pip install -e '.[play]' (" in capsys.readouterr().err


def test_films_of_two_worlds_do_not_collide(debug_world, tmp_path, monkeypatch):
    from cobra_rl.runs.agent import Agent

    shipped = cli.parse(["watch", "sorting"])
    assert shipped._film_of(shipped._agent()) == Path("runs", "watch", "sorting-train.gif")
    folder = Path(shutil.copytree(AGENTS["sorting"], tmp_path / "run"))
    same = cli.parse(["watch", "--run", str(folder), "--mode", "test"])
    assert same._film_of(same._agent()) == Path("runs", "watch", "sorting-test.gif")
    shipped_agent = shipped._agent()
    monkeypatch.setattr("cobra_rl.cli.watch.name_of_world", {"a" * 64: None, "b" * 64: "mine"}.get)
    for sha256, name in (("a" * 64, "sorting-aaaaaaaa-train.gif"), ("b" * 64, "sorting-mine-train.gif")):
        monkeypatch.setattr("cobra_rl.cli.watch.world_sha256", lambda place, sha256=sha256: sha256)
        other = cli.parse(["watch", "sorting", "--world", str(debug_world)])
        assert other._film_of(shipped_agent).name == name
    assert isinstance(shipped_agent, Agent)


def test_with_debug_an_error_says_where_it_arose(capsys):
    with pytest.raises(SystemExit):
        cli.main(["watch", "sorting", "--run", "nowhere", "--debug"])
    assert "Traceback" in capsys.readouterr().err


def test_a_run_of_another_task_is_not_watched_as_this_one(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["watch", "sorting", "--run", str(AGENTS["clustering"]), "--out", str(tmp_path / "x.gif")])
    assert stop.value.code == 2
    assert "learnt clustering and not sorting" in capsys.readouterr().err


def test_a_released_run_is_watched_by_the_released_rules(tmp_path):
    from cobra_rl.runs.agent import Agent

    folder = tmp_path / "run"
    (folder / "seed0").mkdir(parents=True)
    shutil.copytree(AGENTS["sorting"] / "seed0" / "reward", folder / "seed0" / "reward")
    record = json.loads((AGENTS["sorting"] / "run.json").read_text())
    record["settings"]["problem"]["variant"] = "released"
    (folder / "run.json").write_text(json.dumps(record))
    watch = cli.parse(["watch", "--run", str(folder)])
    problem = watch._agent().problem
    assert problem.environments()["test"] is spriteworld.make("sorting", "test", "released")
    assert Agent.load(folder).problem == problem


def test_every_leaf_of_a_configuration_is_an_option():
    command = cli.parse(["train", "vision", "--config.model.latents", "16", "--config.beta", "0", "0.1", "1", "0.5"])
    assert command.config.model.latents == 16
    assert command.config.model.decoder_patch == VISION["laptop"].model.decoder_patch
    assert command.config.beta == ((0.0, 0.1), (1.0, 0.5))
    command = cli.parse(["solve", "sorting", "--preset", "debug", "--config.reward.pair-layers", "32", "32"])
    assert command.config.reward.pair_layers == (32, 32)
    assert command.config.planner == COBRA["debug"].planner


def test_options_explain_themselves(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["solve", "--help"])
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--config.reward.pair-layers" in text
    assert "share of random choices among the proposals" in text
    assert "goal_finding_more_targets" in text


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_gives_each_default_once(command, capsys):
    with pytest.raises(SystemExit):
        cli.main([*command.split(), "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "None" not in shown.partition("config options")[0]  # a field of a configuration may be None
    assert not re.search(r"Default: ((?! --)[^(])*\. \(default", shown)


def test_help_reads_like_a_short_manual(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    assert "COBRA learns to see objects" in text


@pytest.mark.parametrize("words", [[PROGRAM, "--version"], [sys.executable, "-m", "cobra_rl", "--version"]])
def test_the_command_is_installed_and_says_its_version(words):
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"cobra-rl {__version__}"


def test_an_interrupt_while_the_command_is_imported_is_one_line(tmp_path):
    """Gymnasium is the first thing that takes long; an interrupt comes just then."""
    module, _, name = tomllib.loads(PROJECT.read_text())["project"]["scripts"]["cobra"].partition(":")
    (tmp_path / "gymnasium.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    heard = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # a job in the background ignores it
    )
    path = os.pathsep.join([str(tmp_path), str(PROJECT.with_name("src"))])
    run = subprocess.run(
        [sys.executable, "-c", f"{heard}\nfrom {module} import {name}\n{name}()", "--version"],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.stderr == "cobra: stopped at once; what was saved before is intact.\n"
    assert run.returncode == 130


def test_an_interrupt_while_options_are_parsed_ends_the_process_and_later_ones_do_not(monkeypatch, interrupt_is_heard):
    """Compiled code is imported meanwhile, which a KeyboardInterrupt would abort."""
    ended = []
    monkeypatch.setattr(process, "end_at_once", lambda: ended.append(True))

    class Command:
        def run(self):
            signal.raise_signal(signal.SIGINT)

    def parse(words):
        signal.raise_signal(signal.SIGINT)
        return Command()

    monkeypatch.setattr(cli, "parse", parse)
    with pytest.raises(SystemExit) as stop:
        cli.main(["runs"])
    assert ended == [True]
    assert stop.value.code == 130


def test_help_imports_no_jax_and_the_package_is_quick_to_import():
    """`cobra --help` is to take under a second: it must not import JAX at all. No clock is needed for that."""
    code = "import sys, cobra_rl.cli; cobra_rl.cli._print_help(); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("command", ["solve", "baseline"])
def test_options_of_a_task_need_nothing_that_learns_or_draws(command):
    """`cobra solve --help` is to take under two seconds. No clock is needed for that."""
    code = f"""
import contextlib, os, sys
os.environ.pop("GLIBC_TUNABLES", None)
os.execv = None  # help needs no huge pages
from cobra_rl import cli
with contextlib.suppress(SystemExit):
    cli.main(["{command}", "--help"])
assert not {{"matplotlib", "optax", "cobra_rl.runs.task"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "--config.learning-rate" in done.stdout


USES = [
    "spriteworld import make",
    "phases import vision",
    "phases.task import POINTS",
    "runs.worlds import load_world",
]


@pytest.mark.parametrize("use", [*USES, "runs.agent import Agent"])
def test_whoever_uses_the_library_finds_compiled_code_again(use, tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_COMPIL", "JAX_PERSIST"))}
    code = f"import cobra_rl, sys; assert 'jax' not in sys.modules; from cobra_rl.{use}; import jax; "
    code += "print(jax.config.jax_compilation_cache_dir)"
    for told, expected in ({}, tmp_path / "cobra-rl" / "jax"), ({"JAX_COMPILATION_CACHE_DIR": "mine"}, "mine"):
        run = [sys.executable, "-c", code]
        found = subprocess.run(run, env=env | {"XDG_CACHE_HOME": str(tmp_path)} | told, check=True, capture_output=True)
        assert found.stdout.decode().strip() == str(expected)
