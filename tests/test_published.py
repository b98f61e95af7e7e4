"""The pages say what `results/` holds: they are generated anew and compared. The tables are right by other means."""

import dataclasses
import json
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from benchmarks.tools.markdown import reached, reached_briefly, spread, task_row
from benchmarks.tools.results import BLOCK, PAGES, pages
from cobra_rl.evaluation.statistics import exact, interquartile_mean
from cobra_rl.reporting.results import BASELINES, read_suite, read_task, results_of
from cobra_rl.spriteworld.names import REWARDED

ROOT = Path(__file__).parents[1]
RESULTS = results_of("structured")
GENERATED = dict(pages())


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: page.name)
def test_a_page_is_what_would_be_generated(page):
    assert page.read_text() == GENERATED[page], "run python -m benchmarks.tools.results"


def test_every_block_of_results_has_a_page_and_every_table_of_the_tasks_stands_once():
    blocks = {path.name.partition(".")[0] for path in (PAGES / "blocks").iterdir()}
    used = [block for page in GENERATED for _, block, _ in BLOCK.findall(page.read_text())]
    assert sorted(used) == sorted(blocks)
    rows = [row for text in GENERATED.values() for row in re.findall(r"^\|.*\|$", text, re.MULTILINE)]
    numbers = [row for row in rows if re.search(r"\d \d|\d\.\d %", row) and not row.startswith("| task")]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("task", REWARDED)
def test_a_row_of_the_table_says_what_the_seeds_came_to(task):
    """From the raw file, by other means than those of the table."""
    seeds = json.loads((RESULTS / "solve" / f"{task}.json").read_text())["seeds"]
    row = task_row(read_task(RESULTS, f"solve/{task}"))
    assert row in (ROOT / "docs" / "results.md").read_text().splitlines()
    for mode, cell in zip(("train", "test"), row.split(" | ")[1:3], strict=True):
        mean = interquartile_mean([exact(seed[f"success_{mode}"]) for seed in seeds])
        tenths = math.floor(1000 * mean + Fraction(1, 2))
        assert cell.startswith(f"{tenths // 10}.{tenths % 10} % (")
    missed = [seed for seed in seeds if seed["steps_to_90"] is None]
    assert (f"{len(seeds) - len(missed)} of {len(seeds)} seeds" in row) == bool(missed)


def test_all_baselines_are_shown_and_have_the_ratio_that_the_page_names():
    text = (ROOT / "docs" / "results.md").read_text()
    suite = read_suite(RESULTS)
    results = [result for kind in BASELINES.values() for result in suite.get(kind, {}).values()]
    assert {result.replay_ratio for result in results} == {8.0}
    assert "8 transitions are drawn for learning per environment step" in text
    section = text.partition("## Beside MPO")[2].partition("### ")[0]
    assert len(re.findall(r"^\| .* \| MPO", section, re.MULTILINE)) == len(results)


def test_samples_are_of_the_seeds_of_the_run():
    names = sorted(path.stem for path in (RESULTS / "sampled").glob("*.json"))
    assert names
    for name in names:
        figures = json.loads((RESULTS / "sampled" / f"{name}.json").read_text())["figures"]
        assert figures["sampled"]
        published = read_task(RESULTS, f"baseline/{name}")
        assert [seed["seed"] for seed in figures["seeds"]] == [seed.seed for seed in published.seeds]


def with_steps(*steps):
    """The published result of a baseline, with other steps to 90 % of its seeds."""
    result = read_task(RESULTS, "baseline/sorting-mpo_raw")
    seed = dataclasses.replace(result.seeds[0], success={"train": 0.28, "test": 0.2})
    seeds = tuple(dataclasses.replace(seed, steps_to_90=number) for number in steps)
    return dataclasses.replace(result, steps=200_000, seeds=seeds)


def test_a_cell_says_what_a_baseline_reached():
    assert reached(with_steps(7040, 9000)) == reached_briefly(with_steps(7040, 9000)) == "8,020"
    assert reached(with_steps(None, None)) == "0 of 2 seeds (28.0 % after 200,000)"
    assert reached_briefly(with_steps(None, None)) == "none of 2 seeds"
    found = reached(with_steps(9000, 8000, None))
    assert found == "2 of 3 seeds (9,000 and 8,000; the rest: 28.0 % after 200,000)"
    assert reached_briefly(with_steps(9000, 8000, None)) == "2 of 3 seeds"
    assert reached_briefly(None) == "not run"


def test_the_spread_of_equal_groups_is_that_of_the_textbook():
    """Mean squares by SciPy's F: F = between / within."""
    groups = np.random.default_rng(0).normal(size=(4, 6)) + np.array([[0.0], [2.0], [-1.0], [0.5]])
    found = spread(list(groups))
    within = groups.var(axis=1, ddof=1).mean()
    assert found.within**2 == pytest.approx(within)
    statistic = scipy.stats.f_oneway(*groups).statistic
    assert found.between**2 == pytest.approx((statistic - 1.0) * within / 6)


def test_the_spread_is_found_again_in_unequal_groups():
    generator = np.random.default_rng(1)
    draws = []
    for _ in range(2000):
        centres = generator.normal(0.0, 3.0, size=3)
        sizes = (10, 3, 3)
        draws.append(
            spread([generator.normal(centre, 2.0, size=size) for centre, size in zip(centres, sizes, strict=True)])
        )
    within, between = np.sqrt(np.mean(np.square(draws), axis=0))
    assert within == pytest.approx(2.0, rel=0.05)
    assert between == pytest.approx(3.0, rel=0.1)


def test_groups_that_do_not_differ_have_no_spread_between_them():
    assert spread([[1.0, 3.0], [1.0, 3.0, 2.0]]).between == 0.0
    with pytest.raises(ValueError, match="two groups"):
        spread([[1.0, 2.0]])
    with pytest.raises(ValueError, match="two values"):
        spread([[1.0], [2.0]])
