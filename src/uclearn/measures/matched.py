"""The same examples answered twice: how far a share of right answers fell, and how sure that is.

Of n answers b were right and are wrong now, c the other way round; the drop is (b - c) / n.

Its interval is Agresti and Min's for matched proportions (Statistics in Medicine 24, 2005): add 1/2
to each of the four counts, then

    drop* ± z sqrt((b* + c*) - (b* - c*)^2 / n*) / n*,      b* = b + 1/2,  c* = c + 1/2,  n* = n + 2

Worked out exactly for 50 to 200 examples, an interval of 95 % holds the true drop in 91 % (when
next to nothing changes) to 100 % of all cases. An accuracy by itself has Wilson's interval.

Whether the true drop exceeds a limit m is tested by Tango's score (Statistics in Medicine 17,
1998), made for matched proportions and a margin: with q the most likely share of gained examples if
the drop were m, and one example given to chance, without which the test of few examples would be
wrong up to twice as often as it promises,

    z = (b - c - 1 - n m) / sqrt(n (2 q + m (1 - m)))

Answers that belong together, such as the words of one text, are right or wrong together: they tell
less than as many of different examples. With r_i how much more text i lost than its share, the sum
of answers lost varies

    K / (K - 1) sum_i r_i^2      instead of      (b + c) - (b - c)^2 / n

and all counts are divided by the ratio of the two, at least 1 (the design effect; Rao and Scott,
Biometrics 48, 1992).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Counts = NDArray[np.int64]
"""(examples,)"""


@dataclass(frozen=True)
class Changes:
    """What became of answers; `weight` is how much each tells, 1 if all are independent."""

    lost: int
    """Answers that were right and are wrong now."""
    gained: int
    """Answers that were wrong and are right now."""
    answers: int
    weight: float = 1.0

    @property
    def drop(self) -> float:
        """In the share of right answers."""
        return (self.lost - self.gained) / self.answers

    @property
    def count(self) -> float:
        """As many independent answers tell as much."""
        return self.weight * self.answers

    @property
    def churn(self) -> float:
        """Share of answers that became right, which hides losses."""
        return self.gained / self.answers

    def interval(self, sure: float = 0.95) -> tuple[float, float]:
        """Of the drop."""
        return drop_interval(self.weight * self.lost, self.weight * self.gained, self.count, sure)

    def above(self, limit: float) -> float:
        """How surely the drop exceeds the limit, as a score."""
        return tango(self.weight * self.lost, self.weight * self.gained, self.count, limit)

    def below(self, limit: float) -> float:
        """How surely the drop stays below the limit, as a score."""
        return -tango(self.weight * self.lost, self.weight * self.gained, self.count, limit, -1.0)


def changes(lost: ArrayLike, gained: ArrayLike, answers: ArrayLike) -> Changes:
    """From how many answers of each example, (examples,), were lost and gained, out of how many.

    >>> changes([1, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1])
    Changes(lost=1, gained=1, answers=4, weight=1.0)
    >>> changes([8, 0, 0, 0], [0, 0, 0, 0], [10, 10, 10, 10]).count  # all in one text of four
    4.0
    """
    b, c, places = (np.asarray(each, dtype=np.int64) for each in (lost, gained, answers))
    total = int(places.sum())
    weight = 1.0 if int(places.max(initial=1)) == 1 else 1 / _design_effect(b - c, b + c, places)
    return Changes(int(b.sum()), int(c.sum()), total, weight)


def _design_effect(net: Counts, changed: Counts, places: Counts) -> float:
    examples, total = len(places), int(places.sum())
    together = total / examples  # as if each example were one answer
    independent = float(changed.sum()) - float(net.sum()) ** 2 / total
    if independent <= 0 or examples < 2:
        return together
    apart = net - net.sum() / total * places
    found = examples / (examples - 1) * float(np.square(apart).sum()) / independent
    return max(found, 1.0)


def drop_interval(
    lost: float, gained: float, count: float, sure: float = 0.95
) -> tuple[float, float]:
    """Where the drop in accuracy lies (see above).

    >>> [round(end, 3) for end in drop_interval(lost=10, gained=2, count=100)]
    [0.011, 0.146]
    """
    b, c, n = lost + 0.5, gained + 0.5, count + 2
    centre = (b - c) / n
    half = _z(sure) * math.sqrt(b + c - (b - c) ** 2 / n) / n
    return max(-1.0, centre - half), min(1.0, centre + half)


def tango(lost: float, gained: float, count: float, limit: float, chance: float = 1.0) -> float:
    """The score of a drop against a limit, standard normal at most if the true drop is the limit;
    `chance` is how many examples are given to chance (-1: on the other side).

    >>> round(tango(lost=4, gained=0, count=120, limit=0.01), 3)
    1.07
    """
    slope = (2 * count - lost + gained) * limit - lost - gained
    root = math.sqrt(slope**2 + 8 * count * gained * limit * (1 - limit))
    share = (root - slope) / (4 * count)
    variance = count * (2 * share + limit * (1 - limit))
    excess = lost - gained - chance - count * limit
    return excess / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, excess - 1e-9)


def wilson(right: float, count: float, sure: float = 0.95) -> tuple[float, float]:
    """Where an accuracy lies, by Wilson's score interval.

    >>> [round(end, 3) for end in wilson(right=95, count=100)]
    [0.888, 0.978]
    """
    z, share = _z(sure), right / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + (z / count / 2) ** 2)
    return max(0.0, centre - half), min(1.0, centre + half)


def _z(sure: float) -> float:
    return NormalDist().inv_cdf((1 + sure) / 2)
