"""Statistics over seeds, in exact arithmetic: the same digits on every machine.

The values are shares of episodes (0.995 is 199 of 200) or counts of steps. Floating point cannot
represent 0.995, and a dot product adds in an order that depends on the processor, so that a mean which
lies on a half of its last printed digit (99.65 %) would be rounded differently on different machines.
Here each float stands for the decimal that it prints as, means are fractions, and halves are rounded up.

A seed that never reached its goal counts as infinitely many steps (`math.inf`).
"""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

Number = int | float | Fraction | np.number
Values = Sequence[Number] | np.ndarray
Exact = Fraction | float  # the float is math.inf

DRAWS = 10_000  # resamples of the bootstrap
LEVEL = 0.95  # of its interval


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

    def __str__(self) -> str:
        """As published, in percent: "99.7 % (98.9 %-100.0 %)"."""
        if self.seeds == 1:
            return percent(self.mean)
        return f"{percent(self.mean)} ({percent(self.low)}-{percent(self.high)})"


def exact(value: Number) -> Exact:
    """Convert a number to the fraction that its shortest decimal states: 0.995 to 199/200; infinity stays."""
    if isinstance(value, Fraction) or value == math.inf:
        return value if isinstance(value, Fraction) else math.inf
    return Fraction(str(value))


def interquartile_mean(values: Values) -> Exact:
    """Compute the exact mean of the middle half of the values, one per seed; at its edges, values count in part.

    It is math.inf if an infinite value lies within the middle half.
    """
    ordered = sorted(exact(value) for value in values)
    weights = _weights(len(ordered))
    inside = [(weight, value) for weight, value in zip(weights.tolist(), ordered, strict=True) if weight]
    if inside[-1][1] == math.inf:
        return math.inf
    return sum((weight * Fraction(value) for weight, value in inside), Fraction(0)) / (2 * len(ordered))


def bootstrap_interval(values: Values, level: float = LEVEL, draws: int = DRAWS) -> tuple[Exact, Exact]:
    """Compute the percentile bootstrap interval of the interquartile mean: two of the resampled means, chosen by rank.

    Seeds are resampled with NumPy's generator 0, whose integers do not depend on the processor; all sums
    are sums of integers. The share `level` of the resampled means lies within the interval.
    """
    exacts = [exact(value) for value in values]
    seeds = len(exacts)
    weights = _weights(seeds)
    levels = sorted(set(exacts))
    finite = [Fraction(value) for value in levels if value != math.inf]
    denominator = math.lcm(*(value.denominator for value in finite))
    numerators = [int(value * denominator) for value in finite]
    # A weighted sum of finite numerators is at most `largest`; one with any infinite value is above it.
    largest = 2 * seeds * max((abs(numerator) for numerator in numerators), default=0)
    infinite = 2 * largest + 1
    numerators += [infinite] * (len(levels) - len(finite))
    fits = 2 * seeds * infinite < 2**63
    table = np.array(numerators, np.int64 if fits else object)
    index = np.array([levels.index(value) for value in exacts], np.int16)
    drawn = np.random.default_rng(0).integers(seeds, size=(draws, seeds))
    sorted_rows = np.sort(index[drawn], axis=1)
    parts = ((int(weights[place]) * table)[sorted_rows[:, place]] for place in np.nonzero(weights)[0])
    sums = np.sort(functools.reduce(np.add, parts))
    rank = math.floor((1 - Fraction(str(level))) / 2 * (draws - 1) + Fraction(1, 2))
    ends = (int(sums[rank]), int(sums[draws - 1 - rank]))
    low, high = (math.inf if end > largest else Fraction(end, 2 * seeds * denominator) for end in ends)
    return low, high


def _weights(seeds: int) -> Int[np.ndarray, " S"]:
    """Weights of sorted values in their interquartile mean, in units of 1 / (2 seeds)."""
    if seeds < 1:
        raise ValueError("There is no mean over no seeds.")
    edges = 4 * np.arange(seeds + 1)
    return np.maximum(np.minimum(edges[1:], 3 * seeds) - np.maximum(edges[:-1], seeds), 0)


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
    """Write steps or episodes that seeds needed: "1,854", "1,854; 4 of 5 seeds" or "2 of 5 seeds".

    None is a seed that never got there. An infinite mean is left out, and so is how many got there if all did.
    """
    mean = interquartile_mean(or_never(counts))
    reached = sum(value is not None for value in counts)
    parts = [] if mean == math.inf else [count(mean)]
    parts += [] if reached == len(counts) else [f"{reached} of {len(counts)} seeds"]
    return "; ".join(parts)


def percent(value: Number, digits: int = 1) -> str:
    """Write a share in percent, halves rounded up: "99.7 %" for 0.9965."""
    return _decimal(100 * Fraction(exact(value)), digits) + " %"


def count(value: Number | None) -> str:
    """Write a count, halves rounded up: "1,854"; "-" for None and for infinity."""
    return "-" if value is None or value == math.inf else _decimal(Fraction(exact(value)), 0)


def _decimal(value: Fraction, digits: int) -> str:
    units = math.floor(value * 10**digits + Fraction(1, 2))
    whole, rest = divmod(abs(units), 10**digits)
    return "-" * (units < 0) + f"{whole:,}" + (f".{rest:0{digits}d}" if digits else "")
