"""What the rest of the package knows about a method, told by the method itself.

    class MyMethod(Method):
        facts = Facts(works_in_rl=True, search={"strength": Range(0.1, 100.0, log=True)})

Commands, searches and live models ask the registry for these and never for a name, so that adding
a method changes no other file. Everything has a default: a method without facts can be run,
compared, swept and reported all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from optuna import Trial


class Sizes(NamedTuple):
    """How large a network is, as far as methods care."""

    shared: int
    """Parameters that all tasks use; an only output layer is one of them."""
    nodes: int
    """Outputs of those layers: UCL has a sigma for each."""
    hidden: int
    """The same without an only output layer: HAT has a gate for each, in every task."""
    head: int
    """Parameters of the last task's head; 0 without heads."""
    heads: int
    """Parameters of all heads."""
    tasks: int
    layers: tuple[tuple[int, int], ...] = ()
    """Of each layer that all tasks share its inputs and its nodes (channels, of a convolution)."""
    features: int = 0
    """That heads are given; 0 without heads."""

    @property
    def plain(self) -> int:
        """The bare network."""
        return self.shared + self.heads


class Cost(NamedTuple):
    """Numbers that a method holds, with the optimiser of its preset."""

    kept: int
    """After a task, to learn the next one, the network included."""
    trained: int
    """Parameters that have a gradient in a step."""
    working: int = 0
    """Held beside it while learning, such as SI's path integral; negative: what is kept only
    after the task, such as the new head in LwF's teacher."""
    moments: int = 2
    """Of the optimiser, for each trained parameter."""


class Range(NamedTuple):
    """Numbers from `low` to `high`, both included; whole ones if both are."""

    low: float
    high: float
    log: bool = False
    """Each order of magnitude counts alike."""

    def suggest(self, trial: Trial, key: str) -> float:
        """The value that a trial takes."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(key, self.low, self.high, log=self.log)
        return trial.suggest_float(key, self.low, self.high, log=self.log)

    def points(self, count: int) -> list[float]:
        """So many values from end to end.

        >>> Range(0.01, 1.0, log=True).points(3)
        [0.01, 0.1, 1.0]
        >>> Range(1, 4).points(9)
        [1, 2, 3, 4]
        """
        there = math.log if self.log else float
        back = math.exp if self.log else float
        start, stop = there(self.low), there(self.high)
        steps = max(count - 1, 1)
        inner = [back(start + (stop - start) * i / steps) for i in range(1, steps)]
        if isinstance(self.low, int) and isinstance(self.high, int):
            return list(dict.fromkeys([self.low, *map(round, inner), self.high]))
        return [self.low, *(float(f"{value:.4g}") for value in inner), self.high][:count]


def remembers_nothing(method: Any, growth: Any) -> None:
    """How a method grows that remembers nothing of the size of the network."""


@dataclass(frozen=True)
class Facts:
    """About a method, or about a wrapper."""

    holds: bool = True
    """Whether it is meant to hold on to what was learned; a baseline is not, and `uclearn doctor`
    does not ask it to."""
    works_in_rl: bool = False
    """Whether it can learn while acting: without stored examples of a task, whatever its
    outputs."""
    answers_alike: bool = True
    """Whether its network says in training, called as in use, what the plain one would: neither
    several draws at once nor something of its own for each task."""
    needs_task: bool = False
    """Whether it must be told which task an example is of, even where there is one output
    layer."""
    search: Mapping[str, Range] = field(default_factory=dict)
    """By setting what `uclearn tune` searches, around the published values. A setting that a
    preset leaves at none is not searched."""
    tried: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """By setting the few values that `uclearn.live.suggest` tries."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By benchmark, or by `"*"` for all, the values of settings where its defaults do not suit."""
    without_start: Mapping[str, Any] = field(default_factory=dict)
    """Settings that leave out what it does before its first step, where only steps count."""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further lines of `uclearn params`: by their name the settings that set them apart."""
    cost: Callable[[Sizes], Cost] | None = None
    """What it holds with the paper's settings, by formula, for networks too large to be built."""
    variant_costs: Mapping[str, Callable[[Sizes], Cost]] = field(default_factory=dict)
    """The same of its variants."""
    grow: Callable[[Any, Any], None] | None = None
    """`grow(method, growth)` extends in place what it remembers, after its model has been widened
    (see `uclearn.surgery.growth`); None: its model cannot be widened."""
