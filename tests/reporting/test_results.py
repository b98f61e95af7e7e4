"""How results/ is read: what it holds, and what a damaged file is told."""

import json
import math
import shutil
from pathlib import Path

import pytest

from cobra_rl.reporting.results import (
    EXPLORE,
    VISION,
    read_explore,
    read_log,
    read_suite,
    read_task,
    read_vision,
    results_of,
    write_evaluation,
)
from cobra_rl.reporting.tables import bound
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.settings import task_settings
from cobra_rl.runs.worlds import agents_in, home_of
from cobra_rl.spriteworld.names import REWARDED

ROOT = Path(__file__).parents[2]
RESULTS = results_of("structured")
FILES = sorted(path for folder in ("solve", "baseline") for path in (RESULTS / folder).glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_result_says_how_it_was_made(path):
    result = json.loads(path.read_text())
    assert result["command"].startswith(f"cobra {path.parent.name} ")
    assert f"--seeds {result['seed_count']}" in result["command"]
    assert [seed["seed"] for seed in result["seeds"]] == list(range(result["seed_count"]))
    assert not Path((result["world"] or {"path": ""})["path"]).is_absolute()  # no machine's folders
    if path.parent.name == "solve":
        assert all(len(seed["ends"]) == len(seed["success"]) == seed["episodes"] for seed in result["seeds"])
    else:
        assert path.stem.startswith(f"{result['problem']['task']}-{result['agent']}")


@pytest.mark.parametrize("task", REWARDED)
def test_the_shipped_agent_is_of_the_published_run(task):
    result = json.loads((RESULTS / "solve" / f"{task}.json").read_text())
    settings = task_settings(agents_in("structured")[task])
    assert result["problem"].items() <= vars(settings.problem).items()
    assert settings.steps == result["steps"]
    assert f"| `{task}` | {settings.steps:,} |" in (home_of("structured") / "README.md").read_text().splitlines()


def test_there_is_no_agent_for_a_task_that_nobody_learnt():
    with pytest.raises(ValueError, match=r"No agent is shipped for 'chess', 'paper'; there is one for each of "):
        Agent.pretrained("chess")


def test_a_folder_of_runs_is_read_like_one_of_files(tmp_path):
    """`cobra solve all --out mine/solve` leaves folders; a task of one's own stands after those of the suite."""
    record = json.loads((RESULTS / "solve" / "sorting.json").read_text())
    for name in ("stars", "sorting", "sorting-uniform"):
        (tmp_path / "solve" / name).mkdir(parents=True)
        problem = record["problem"] | {"task": name.partition("-")[0]}
        (tmp_path / "solve" / name / "result.json").write_text(json.dumps(record | {"problem": problem}))
    (tmp_path / "solve" / "clustering").mkdir()  # a run that has not ended
    shutil.copy(RESULTS / "solve" / "goal_finding_new_shape.json", tmp_path / "solve")
    suite = read_suite(tmp_path)
    assert {kind: list(tasks) for kind, tasks in suite.items()} == {
        "solve": ["goal_finding_new_shape", "sorting", "stars"],
        "solve-uniform": ["sorting"],
    }
    assert suite["solve"]["sorting"].seeds == read_task(RESULTS, "solve/sorting").seeds
    assert suite["solve"]["stars"].title == "stars"
    assert suite["solve-uniform"]["sorting"].source == f"{tmp_path.name}/solve/sorting-uniform/result.json"


def test_a_log_is_that_of_the_results_or_else_of_the_run(tmp_path):
    (tmp_path / "explore").mkdir()
    (tmp_path / "explore" / "log.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    assert read_log(tmp_path, "explore_log.jsonl") == [{"step": 1}, {"step": 2}]
    assert read_log(tmp_path, "explore_random_log.jsonl") is None
    (tmp_path / "explore_log.jsonl").write_text('{"step": 3}\n')
    assert read_log(tmp_path, "explore_log.jsonl") == [{"step": 3}]


def test_what_is_not_there_is_none(tmp_path):
    assert read_vision(tmp_path) is read_explore(tmp_path) is read_task(tmp_path, "demo") is None
    assert read_log(tmp_path, "explore_log.jsonl") is None
    assert read_suite(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("vision.json", "{", "vision.json is not JSON"),
        ("vision.json", "[]", "vision.json does not say which command made it"),
        ("explore.json", "null", "explore.json does not say which command made it"),  # there, so not None
        ("vision.json", '{"command": "cobra"}', "vision.json is not an evaluation of vision: it lacks 'figures'"),
        ("vision.json", '{"command": "cobra", "figures": {"mse": 0.1}}', "its figures must be metrics by place"),
        ("explore.json", '{"command": "cobra", "figures": 3}', "explore.json is not an evaluation of the exploration"),
        ("solve/sorting.json", '{"command": "cobra"}', "sorting.json is not the result of a task: it holds no seeds"),
        ("solve/sorting.json", '{"command": "c", "seeds": [{}]}', "sorting.json is not the result of a task: it lacks"),
        ("explore_log.jsonl", '{"step": 1}\n{"st', "explore_log.jsonl is not a log of JSON lines"),
    ],
)
def test_a_damaged_file_is_named_in_one_sentence(name, content, sentence, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_vision(tmp_path), read_explore(tmp_path), read_suite(tmp_path), read_log(tmp_path, "explore_log.jsonl")
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_evaluation_is_read_as_it_was_written(tmp_path):
    metrics = {"paper/exploration/train": {"mse": 0.25, "fg_ari_attention": math.nan}}
    write_evaluation(tmp_path / "mine" / "vision.json", "cobra evaluate vision", metrics)
    vision = read_vision(tmp_path / "mine")
    assert vision.main == {"mse": 0.25, "fg_ari_attention": None}
    assert vision.command == "cobra evaluate vision"
    assert vision.source == "mine/vision.json"


def test_every_target_is_about_a_published_metric():
    for metrics, published in ((VISION, read_vision(RESULTS).main), (EXPLORE, read_explore(RESULTS).metrics)):
        assert {name for name, metric in metrics.items() if bound(metric)} <= published.keys()
    assert VISION["position_error"].met_by(0.01)
    assert not EXPLORE["hit_rate"].met_by(0.69)
