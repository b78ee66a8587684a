"""What a handful of seeds can tell: means, Student's t interval, paired differences.

    interval     mean ± t(n - 1) s / sqrt(n),   s² = sum (x - mean)² / (n - 1)
    paired       the same of the differences d_k = a_k - b_k, seed by seed

With one seed there is no interval, and none is made up.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    count: int
    """Seeds behind it."""
    half_width: float | None
    """Of the 95 % t interval; None with a single seed."""

    @property
    def ends(self) -> tuple[float, float] | None:
        """Of the interval; None if there is none."""
        half = self.half_width
        return None if half is None else (self.mean - half, self.mean + half)

    @property
    def excludes_zero(self) -> bool:
        """The interval lies wholly on one side of 0: not explained by chance alone."""
        return self.half_width is not None and abs(self.mean) > self.half_width


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of `values` with its 95 % t interval; None without any value.

    >>> estimate([0.25])
    Estimate(mean=0.25, count=1, half_width=None)
    """
    count = len(values)
    if count == 0:
        return None
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, 1, None)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Estimate(mean, count, t_quantile(count - 1) * math.sqrt(variance / count))


def paired_difference(ours: Mapping[int, float], reference: Mapping[int, float]) -> Estimate | None:
    """Mean of `ours - reference` over the seeds that both have (keys), with its t interval.

    The same seed gives both the same tasks, so most of what varies from seed to seed cancels.
    None if no seed is in both.
    """
    return estimate([ours[seed] - reference[seed] for seed in sorted(ours.keys() & reference)])


LEVEL = 0.001
"""With one seed, what lies closer than this (a tenth of a percentage point) is level."""


def is_level(best: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Whether the lower of two, by seed, cannot be called worse: they differ by less than `LEVEL`,
    or the 95 % interval of their paired difference holds 0.

    >>> is_level({0: 0.97}, {0: 0.9695}), is_level({0: 0.97}, {0: 0.96})
    (True, False)
    >>> is_level({0: 0.97, 1: 0.98}, {0: 0.98, 1: 0.95})
    True
    """
    found = paired_difference(best, other)
    if found is None:
        return False
    return abs(found.mean) < LEVEL or (found.count > 1 and not found.excludes_zero)


def share_explained(levels: Sequence[object], values: Sequence[float]) -> float:
    """Which share of the differences between `values` goes with the level that each has, beyond
    what would by chance: epsilon squared of an analysis of variance, at least 0.

    >>> share_explained(["a", "a", "b", "b"], [1.0, 1.0, 2.0, 2.0])
    1.0
    >>> share_explained(["a", "b", "a", "b"], [1.0, 1.0, 2.0, 2.0])
    0.0
    """
    kinds, count = set(levels), len(values)
    mean = math.fsum(values) / max(count, 1)
    total = math.fsum((value - mean) ** 2 for value in values)
    if total == 0 or not 1 < len(kinds) < count:
        return 0.0
    within = 0.0
    for kind in kinds:
        own = [value for level, value in zip(levels, values, strict=True) if level == kind]
        centre = math.fsum(own) / len(own)
        within += math.fsum((value - centre) ** 2 for value in own)
    chance = (len(kinds) - 1) * within / (count - len(kinds))
    return max(0.0, (total - within - chance) / total)


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| <= t) = `confidence` for Student's T with `freedom` degrees of freedom.

    >>> round(t_quantile(4), 4)
    2.7764
    """
    # P grows with the angle atan(t / sqrt(freedom)): halve its range until nothing is left of it.
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _central_probability(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(high)


def probability_above_zero(mean: float, error: float, freedom: int) -> float:
    """P(T < mean / error) for Student's T with `freedom` degrees of freedom: how probable it is
    that what was estimated as `mean`, with the standard error `error`, is truly above 0.

    >>> round(probability_above_zero(2.7764, 1.0, 4), 4)
    0.975
    """
    if freedom < 1 or not math.isfinite(error):
        return 0.5
    if error == 0:
        return 0.5 if mean == 0 else float(mean > 0)
    angle = math.atan(mean / error / math.sqrt(freedom))
    return 0.5 + _central_probability(angle, freedom) / 2


def _central_probability(angle: float, freedom: int) -> float:
    """P(|T| <= t) where tan(angle) = t / sqrt(freedom): a finite sum, exact for whole `freedom`
    (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(odd, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (k + 1) / (k + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
