"""Fine-tuning: learn each task as if it were the first. What all others improve on."""

from __future__ import annotations

from typing import Any

from torch import nn

from uclearn.methods.contract import Method
from uclearn.methods.facts import Cost, Facts, remembers_nothing


class FineTuning(Method):
    """The contract unchanged: nothing is kept, nothing is held.

    Args:
        model: the network; the method works on a copy.
        example: not needed.

    >>> FineTuning(nn.Linear(2, 2)).penalty()
    tensor(0.)
    """

    facts = Facts(
        holds=False,
        works_in_rl=True,
        cost=lambda n: Cost(n.plain, n.shared + n.head),
        grow=remembers_nothing,
    )

    def __init__(self, model: nn.Module, example: Any = None) -> None:
        super().__init__(model)
