"""Statistics over seeds, in exact arithmetic: the same digits on every machine.

The values are shares of episodes or counts of steps; a seed that never got there counts as `math.inf` steps. Floats
cannot represent 0.995, and the order in which they are added depends on the processor, so that a mean which lies on a
half of its last printed digit (99.65 %) would be rounded differently on different machines. Here each float stands for
the decimal that it prints as, means are fractions, and halves are rounded up.
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
    return total if total == math.inf else Fraction(total) / (2 * len(ordered))


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
    seeds, weights = len(ordered), _weights(len(ordered))
    denominator = math.lcm(*(value.denominator for value in ordered if isinstance(value, Fraction)))
    numerators = [int(value * denominator) if isinstance(value, Fraction) else value for value in ordered]
    rank_of = np.array([ordered.index(exact(value)) for value in values])
    drawn = np.sort(rank_of[np.random.default_rng(0).integers(seeds, size=(draws, seeds))], axis=1)
    table = np.array(numerators, object)  # exact: neither 64 bits nor floats hold the sums of all numerators
    sums = np.sort(sum(weight * table[drawn[:, place]] for place, weight in weights.items()))
    rank = math.floor((1 - Fraction(str(level))) / 2 * (draws - 1) + Fraction(1, 2))
    low, high = (
        end if end == math.inf else Fraction(end, 2 * seeds * denominator) for end in (sums[rank], sums[-1 - rank])
    )
    return low, high


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


class Spread(NamedTuple):
    """Standard deviations of a measure: of seeds within a group, and of the groups beyond what the seeds explain."""

    within: float
    between: float


def spread(groups: Sequence[Values]) -> Spread:
    """Split the variance of values in groups, such as seeds in worlds, in two: within groups and between them.

    This is the one-way random-effects model, value = mean + group + seed. The mean squares give the variances, and a
    variance between groups that comes out negative is 0.

    Args:
        groups: The values of each group; groups may have different sizes.

    Returns:
        The standard deviations within groups and between them.

    Raises:
        ValueError: If there are fewer than two groups, or no group has two values.
    """
    values = [np.asarray(group, float) for group in groups]
    sizes, means = np.array([len(group) for group in values]), np.array([group.mean() for group in values])
    total, degrees = sizes.sum(), len(values) - 1
    if degrees < 1 or total == len(values):
        raise ValueError("The spread needs two groups, and two values in one of them.")
    within = sum(((group - mean) ** 2).sum() for group, mean in zip(values, means, strict=True)) / (total - len(values))
    between = (sizes * (means - np.concatenate(values).mean()) ** 2).sum() / degrees
    per_group = (total - (sizes**2).sum() / total) / degrees  # the size of a group, if all had the same
    return Spread(math.sqrt(within), math.sqrt(max(0.0, (between - within) / per_group)))


def or_never(counts: Sequence[int | None]) -> list[float | int]:
    """Replace None, a seed that never got there, by math.inf."""
    return [math.inf if count is None else count for count in counts]


def count_summary(counts: Sequence[int | None]) -> str:
    """Write steps or episodes that seeds needed (None: never): "1,854", "1,854; 4 of 5 seeds" or "2 of 5 seeds"."""
    mean, never = interquartile_mean(or_never(counts)), counts.count(None)
    parts = [] if mean == math.inf else [count(mean)]
    parts += [f"{len(counts) - never} of {len(counts)} seeds"] if never else []
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
