"""Statistics over seeds: exact, the same in any order of summation, halves rounded up."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy

from cobra_rl.evaluation.statistics import (
    bootstrap_interval,
    count,
    count_summary,
    exact,
    interquartile_mean,
    or_never,
    percent,
    summary,
)


@pytest.mark.parametrize("seeds", [1, 2, 3, 4, 5, 8, 11, 20])
def test_the_interquartile_mean_is_scipys(seeds):
    values = np.random.default_rng(seeds).normal(size=seeds)
    fine = np.repeat(np.sort(values), 4)  # in quarters: then trimming a quarter cuts between values
    assert float(interquartile_mean(values)) == pytest.approx(scipy.stats.trim_mean(fine, 0.25))


def test_a_float_stands_for_the_decimal_that_it_prints_as():
    shares = [0.995, np.float64(0.995), np.float32(0.995), Fraction(199, 200)]
    assert {exact(share) for share in shares} == {Fraction(199, 200)}
    assert [exact(number) for number in (7, np.int64(7), 1e-7)] == [7, 7, Fraction(1, 10**7)]
    assert exact(np.inf) == math.inf
    for nonsense in (math.nan, -math.inf):
        with pytest.raises(ValueError):
            exact(nonsense)


def test_the_mean_is_the_same_in_any_order():
    values = [0.995, 0.99, 1.0, 0.985, 0.3]
    means = {interquartile_mean(order) for order in itertools.permutations(values)}
    assert means == {(Fraction(3, 4) * (exact(0.985) + exact(0.995)) + exact(0.99)) / Fraction(5, 2)}


def by_hand(values, level, draws):
    """The interval by definition: each resample cut into 4 n equal parts, of which the middle 2 n are averaged."""
    seeds = len(values)
    means = []
    for row in np.random.default_rng(0).integers(seeds, size=(draws, seeds)):
        parts = sorted(exact(values[i]) for i in row for _ in range(4))[seeds : 3 * seeds]
        means.append(math.inf if parts[-1] == math.inf else sum(parts, Fraction(0)) / (2 * seeds))
    means.sort()
    tail = (1 - Fraction(str(level))) / 2
    rank = math.floor(tail * (draws - 1) + Fraction(1, 2))
    return means[rank], means[draws - 1 - rank]


@pytest.mark.parametrize(
    "values",
    [
        [0.995, 0.99, 1.0, 0.995, 0.99],
        [0.92, 0.985, 0.995],
        [1423, 1943, math.inf, 2071, 1993, 588, 736],
        [math.inf, math.inf, math.inf, 5],
        [math.inf, math.inf],
        [-0.25, 0.0, 3.5, -1e-9],
        [0],
        np.random.default_rng(1).normal(size=20),  # numerators of 17 digits: more than 64 bits hold in the sums
        [1e15, 1.5, math.inf, 1e-15],
    ],
    ids=str,
)
@pytest.mark.parametrize("level", [0.95, 0.5])
def test_the_interval_is_that_of_brute_force_in_fractions(values, level):
    assert bootstrap_interval(values, level, draws=101) == by_hand(values, level, draws=101)


def test_the_interval_is_numpys_percentile_interval():
    values = [0.31, 0.86, 0.6, 0.985, 0.9, 0.72, 0.11]
    drawn = np.asarray(values)[np.random.default_rng(0).integers(7, size=(10_000, 7))]
    means = scipy.stats.trim_mean(np.repeat(np.sort(drawn, axis=1), 4, axis=1), 0.25, axis=1)
    expected = np.quantile(means, [0.025, 0.975], method="nearest")
    np.testing.assert_allclose([float(end) for end in bootstrap_interval(values)], expected, rtol=1e-12)


def test_the_interval_holds_the_mean():
    # Over ten generators the interval is 1.17 +- 0.33 wide: the bar is four spreads away.
    values = np.random.default_rng(0).normal(10.0, 1.0, size=12)
    low, high = bootstrap_interval(values, draws=1000)
    assert low < interquartile_mean(values) < high
    assert high - low < 2.5


def test_a_seed_that_never_got_there_counts_as_infinite():
    counts = or_never([400, None, 700, 800, 900])
    assert interquartile_mean(counts) == Fraction(15 * 700 + 20 * 800 + 15 * 900, 50)
    assert bootstrap_interval(counts, draws=200)[1] == math.inf
    assert interquartile_mean(or_never([400, None, 700, None, 900])) == math.inf
    assert count_summary([400, None, 700, 800, 900]) == "800; 4 of 5 seeds"
    assert count_summary([400, None, 700, None, 900]) == "3 of 5 seeds"
    assert count_summary([1853, 1854]) == "1,854"


def test_no_seeds_have_no_mean():
    for function in (interquartile_mean, bootstrap_interval, summary):
        with pytest.raises(ValueError, match="no seeds"):
            function([])


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.9965, 1, "99.7 %"),  # 0.9965 is below that as a float, and f"{0.9965:.1%}" is 99.7 % or 99.6 %
        (Fraction(1993, 2000), 1, "99.7 %"),
        (0.98749, 1, "98.7 %"),
        (0.9025, 1, "90.3 %"),
        (0.0005, 1, "0.1 %"),
        (0.5, 0, "50 %"),
        (0.005, 0, "1 %"),
        (0.99996, 1, "100.0 %"),
        (1, 1, "100.0 %"),
        (12.5, 2, "1,250.00 %"),
        (-0.0016, 1, "-0.2 %"),
        (-0.0004, 1, "0.0 %"),
    ],
)
def test_percentages_round_halves_up(value, digits, text):
    assert percent(value, digits) == text


def test_counts_round_halves_up():
    values = (0.5, 1.5, 2.5, Fraction(3707, 2), 1853.4999, 12_345_678, None, math.inf)
    assert [count(value) for value in values] == ["1", "2", "3", "1,854", "1,853", "12,345,678", "-", "-"]


def test_a_summary_reads_as_it_is_published():
    found = summary([0.995, 0.995, 1.0, 1.0, 0.995])
    assert found.mean == Fraction(1993, 2000)
    assert found.interval == (found.low, found.high)
    assert [percent(value) for value in found[:3]] == ["99.7 %", "99.5 %", "100.0 %"]
    assert summary([0.9965]).interval is None
    assert percent(summary([0.9965]).mean) == "99.7 %"
