"""Statistics over seeds, in exact arithmetic: the same digits on every machine.

The values are shares of episodes or counts of steps; a seed that never got there counts as `math.inf` steps. Floats
cannot represent 0.995, and the order in which they are added depends on the processor, so that a mean which lies on a
half of its last printed digit (99.65 %) would be rounded differently on different machines. Here each float stands for
the decimal that it prints as, means are fractions, and halves are rounded up.

Own code: SciPy adds floats (0.97549999 for 0.9755), trims whole values only, and takes 0.6 s to import. The tests
compare with it.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

Number = int | float | Fraction | np.number
Values = Sequence[Number] | np.ndarray
Exact = Fraction | float  # the float is math.inf


class Summary(NamedTuple):
    """Interquartile mean over seeds with its bootstrap interval."""

    mean: Exact
    low: Exact
    high: Exact
    seeds: int

    @property
    def interval(self) -> tuple[Exact, Exact] | None:
        """The interval (low, high); None for a single seed, which has none."""
        return (self.low, self.high) if self.seeds > 1 else None


def exact(value: Number) -> Exact:
    """Convert a number to the fraction that its shortest decimal states: 0.995 to 199/200; infinity stays."""
    return math.inf if value == math.inf else Fraction(str(value))


def interquartile_mean(values: Values) -> Exact:
    """Compute the exact mean of the middle half of the values, those at its edges in part; infinite if one is."""
    ordered = sorted(exact(value) for value in values)
    total = sum(weight * ordered[place] for place, weight in _weights(len(ordered)).items())
    return _divided(total, 2 * len(ordered))


def bootstrap_interval(values: Values, level: float = 0.95, draws: int = 10_000) -> tuple[Exact, Exact]:
    """Compute the percentile bootstrap interval of the interquartile mean: two of the resampled means, chosen by rank.

    Seeds are resampled with NumPy's generator 0, whose integers do not depend on the processor; all sums are sums of
    Python's integers.

    Args:
        values: One value for each seed.
        level: The share of the resampled means that lies within the interval.
        draws: The number of resampled means.

    Returns:
        The low and the high end.
    """
    ordered = sorted(exact(value) for value in values)
    seeds = len(ordered)
    denominator = math.lcm(*(value.denominator for value in ordered if isinstance(value, Fraction)))
    # Objects, Python's integers: neither 64 bits nor floats hold the sums of all numerators.
    numerators = np.array([value if value == math.inf else int(value * denominator) for value in ordered], object)
    rank_of = np.array([ordered.index(exact(value)) for value in values])
    drawn = np.sort(rank_of[np.random.default_rng(0).integers(seeds, size=(draws, seeds))], axis=1)
    sums = np.sort(sum(weight * numerators[drawn[:, place]] for place, weight in _weights(seeds).items()))
    rank = math.floor((1 - Fraction(str(level))) / 2 * (draws - 1) + Fraction(1, 2))
    count = 2 * seeds * denominator
    return _divided(sums[rank], count), _divided(sums[-1 - rank], count)


def _divided(total: Exact | int, count: int) -> Exact:
    return total if total == math.inf else Fraction(total) / count


def _weights(seeds: int) -> dict[int, int]:
    """Return the weights above 0 of sorted values in their interquartile mean, by place, in units of 1 / (2 seeds)."""
    if seeds < 1:
        raise ValueError("There is no mean over no seeds.")
    weights = {place: min(4 * place + 4, 3 * seeds) - max(4 * place, seeds) for place in range(seeds)}
    return {place: weight for place, weight in weights.items() if weight > 0}


def summary(values: Values) -> Summary:
    """Compute the interquartile mean over seeds and its 95 % bootstrap interval."""
    return _summary(tuple(exact(value) for value in values))


@functools.cache
def _summary(values: tuple[Exact, ...]) -> Summary:
    return Summary(interquartile_mean(values), *bootstrap_interval(values), len(values))


def or_never(counts: Sequence[int | None]) -> list[float | int]:
    """Replace None, a seed that never got there, by math.inf."""
    return [math.inf if count is None else count for count in counts]


def count_summary(counts: Sequence[int | None]) -> str:
    """Write steps or episodes that seeds needed (None: never): "1,854", "1,854; 4 of 5 seeds" or "2 of 5 seeds"."""
    mean = interquartile_mean(or_never(counts))
    parts = [] if mean == math.inf else [count(mean)]
    if never := counts.count(None):
        parts.append(f"{len(counts) - never} of {len(counts)} seeds")
    return "; ".join(parts)


def percent(value: Number, digits: int = 1) -> str:
    """Write a share in percent, halves rounded up: "99.7 %" for 0.9965."""
    return _decimal(100 * Fraction(exact(value)), digits) + " %"


def count(value: Number | None) -> str:
    """Write a count, halves rounded up: "1,854"; "-" for None and for infinity."""
    return "-" if value is None or value == math.inf else _decimal(Fraction(exact(value)), 0)


def span(values: Iterable[int | float], write: Callable[[Any], str] = str) -> str:
    """Write the least and the largest of some numbers: "3-5"; or "5" if they are all the same."""
    found = set(values)
    return "-".join(map(write, sorted({min(found), max(found)})))


def _decimal(value: Fraction, digits: int) -> str:
    units = math.floor(value * 10**digits + Fraction(1, 2))
    whole, rest = divmod(abs(units), 10**digits)
    return "-" * (units < 0) + f"{whole:,}" + (f".{rest:0{digits}d}" if digits else "")
