"""Fine-tuning: learn each task as if it were the first. What all others improve on."""

from __future__ import annotations

from typing import Any

from torch import nn

from uclearn.methods.contract import Method


class FineTuning(Method):
    """The contract unchanged: nothing is kept, nothing is held.

    Args:
        model: the network; the method works on a copy.
        example: not needed.

    >>> FineTuning(nn.Linear(2, 2)).penalty()
    tensor(0.)
    """

    def __init__(self, model: nn.Module, example: Any = None) -> None:
        super().__init__(model)
