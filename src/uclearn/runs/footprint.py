"""What a method costs in memory and in messages, by formula: for networks too large to be built.

The formulas stand with the methods, in their `facts`. `params` counts the same in real objects; a
test holds the formulas to that count, for every method on every benchmark.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from uclearn.errors import SettingError
from uclearn.methods.facts import Sizes
from uclearn.methods.registry import METHODS, facts

BYTES = 4
"""Of a number: float32."""


class Footprint(NamedTuple):
    """Numbers, not bytes."""

    kept: int
    """Needed after a task to learn the next one, the network included."""
    learning: int
    """Held while a task is learned: the method's tensors, gradients, the optimiser's moments."""
    sent: int
    """Gradients that several processes average in each step."""

    def traffic(self, ranks: int) -> float:
        """Numbers that each process sends in a step, if all-reduce goes round in a ring.

        >>> Footprint(0, 0, sent=100).traffic(ranks=8)
        175.0
        """
        return 2 * (ranks - 1) / ranks * self.sent


def mlp_sizes(inputs: int, hidden: Sequence[int], classes: Sequence[int], *, heads: bool) -> Sizes:
    """Of a fully connected network.

    Args:
        inputs: features per example.
        hidden: width of each hidden layer.
        classes: of each task.
        heads: whether each task has an output layer of its own.

    >>> mlp_sizes(784, (400, 400), [10] * 10, heads=False)
    Sizes(shared=478410, nodes=810, hidden=800, head=0, heads=0, tasks=10)
    """
    own = [(hidden[-1] + 1) * count for count in classes] if heads else [0]
    widths = [inputs, *hidden, *([] if heads else classes[:1])]
    return Sizes(
        shared=sum((before + 1) * after for before, after in itertools.pairwise(widths)),
        nodes=sum(widths[1:]),
        hidden=sum(hidden),
        head=own[-1],
        heads=sum(own),
        tasks=len(classes),
    )


def methods_with_formula() -> list[str]:
    """The methods that say by formula what they cost.

    >>> "ucl" in methods_with_formula()
    True
    """
    return [name for name in METHODS.sound()[0] if facts(name).cost is not None]


def expected(method: str, sizes: Sizes) -> Footprint:
    """By formula.

    >>> expected("ewc", mlp_sizes(784, (400, 400), [10] * 10, heads=False))
    Footprint(kept=1435230, learning=2870460, sent=478410)
    """
    formula = facts(method).cost if method in METHODS else None
    if formula is None:
        raise SettingError(
            "`method` must be one whose cost is known by formula "
            f"({', '.join(methods_with_formula())}), got {method!r}."
        )
    cost = formula(sizes)
    learning = cost.kept + cost.working + (1 + cost.moments) * cost.trained
    return Footprint(cost.kept, learning, cost.trained)
