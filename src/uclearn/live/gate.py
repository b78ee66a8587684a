"""The gate: may an update pass, by what it does to old tasks?

Every old task has a canary: examples that were never trained on, answered before and after each
update and compared as `uclearn.measures.matched` has it. Two limits hold:

- **No update may cost much.** With K old tasks each is tested at 1/K of the error that is allowed
  (four fifths of it), so an update that costs no old task more than `max_drop` is rejected in at
  most 1 - `sure` of all cases, however many tasks there are, and update for update.
- **Many updates may not cost much either.** Each canary is also compared with how it was answered
  when its task was learned; that drop must not exceed `max_total`. Here the same examples are
  looked at again and again, so the error (one fifth of what is allowed, for the whole stream) is
  spent over tasks and looks: task j in its look k is tested at

      1 / (j (j + 1)) * 1 / (k (k + 1))

  of it, which adds up to 1 however long the stream is. And who tries long enough is lucky once: of
  updates that each cost a little, those pass that happen to miss the canary, and what it measures
  stands still while the task is lost. So once a task was found to have lost more than `max_total`,
  the burden of proof turns round: nothing passes until the same test, at the same error, shows that
  it lost less.

How much must be lost before it is noticed as surely hangs on the number of examples:
`noticeable_drop`, `noticeable_total` and `examples_needed` say it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, get_args

from uclearn.errors import SettingError
from uclearn.live.compared import Comparison, points
from uclearn.measures.matched import Changes, tango

Mode = Literal["reject", "warn"]
Rule = Literal["measured", "certain", "possible"]
_FOR_TOTALS = 0.2
"""Of the error that is allowed, the share that is spent on what adds up over a stream."""
_TOTAL = 3.0
"""By default the loss of so many updates of the largest drop may add up."""


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
        max_total: the largest drop since a task was learned, which many small ones add up to; None:
            three times `max_drop`. 1 is no limit.

    >>> Gate(max_drop=0.01, canary=200).total
    0.03
    """

    max_drop: float = 0.01
    canary: Any = 0.1
    rule: Rule = "certain"
    sure: float = 0.95
    mode: Mode = "reject"
    max_total: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.max_drop < 1:
            raise SettingError(
                f"`max_drop` must lie between 0 and 1, got {self.max_drop}. It is the drop in "
                "accuracy that is tolerated, as a fraction: 0.01 is one example in a hundred."
            )
        if self.max_total is not None and not self.max_drop <= self.max_total <= 1:
            raise SettingError(
                f"`max_total` must lie between `max_drop` ({self.max_drop}) and 1, got "
                f"{self.max_total}. It is the drop since a task was learned, over all updates."
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

    @property
    def total(self) -> float:
        """The drop that is tolerated over all updates."""
        return min(_TOTAL * self.max_drop, 1.0) if self.max_total is None else self.max_total

    def given(self, task: str) -> Any:
        """The canary that was given for a task, or None."""
        return self.canary.get(task) if isinstance(self.canary, Mapping) else None

    # -- judging ---------------------------------------------------------------------------

    def exceeds(self, one: Comparison, tasks: int = 1) -> bool:
        """Whether a task, one of so many, lost more than is tolerated, as `rule` has it."""
        if self.rule == "certain":
            return one.changes.above(self.max_drop) > self._bound(tasks)
        return self._seen(one.changes) > self.max_drop + _ROUNDING

    def exceeds_total(self, one: Comparison, place: int = 1) -> bool:
        """Whether a task, counted from 1 as they were learned, has lost more than is tolerated
        since then; of one that is doubted, whether it is not shown to have lost less."""
        since, limit = one.since, self.total
        if since is None or limit >= 1:
            return False
        if self.rule != "certain":
            return self._seen(since) > limit + _ROUNDING
        bound = self._bound_of_total(since.look, place)
        return since.below(limit) <= bound if since.doubted else since.above(limit) > bound

    def judge(self, compared: Sequence[Comparison]) -> tuple[bool, str]:
        """Whether the update may pass, and why or why not, in words."""
        if not compared:
            return True, "There is no old task yet that could have lost anything."
        failed, worn = self.stopped_by(compared)
        if failed or worn:
            told = [one.words() for one in failed]
            if failed:
                told.append(f"Tolerated: {self.max_drop:.1%} ({self._rule_words()}).")
            told += [self._worn_words(one) for one in worn if one not in failed]
            return False, f"{' '.join(told)} {REMEDY if failed else REMEDY_OF_TOTAL}"
        worst = max(compared, key=lambda one: one.drop)
        if self.rule != "certain":
            return True, f"No old task lost more than {self.max_drop:.1%}. {worst.words()}"
        told = [f"No old task is certain to have lost more than {self.max_drop:.1%}."]
        told += [worst.words(), self.sharpness(compared), self._total_words(compared)]
        return True, " ".join(filter(None, told))

    def stopped_by(
        self, compared: Sequence[Comparison]
    ) -> tuple[list[Comparison], list[Comparison]]:
        """The tasks that lose too much by this update, and those that have lost too much in all."""
        places = enumerate(compared, start=1)
        worn = [one for place, one in places if self.exceeds_total(one, place)]
        return [one for one in compared if self.exceeds(one, len(compared))], worn

    def with_doubts(self, compared: Sequence[Comparison], passed: bool) -> list[Comparison]:
        """The same, each saying whether its task is doubted from now on: it was found to have lost
        too much, and not by this update alone."""
        if passed:
            return [_doubted(one, False) for one in compared]
        _, worn = self.stopped_by(compared)
        return [
            _doubted(one, one.since is not None and (one.since.doubted or self._by_many(one)))
            if one in worn
            else one
            for one in compared
        ]

    def _by_many(self, one: Comparison) -> bool:
        return one.since is not None and one.since.so_far > self.total

    def _seen(self, found: Changes) -> float:
        return found.drop if self.rule == "measured" else found.interval(self.sure)[1]

    # -- what can be told ------------------------------------------------------------------

    def sharpness(self, compared: Sequence[Comparison]) -> str:
        """What these canaries can tell, in a sentence."""
        dullest = min((one.changes for one in compared), key=lambda one: one.count)
        noticed = self.noticeable_drop(dullest.count, len(compared), dullest.churn)
        wanted = 2 * max(self.max_drop, 0.01)
        told = f"A loss of {noticed:.1%} would have been noticed with {self.sure:.0%} certainty"
        if noticed <= wanted:
            return told + "."
        needed = self.examples_needed(wanted, len(compared), dullest.churn)
        return f"{told}; to notice {wanted:.1%}, a canary needs {needed} examples."

    def noticeable_drop(self, examples: float, tasks: int = 1, churn: float = 0.0) -> float:
        """The smallest true drop of one of so many old tasks that is noticed in `sure` of all cases
        with a canary of so many examples.

        Args:
            examples: in that task's canary.
            tasks: how many old tasks there are.
            churn: share of examples that become right at the same time, which hides losses.

        >>> gate = Gate(max_drop=0.01)
        >>> [round(gate.noticeable_drop(n), 3) for n in (120, 1000, 10_000)]
        [0.105, 0.026, 0.014]
        """
        bound = self._bound(tasks)
        return _smallest(
            lambda drop: self._noticed(drop, self.max_drop, examples, churn, bound),
            self.max_drop,
            1 - churn,
        )

    def noticeable_total(
        self, examples: float, look: int = 1, place: int = 1, churn: float = 0.0
    ) -> float:
        """The smallest true drop since a task was learned that is noticed as surely.

        Args:
            examples: in that task's canary.
            look: at how many updates it was looked at.
            place: of the task, counted from 1 as they were learned.
            churn: share of examples that have become right since.

        >>> gate = Gate(max_drop=0.01)
        >>> [round(gate.noticeable_total(1000, look), 3) for look in (1, 10, 100)]
        [0.059, 0.066, 0.072]
        """
        bound = self._bound_of_total(look, place)
        return _smallest(
            lambda drop: self._noticed(drop, self.total, examples, churn, bound),
            self.total,
            1 - churn,
        )

    def examples_needed(self, drop: float, tasks: int = 1, churn: float = 0.0) -> int:
        """How many examples a canary needs to notice `drop` as surely; arguments as there.

        >>> Gate(max_drop=0.01).examples_needed(0.02)
        2017
        """
        if drop <= self.max_drop:
            raise SettingError(
                f"`drop` must exceed the tolerated {self.max_drop}, got {drop}: no number of "
                "examples tells a tolerated loss from one that is not."
            )
        bound = self._bound(tasks)
        low, high = 1, 2
        while not self._noticed(drop, self.max_drop, high, churn, bound):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            noticed = self._noticed(drop, self.max_drop, middle, churn, bound)
            low, high = (low, middle) if noticed else (middle, high)
        return high

    def _noticed(
        self, drop: float, limit: float, examples: float, churn: float, bound: float
    ) -> bool:
        """Whether such a drop is noticed even when chance is so unkind as it is in 1 - `sure`."""
        gained = examples * churn
        spread = math.sqrt(examples * (drop + 2 * churn - drop**2))
        lost = gained + examples * drop - NormalDist().inv_cdf(self.sure) * spread - 1
        return tango(lost, gained, examples, limit) > bound

    def _bound(self, tasks: int) -> float:
        return NormalDist().inv_cdf(1 - (1 - _FOR_TOTALS) * (1 - self.sure) / tasks)

    def _bound_of_total(self, look: int, place: int) -> float:
        spent = place * (place + 1) * look * (look + 1)
        return -NormalDist().inv_cdf(_FOR_TOTALS * (1 - self.sure) / spent)

    # -- words -----------------------------------------------------------------------------

    def _rule_words(self) -> str:
        return {
            "measured": "of the measured drop",
            "certain": f"exceeded with {self.sure:.0%} certainty",
            "possible": f"at the upper end of the {self.sure:.0%} interval",
        }[self.rule]

    def _worn_words(self, one: Comparison) -> str:
        assert one.since is not None
        drop = f"{points(one.since.drop)} points since it was learned"
        if one.since.doubted:
            return (
                f"Task {one.task!r} was found to have lost too much by many updates, and is not "
                f"shown to have it back: {drop}. Tolerated: {self.total:.1%} in all."
            )
        before = points(one.since.so_far)
        return (
            f"Task {one.task!r} lost {drop}, {before} of them in earlier updates. Tolerated: "
            f"{self.total:.1%} in all ({self._rule_words()})."
        )

    def _total_words(self, compared: Sequence[Comparison]) -> str:
        """What has added up, in a sentence."""
        places = enumerate(compared, start=1)
        known = [(place, one, one.since) for place, one in places if one.since is not None]
        several = [each for each in known if each[2].look > 1]
        if not several or self.total >= 1:
            return ""
        place, one, since = max(several, key=lambda each: each[2].drop)
        noticed = self.noticeable_total(since.count, since.look, place, since.churn)
        return (
            f"Since they were learned {one.task!r} lost most, {points(since.drop)} points of "
            f"{points(self.total)} tolerated; {points(noticed)} would have been noticed."
        )


_ROUNDING = 1e-12
"""1 % of 300 is 3 examples, not 2.9999."""
REMEDY = (
    "To go on: train with a lower learning rate or fewer epochs, hold harder (`suggest` finds by "
    "how much), replay old examples (`method='ucl+replay'`), or give the model room (`widen`)."
)
"""For a rejected update."""
REMEDY_OF_TOTAL = (
    "Each update cost little, together they cost too much. To go on: teach that task again with "
    "examples of its own (`task=...`), replay old examples (`method='ucl+replay'`), give the model "
    "room (`widen`), train with a lower learning rate, or tolerate more (`max_total`)."
)
"""For one that is rejected because of those before it."""


def _doubted(one: Comparison, doubted: bool) -> Comparison:
    since = one.since
    return one if since is None else replace(one, since=replace(since, doubted=doubted))


def _smallest(noticed: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest drop between the two that is noticed."""
    while high - low > 1e-5:
        drop = (low + high) / 2
        low, high = (low, drop) if noticed(drop) else (drop, high)
    return high
