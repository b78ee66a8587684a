"""The gate: may an update pass, by what it does to old tasks?

Every old task has a canary: examples that were never trained on. The same n examples are answered
before and after an update; b of them were right and are wrong now, c the other way round. The drop
in accuracy is (b - c) / n. Its interval is Agresti and Min's for matched proportions (Statistics in
Medicine 24, 2005): add 1/2 to each of the four counts, then

    drop* ± z sqrt((b* + c*) - (b* - c*)^2 / n*) / n*,      b* = b + 1/2,  c* = c + 1/2,  n* = n + 2

Worked out exactly for 50 to 200 examples, an interval of 95 % holds the true drop in 91 % (when
next to nothing changes) to 100 % of all cases. An accuracy by itself has Wilson's interval.

Whether the true drop exceeds a limit m is tested by Tango's score (Statistics in Medicine 17,
1998), made for matched proportions and a margin: with q the most likely share of gained examples if
the drop were m, and one example given to chance, without which the test of few examples would be
wrong up to twice as often as it promises,

    z = (b - c - 1 - n m) / sqrt(n (2 q + m (1 - m)))

With K old tasks each is tested at 1/K of the error that is allowed, so an update that costs no old
task more than m is rejected in at most 1 - `sure` of all cases, however many tasks there are, and
update for update, however long the stream. How much must be lost before it is noticed as surely
hangs on the number of examples: `noticeable_drop` and `examples_needed` say it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, get_args

from torch import Tensor

from uclearn.errors import SettingError

Mode = Literal["reject", "warn"]
Rule = Literal["measured", "certain", "possible"]


@dataclass(frozen=True)
class Gate:
    """Lets an update pass unless an old task loses more than `max_drop` of its accuracy.

    Args:
        max_drop: the largest drop in accuracy that is tolerated, for each old task by itself.
        canary: what is kept of the *new* data to guard them from now on: a share (below 1) or a
            number of examples, split off before training; or `(inputs, targets)` of your own. Old
            tasks that were learned without a canary need one now: `{"january": (inputs, targets)}`.
        rule: an update is stopped only when it is `"certain"` that the drop exceeds `max_drop` (a
            test over all old tasks, wrong in at most 1 - `sure` of all harmless updates); when the
            `"measured"` drop does, which with few examples is mostly chance; or as soon as it is
            `"possible"` (the upper end of its interval), which needs a large canary to let
            anything pass.
        sure: the confidence of the test and of the intervals.
        mode: `"reject"` rolls back to the bit, `"warn"` keeps the update and says so.

    >>> Gate(max_drop=0.01, canary=200).mode
    'reject'
    """

    max_drop: float = 0.01
    canary: Any = 0.1
    rule: Rule = "certain"
    sure: float = 0.95
    mode: Mode = "reject"

    def __post_init__(self) -> None:
        if not 0 <= self.max_drop < 1:
            raise SettingError(
                f"`max_drop` must lie between 0 and 1, got {self.max_drop}. It is the drop in "
                "accuracy that is tolerated, as a fraction: 0.01 is one example in a hundred."
            )
        if not 0 < self.sure < 1:
            raise SettingError(
                f"`sure` must lie strictly between 0 and 1, got {self.sure}. It is the confidence "
                "of the intervals."
            )
        for name, choices in (("rule", get_args(Rule)), ("mode", get_args(Mode))):
            if getattr(self, name) not in choices:
                raise SettingError(
                    f"`{name}` must be one of {', '.join(choices)}, got {getattr(self, name)!r}."
                )
        given = self.canary.values() if isinstance(self.canary, Mapping) else [self.canary]
        for number in given:
            if isinstance(number, int | float) and not number > 0:
                raise SettingError(
                    f"`canary` must be positive, got {number}. It is the share or the number of "
                    "new examples that are set apart."
                )

    def given(self, task: str) -> Any:
        """The canary that was given for a task, or None."""
        return self.canary.get(task) if isinstance(self.canary, Mapping) else None

    def exceeds(self, one: Comparison, tasks: int = 1) -> bool:
        """Whether a task, one of so many, lost more than is tolerated, as `rule` has it."""
        if self.rule == "certain":
            return tango(one.lost, one.gained, one.examples, self.max_drop) > self._bound(tasks)
        drop = {"measured": one.drop, "possible": one.drop_high}
        return drop[self.rule] > self.max_drop + 1e-12  # 1 % of 300 is 3 examples, not 2.9999

    def judge(self, compared: Sequence[Comparison]) -> tuple[bool, str]:
        """Whether the update may pass, and why or why not, in words."""
        failed = [one for one in compared if self.exceeds(one, len(compared))]
        if not compared:
            return True, "There is no old task yet that could have lost anything."
        if failed:
            told = " ".join(one.words() for one in failed)
            return False, f"{told} Tolerated: {self.max_drop:.1%} ({self._rule_words()}). {REMEDY}"
        worst = max(compared, key=lambda one: one.drop)
        if self.rule != "certain":
            return True, f"No old task lost more than {self.max_drop:.1%}. {worst.words()}"
        told = f"No old task is certain to have lost more than {self.max_drop:.1%}. {worst.words()}"
        return True, f"{told} {self.sharpness(compared)}"

    def sharpness(self, compared: Sequence[Comparison]) -> str:
        """What these canaries can tell, in a sentence."""
        dullest = min(compared, key=lambda one: one.examples)
        churn = dullest.gained / dullest.examples
        noticed = self.noticeable_drop(dullest.examples, len(compared), churn)
        wanted = 2 * max(self.max_drop, 0.01)
        told = f"A loss of {noticed:.1%} would have been noticed with {self.sure:.0%} certainty"
        if noticed <= wanted:
            return told + "."
        needed = self.examples_needed(wanted, len(compared), churn)
        return f"{told}; to notice {wanted:.1%}, a canary needs {needed} examples."

    def noticeable_drop(self, examples: int, tasks: int = 1, churn: float = 0.0) -> float:
        """The smallest true drop of one of so many old tasks that is noticed in `sure` of all cases
        with a canary of so many examples.

        Args:
            examples: in that task's canary.
            tasks: how many old tasks there are.
            churn: share of examples that become right at the same time, which hides losses.

        >>> gate = Gate(max_drop=0.01)
        >>> [round(gate.noticeable_drop(n), 3) for n in (120, 1000, 10_000)]
        [0.101, 0.025, 0.014]
        """
        low, high = self.max_drop, 1 - churn
        while high - low > 1e-5:
            drop = (low + high) / 2
            low, high = (low, drop) if self._noticed(drop, examples, tasks, churn) else (drop, high)
        return high

    def examples_needed(self, drop: float, tasks: int = 1, churn: float = 0.0) -> int:
        """How many examples a canary needs to notice `drop` as surely; arguments as there.

        >>> Gate(max_drop=0.01).examples_needed(0.02)
        1932
        """
        if drop <= self.max_drop:
            raise SettingError(
                f"`drop` must exceed the tolerated {self.max_drop}, got {drop}: no number of "
                "examples tells a tolerated loss from one that is not."
            )
        low, high = 1, 2
        while not self._noticed(drop, high, tasks, churn):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            noticed = self._noticed(drop, middle, tasks, churn)
            low, high = (low, middle) if noticed else (middle, high)
        return high

    def _noticed(self, drop: float, examples: int, tasks: int, churn: float) -> bool:
        """Whether such a drop is noticed even when chance is so unkind as it is in 1 - `sure`."""
        gained = examples * churn
        spread = math.sqrt(examples * (drop + 2 * churn - drop**2))
        lost = gained + examples * drop - NormalDist().inv_cdf(self.sure) * spread - 1
        return tango(lost, gained, examples, self.max_drop) > self._bound(tasks)

    def _bound(self, tasks: int) -> float:
        return NormalDist().inv_cdf(1 - (1 - self.sure) / tasks)

    def _rule_words(self) -> str:
        return {
            "measured": "of the measured drop",
            "certain": f"exceeded with {self.sure:.0%} certainty",
            "possible": f"at the upper end of the {self.sure:.0%} interval",
        }[self.rule]


REMEDY = (
    "To go on: train with a lower learning rate or fewer epochs, hold harder (`suggest` finds by "
    "how much), replay old examples (`method='ucl+replay'`), or give the model room (`widen`)."
)
"""For a rejected update."""


@dataclass(frozen=True)
class Comparison:
    """One old task on its canary, before and after an update."""

    task: str
    examples: int
    before: float
    after: float
    low: float
    """Lower end of Wilson's interval of `after`."""
    high: float
    lost: int
    """Examples that were right and are wrong now."""
    gained: int
    """Examples that were wrong and are right now."""
    drop: float
    drop_low: float
    drop_high: float

    def words(self) -> str:
        """In a sentence."""
        return (
            f"Task {self.task!r} went from {self.before:.1%} to {self.after:.1%} on "
            f"{self.examples} canary examples, a drop of {_points(self.drop)} points "
            f"(between {_points(self.drop_low)} and {_points(self.drop_high)})."
        )


