"""What the README and the docs say of the tasks is what results/ holds."""

import json
import math
from pathlib import Path

import pytest

from cobra_rl.agents.agent import Agent
from cobra_rl.evaluation.task import bootstrap_interval, interquartile_mean, or_never
from cobra_rl.figures.performance import TASKS
from cobra_rl.spriteworld import MODES

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "results" / "solve").glob("*.json"))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("page", ["README.md", "docs/reproduction.md"])
def test_the_published_table_is_that_of_the_results(task, page):
    seeds = json.loads((ROOT / "results" / "solve" / f"{task}.json").read_text())["seeds"]
    cells = []
    for mode in MODES:
        values = [seed[f"success_{mode}"] for seed in seeds]
        low, high = bootstrap_interval(values)
        cells.append(f"{interquartile_mean(values):.1%} ({low:.1%}-{high:.1%})".replace("%", " %"))
    for name in ("steps_to_90", "episodes_to_90"):
        counts = [seed[name] for seed in seeds]
        mean, reached = interquartile_mean(or_never(counts)), sum(count is not None for count in counts)
        parts = [] if math.isinf(mean) else [f"{mean:,.0f}"]
        parts += [] if reached == len(counts) else [f"{reached} of {len(counts)} seeds"]
        cells.append("; ".join(parts))
    assert f"| {' | '.join(cells)} |" in (ROOT / page).read_text()


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_says_how_it_was_made(path):
    result = json.loads(path.read_text())
    assert result["command"].startswith("cobra solve ")
    assert f"--seeds {result['seed_count']}" in result["command"]
    assert [seed["seed"] for seed in result["seeds"]] == list(range(result["seed_count"]))
    assert all(len(seed["ends"]) == len(seed["success"]) == seed["episodes"] for seed in result["seeds"])


@pytest.mark.parametrize("task", TASKS)
def test_the_shipped_agent_is_of_the_published_run(task):
    result = json.loads((ROOT / "results" / "solve" / f"{task}.json").read_text())
    settings = Agent.settings(ROOT / "src" / "cobra_rl" / "weights" / "tasks" / task)
    assert settings["problem"] == result["problem"]
    assert settings["steps"] == result["steps"]


def test_there_is_no_agent_for_a_task_that_nobody_learnt():
    with pytest.raises(ValueError, match=r"No agent is shipped for 'chess'; there is one for each of clustering, "):
        Agent.pretrained("chess")
