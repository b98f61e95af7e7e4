"""What the README and the docs say of the tasks is what results/ holds; and what a damaged file is told."""

import json
import math
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from cobra_rl.agent import Agent
from cobra_rl.evaluation.statistics import exact, interquartile_mean
from cobra_rl.show.results import (
    EXPLORE,
    RESULTS,
    VISION,
    read_explore,
    read_log,
    read_measured,
    read_suite,
    read_task,
    read_vision,
    write_evaluation,
)
from cobra_rl.show.tables import (
    bound,
    markdown_baseline,
    markdown_beside,
    markdown_kept,
    markdown_metrics,
    markdown_reference,
    markdown_row,
    markdown_sampled,
    markdown_worlds,
)
from cobra_rl.show.task_results import BASELINES
from cobra_rl.spriteworld.names import MODES, REWARDED
from cobra_rl.worlds import WEIGHTS

ROOT = Path(__file__).parents[2]
FILES = sorted(path for folder in ("solve", "baseline") for path in (ROOT / "results" / folder).glob("*.json"))


def beside(task) -> str:
    """The last cell of the published table: MPO handheld / raw; nothing as long as no baseline is published."""
    found = [read_task(RESULTS, f"baseline/{task}-{name}") for name in ("mpo_handheld", "mpo_raw")]
    return f" {markdown_beside(*found)} |" if (RESULTS / "baseline").exists() else ""


@pytest.mark.parametrize("task", REWARDED)
@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_the_published_table_is_that_of_the_results(task, page):
    row = markdown_row(read_task(RESULTS, f"solve/{task}"))
    assert row + (beside(task) if page == "README.md" else "") in (ROOT / page).read_text().splitlines()


def test_the_published_table_of_references_is_that_of_the_results():
    page, suite = (ROOT / "docs" / "results.md").read_text().splitlines(), read_suite(RESULTS)
    for task in REWARDED:
        assert markdown_reference(suite["solve"][task], suite["solve-uniform"][task]) in page


@pytest.mark.parametrize("kind", ["solve-uniform", "solve-released"])
def test_the_published_tables_of_other_runs_are_those_of_the_results(kind):
    page = (ROOT / "docs" / "results.md").read_text().splitlines()
    for result in read_suite(RESULTS)[kind].values():
        assert markdown_row(result) in page


def test_the_published_tables_of_three_worlds_are_those_of_the_results():
    page, suite = (ROOT / "docs" / "results.md").read_text().splitlines(), read_suite(RESULTS)
    for task in REWARDED:
        assert markdown_worlds([suite[f"solve{world}"][task] for world in ("", "-world1", "-world2")]) in page
    names = ("", "_world1", "_world2")
    rows = markdown_metrics(VISION, [read_vision(RESULTS, f"vision{name}").main for name in names])
    rows += markdown_metrics(EXPLORE, [read_explore(RESULTS, f"explore{name}").metrics for name in names])
    assert set(rows) <= set(page)


def test_the_published_table_of_checks_is_that_of_the_results():
    page = (ROOT / "docs" / "results.md").read_text().splitlines()
    for result in read_suite(RESULTS)["solve-checks"].values():
        assert markdown_kept(result) in page


def test_the_published_table_of_the_vision_ablation_is_that_of_the_results():
    variants = json.loads((RESULTS / "vision_ablation.json").read_text())["figures"].values()
    page = (ROOT / "docs" / "results.md").read_text().splitlines()
    assert set(markdown_metrics(VISION, list(variants))) <= set(page)


def test_the_published_table_of_baselines_is_that_of_the_results():
    page, suite = (ROOT / "docs" / "results.md").read_text().splitlines(), read_suite(RESULTS)
    results = [result for kind in BASELINES.values() for result in suite.get(kind, {}).values()]
    assert set(map(markdown_baseline, results)) <= set(page)
    assert {result.replay_ratio for result in results} == {8.0}  # one for all, as the page says
    assert len(results) == 24 - sum(line.endswith("| | | | not run |") for line in page)


def test_the_published_table_of_samples_is_that_of_the_results():
    page = (ROOT / "docs" / "results.md").read_text().splitlines()
    names = sorted(path.stem for path in (ROOT / "results" / "sampled").glob("*.json"))
    assert names
    for name in names:
        measured, result = read_measured(RESULTS, f"sampled/{name}"), read_task(RESULTS, f"baseline/{name}")
        assert markdown_sampled(result, measured) in page
        assert [seed.seed for seed in measured.seeds] == [seed.seed for seed in result.seeds]
        assert json.loads((RESULTS / "sampled" / f"{name}.json").read_text())["figures"]["sampled"]


@pytest.mark.parametrize("task", REWARDED)
def test_a_row_of_the_table_says_what_the_seeds_came_to(task):
    """From the raw file, by other means than those of the table."""
    seeds = json.loads((RESULTS / "solve" / f"{task}.json").read_text())["seeds"]
    row = markdown_row(read_task(RESULTS, f"solve/{task}"))
    for mode, cell in zip(MODES, row.split(" | ")[1:3], strict=True):
        mean = interquartile_mean([exact(seed[f"success_{mode}"]) for seed in seeds])
        tenths = math.floor(1000 * mean + Fraction(1, 2))
        assert cell.startswith(f"{tenths // 10}.{tenths % 10} % (")
    missed = [seed for seed in seeds if seed["steps_to_90"] is None]
    assert (f"{len(seeds) - len(missed)} of {len(seeds)} seeds" in row) == bool(missed)


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
    settings = Agent.settings(WEIGHTS / "tasks" / task)
    assert result["problem"].items() <= vars(settings.problem).items()
    assert settings.steps == result["steps"]
    assert f"| `{task}` | {settings.steps:,} |" in (WEIGHTS / "tasks" / "README.md").read_text().splitlines()


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
