"""A spec as Python: what is read back is what was written, and what cannot be written is known."""

import dataclasses
import json
import re
from dataclasses import dataclass

import jax.numpy as jnp
import pytest

from cobra_rl.environments import load_environment
from cobra_rl.spriteworld import REWARDED, Spriteworld, Sum, env_spec
from cobra_rl.spriteworld.data import is_data, spec_from_json, spec_to_json
from cobra_rl.spriteworld.source import python_source


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
        assert is_data(spec)
        assert spec_from_json(json.loads(json.dumps(spec_to_json(spec))), "it") == spec
        assert load_environment(f"{path}:task", mode) == Spriteworld(spec)


def test_a_name_that_looks_like_python_is_only_a_name(tmp_path):
    spec = dataclasses.replace(env_spec("sorting"), name='To("the left"), Left(1)')
    path = tmp_path / "task.py"
    path.write_text(python_source(spec, spec))
    assert "SPECS" not in path.read_text()  # one for both modes
    assert load_environment(f"{path}:task", "test") == Spriteworld(spec)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": {"kind": "os:system"}}, "it must have a kind, one of NoReward, FindGoal"),
        ({"task": None}, "it must have a kind"),
        ({"task": {"kind": "Sum", "tasks": [{"kind": "FindGoal", "radius": -1.0}]}}, "part 0, radius, is -1.0"),
        ({"task": {"kind": "FindGoal", "goals": []}}, "it has goals"),
        ({"max_steps": "many"}, "max_steps, is 'many'"),
        ({"scenes": []}, "scenes, is"),
        ({"code": "x"}, "it has code"),
    ],
)
def test_data_that_does_not_fit_is_refused(change, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        spec_from_json(spec_to_json(env_spec("goal_finding_new_shape")) | change, "it")


def test_a_sum_without_an_end_is_refused():
    data = {"kind": "NoReward"}
    for _ in range(5000):
        data = {"kind": "Sum", "tasks": [data]}
    with pytest.raises(ValueError, match="without an end"):
        spec_from_json(spec_to_json(env_spec("sorting")) | {"task": data}, "it")


def test_a_task_of_ones_own_cannot_be_written():
    assert not is_data(dataclasses.replace(env_spec("sorting"), task=Tidy()))
    assert not is_data(dataclasses.replace(env_spec("sorting"), task=Sum((Tidy(),))))
