"""A spec as Python: what is read back is what was written, and what cannot be written is known."""

import dataclasses
from dataclasses import dataclass

import jax.numpy as jnp
import pytest

from cobra_rl.environments import load_environment
from cobra_rl.spriteworld import REWARDED, Spriteworld, Sum, env_spec
from cobra_rl.spriteworld.source import is_writable, python_source


@dataclass(frozen=True)
class Tidy:
    goals = ()

    def __call__(self, sprites):
        return -jnp.sum(sprites.position[:, 0]), jnp.bool_(False)


@pytest.mark.parametrize("task", REWARDED)
def test_specs_of_both_modes_are_read_back(task, tmp_path):
    specs = {mode: env_spec(task, mode) for mode in ("train", "test")}
    path = tmp_path / "task.py"
    path.write_text(python_source(*specs.values()))
    for mode, spec in specs.items():
        assert is_writable(spec)
        assert load_environment(f"{path}:task", mode) == Spriteworld(spec)


def test_a_name_that_looks_like_python_is_only_a_name(tmp_path):
    spec = dataclasses.replace(env_spec("sorting"), name='To("the left"), Left(1)')
    path = tmp_path / "task.py"
    path.write_text(python_source(spec, spec))
    assert "SPECS" not in path.read_text()  # one for both modes
    assert load_environment(f"{path}:task", "test") == Spriteworld(spec)


def test_a_task_of_ones_own_cannot_be_written():
    assert not is_writable(dataclasses.replace(env_spec("sorting"), task=Tidy()))
    assert not is_writable(dataclasses.replace(env_spec("sorting"), task=Sum((Tidy(),))))
