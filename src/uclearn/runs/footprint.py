"""What a method costs in memory and in messages, by formula: for networks too large to be built.

`params` counts the same in real objects; a test holds the formulas to that count, for every method
on every benchmark.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from uclearn.errors import SettingError

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

    @property
    def plain(self) -> int:
        """The bare network."""
        return self.shared + self.heads


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


class _Terms(NamedTuple):
    kept: int
    trained: int
    """Parameters that have a gradient in a step."""
    working: int = 0
    """Held beside it while learning, such as SI's path integral; negative: what is kept only
    after the task, such as the new head in LwF's teacher."""
    moments: int = 2
    """Of the optimiser, for each trained parameter."""


FORMULAS: dict[str, Callable[[Sizes], _Terms]] = {
    "finetuning": lambda n: _Terms(n.plain, n.shared + n.head),
    "joint": lambda n: _Terms(n.plain, n.plain),
    "ucl": lambda n: _Terms(2 * (n.shared + n.nodes) + n.heads, n.shared + n.nodes + n.head),
    "ewc": lambda n: _Terms(3 * n.shared + n.heads, n.shared + n.head),
    "si": lambda n: _Terms(3 * n.shared + n.heads, n.shared + n.head, working=3 * n.shared),
    "mas": lambda n: _Terms(3 * n.shared + n.heads, n.shared + n.head),
    "rwalk": lambda n: _Terms(6 * n.shared + n.heads, n.shared + n.head, working=3 * n.shared),
    "lwf": lambda n: _Terms(2 * n.plain, n.plain, working=-n.head),
    "vcl": lambda n: _Terms(4 * n.plain, 2 * (n.shared + n.head)),
    "hat": lambda n: _Terms(
        n.plain + n.tasks * n.hidden, n.shared + n.head + n.tasks * n.hidden, moments=0
    ),
}
"""By method, each with the optimiser of its preset (Adam; for HAT SGD)."""


def expected(method: str, sizes: Sizes) -> Footprint:
    """By formula.

    >>> expected("ewc", mlp_sizes(784, (400, 400), [10] * 10, heads=False))
    Footprint(kept=1435230, learning=2870460, sent=478410)
    """
    if method not in FORMULAS:
        raise SettingError(
            f"`method` must be one whose cost is known by formula ({', '.join(FORMULAS)}), "
            f"got {method!r}."
        )
    terms = FORMULAS[method](sizes)
    learning = terms.kept + terms.working + (1 + terms.moments) * terms.trained
    return Footprint(terms.kept, learning, terms.trained)
