"""The command line as a person meets it."""

import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cobra_rl import cli, commands, spriteworld


def test_the_cli_lists_the_suite():
    assert typing.get_args(commands.Task) == spriteworld.TASKS
    assert typing.get_args(commands.Mode) == spriteworld.MODES
    assert typing.get_args(commands.Variant) == spriteworld.VARIANTS


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
        (["watch", "sorting", "--frames", "0"], "--frames is 0; it must lie between 1 and 10,000"),
        (["watch", "sorting", "--run", "nowhere"], "nowhere is no run of `cobra solve`"),
        (["play-random", "sorting", "--steps", "0"], "--steps is 0; it must lie between 1 and 10000"),
        (["play-random", "sorting", "--size", "9"], "--size is 9; it must lie between 16 and 2048"),
        (["play-random", "sorting", "--steps", "1", "--out", "/dev/null/x.gif"], "/dev/null"),
        (["play-random", "sortin"], "sortin"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    output = capsys.readouterr()
    assert sentence in output.err
    assert "Traceback" not in output.err


def test_help_reads_like_a_short_manual(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "play-random" in text
    assert "COBRA learns to see objects" in text


def test_the_command_is_installed():
    run = subprocess.run([str(Path(sys.executable).with_name("cobra")), "--help"], capture_output=True, check=False)
    assert run.returncode == 0
