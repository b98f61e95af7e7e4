"""Tables for a terminal of 60 columns and of 80."""

import json

import pytest

from benchmarks.tools.markdown import task_row
from cobra_rl.reporting.figures.style import caption
from cobra_rl.reporting.results import read_explore, read_suite, read_task, read_vision, results_of, task_result
from cobra_rl.reporting.tables import print_explore, print_result, print_suite, print_vision

RESULTS = results_of("structured")
RECORD = json.loads((RESULTS / "solve" / "sorting.json").read_text())


@pytest.fixture(params=[60, 80])
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


def published(task: str) -> list[str]:
    """The robustness of a task in the README, its interval, and the steps to 90 %, as a terminal shows them."""
    row = task_row(read_task(RESULTS, f"solve/{task}")).split(" | ")
    mean, _, interval = row[2].replace(" %", "%").partition(" (")
    return [mean, interval.removesuffix(")"), row[3]]


def printed(capsys, width: int) -> str:
    text = capsys.readouterr().out
    assert text.strip()
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text  # nothing is cut off
    return text


def test_a_result_is_printed_seed_by_seed(width, capsys):
    print_result(RECORD)
    text = printed(capsys, width)
    seeds = [f"{seed['steps_to_90']:,}" for seed in RECORD["seeds"]]
    for number in (*seeds, *published("sorting"), "random", "true"):
        assert number in text


@pytest.mark.parametrize(
    "problem",
    [{"task": "to the left", "specs": {}}, {"task": "sorting", "env": "mine.py:sorting"}, {"task": "stars"}],
)
def test_a_task_of_ones_own_has_no_variant(problem, width, capsys):
    print_result(RECORD | {"problem": problem})
    text = printed(capsys, width)
    assert f"{problem['task']}, a task of your own" in " ".join(text.split())
    assert "variant" not in text
    assert "variant" not in caption("learning_curve", result=task_result(RECORD | {"problem": problem}), window=30)


def test_seeds_that_never_got_there_are_counted(width, capsys):
    print_result(read_suite(RESULTS)["solve-uniform"]["clustering"])
    assert "0 of 3" in printed(capsys, width)


def test_an_evaluated_run_has_neither_context_nor_steps(width, capsys):
    scores = [
        {"seed": seed["seed"]} | {name: seed[name] for name in ("success_train", "success_test")}
        for seed in RECORD["seeds"]
    ]
    print_result({name: RECORD[name] for name in ("problem", "steps", "final")} | {"episodes": 16, "seeds": scores})
    text = printed(capsys, width)
    assert published("sorting")[1] in text
    assert "steps" not in text


def test_the_suite_is_one_table(width, capsys):
    print_suite(list(read_suite(RESULTS)["solve"].values()))
    text = printed(capsys, width)
    for number in ("over 10 seeds", *published("goal_finding_more_targets"), "clustering"):
        assert number in text
    assert ("random" in text) == (width >= 80)  # what to compare with has room there


def test_metrics_are_printed_with_their_targets(width, capsys):
    print_vision({"paper/exploration/train": read_vision(RESULTS).main})
    text = printed(capsys, width)
    assert "98.8%     ≥\u00a097%" in text
    print_explore(read_explore(RESULTS).metrics)
    text = printed(capsys, width)
    for number in ("92.4%", "0.00361", "≤\u00a00.333"):
        assert number in text


def test_metrics_that_another_world_lacks_are_left_out(width, capsys):
    print_vision({"stars": {"mse": 0.25}})
    assert "FG-ARI" not in printed(capsys, width)