def compare(task: str, before: Tensor, after: Tensor, sure: float = 0.95) -> Comparison:
    """Compare answers to the same examples, (examples,) each, 1 for right and 0 for wrong."""
    count = len(before)
    was, now = before.bool(), after.bool()
    lost, gained = int((was & ~now).sum()), int((~was & now).sum())
    low, high = wilson(int(now.sum()), count, sure)
    drop_low, drop_high = drop_interval(lost, gained, count, sure)
    return Comparison(
        task=task,
        examples=count,
        before=int(was.sum()) / count,
        after=int(now.sum()) / count,
        low=low,
        high=high,
        lost=lost,
        gained=gained,
        drop=(lost - gained) / count,
        drop_low=drop_low,
        drop_high=drop_high,
    )


def drop_interval(lost: int, gained: int, count: int, sure: float = 0.95) -> tuple[float, float]:
    """Where the drop in accuracy lies (see above).

    >>> [round(end, 3) for end in drop_interval(lost=10, gained=2, count=100)]
    [0.011, 0.146]
    """
    b, c, n = lost + 0.5, gained + 0.5, count + 2
    centre = (b - c) / n
    half = _z(sure) * math.sqrt(b + c - (b - c) ** 2 / n) / n
    return max(-1.0, centre - half), min(1.0, centre + half)


def tango(lost: float, gained: float, count: int, limit: float) -> float:
    """The score of a drop against a limit, standard normal at most if the true drop is the limit.

    >>> round(tango(lost=4, gained=0, count=120, limit=0.01), 3)
    1.07
    """
    slope = (2 * count - lost + gained) * limit - lost - gained
    root = math.sqrt(slope**2 + 8 * count * gained * limit * (1 - limit))
    share = (root - slope) / (4 * count)
    variance = count * (2 * share + limit * (1 - limit))
    excess = lost - gained - 1 - count * limit
    return excess / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, excess - 1e-9)


def wilson(right: int, count: int, sure: float = 0.95) -> tuple[float, float]:
    """Where an accuracy lies, by Wilson's score interval.

    >>> [round(end, 3) for end in wilson(right=95, count=100)]
    [0.888, 0.978]
    """
    z, share = _z(sure), right / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + (z / count / 2) ** 2)
    return max(0.0, centre - half), min(1.0, centre + half)


def _points(share: float) -> str:
    return f"{100 * share:.1f}".replace("-0.0", "0.0")


def _z(sure: float) -> float:
    return NormalDist().inv_cdf((1 + sure) / 2)
