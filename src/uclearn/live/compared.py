"""An old task on its canary, before and after an update."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from uclearn.measures.matched import Changes, changes, wilson


@dataclass(frozen=True)
class Since(Changes):
    """What became of a canary since it was set apart, over all updates."""

    so_far: float = 0.0
    """The drop until this update."""
    look: int = 1
    """How often it was looked at, this time included."""
    doubted: bool = False
    """Whether it lost too much already, so that the contrary must be shown."""


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
    """Answers that were right and are wrong now."""
    gained: int
    """Answers that were wrong and are right now."""
    drop: float
    drop_low: float
    drop_high: float
    answers: int
    """One for each example, or one for each of its places."""
    weight: float = 1.0
    """How much an answer tells; less than 1 where those of one example go together."""
    since: Since | None = None
    """What became of it since it was learned; None: nobody asked."""

    @property
    def changes(self) -> Changes:
        """In this update."""
        return Changes(self.lost, self.gained, self.answers, self.weight)

    def words(self) -> str:
        """In a sentence."""
        return (
            f"Task {self.task!r} went from {self.before:.1%} to {self.after:.1%} on "
            f"{self._counted()}, a drop of {points(self.drop)} points "
            f"(between {points(self.drop_low)} and {points(self.drop_high)})."
        )

    def _counted(self) -> str:
        told = f"{self.examples} canary examples"
        if self.answers == self.examples:
            return told
        worth = max(round(self.changes.count), 1)
        return f"{told} ({self.answers} answers, which tell as much as {worth} by themselves)"


def compare(
    task: str, before: Tensor, after: Tensor, sure: float = 0.95, since: Since | None = None
) -> Comparison:
    """Compare answers to the same examples, (examples, ...) each, 1 for right, 0 for wrong and less
    than 0 where nothing was asked."""
    found = changes_between(before, after)
    asked = before >= 0
    was, now = (float((each[asked] > 0).double().mean()) for each in (before, after))
    low, high = wilson(now * found.count, found.count, sure)
    drop_low, drop_high = found.interval(sure)
    return Comparison(
        task=task,
        examples=len(before),
        before=was,
        after=now,
        low=low,
        high=high,
        lost=found.lost,
        gained=found.gained,
        drop=found.drop,
        drop_low=drop_low,
        drop_high=drop_high,
        answers=found.answers,
        weight=found.weight,
        since=since,
    )


def changes_between(before: Tensor, after: Tensor) -> Changes:
    """Answers as `compare` takes them, counted example by example."""
    was, now, asked = (
        (each.flatten(1) if each.dim() > 1 else each[:, None])
        for each in (before > 0, after > 0, before >= 0)
    )
    lost, gained = (was & ~now & asked).sum(1), (~was & now & asked).sum(1)
    return changes(lost.numpy(), gained.numpy(), asked.sum(1).numpy())


def points(share: float) -> str:
    """A share in points.

    >>> points(0.0123)
    '1.2'
    """
    return f"{100 * share:.1f}".replace("-0.0", "0.0")
