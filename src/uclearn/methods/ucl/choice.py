"""What does a loop of one's own learn: a choice among classes, or numbers?

Nobody says it, and the loss is computed elsewhere. But whatever the loss: adding one number to all
logits of an example does not change a choice, so their gradients sum to 0. Those of numbers that
are to be predicted do not.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.networks import as_put_out

_STEPS = 4
"""Of a task, whose gradients are looked at."""
_NOTHING = 0.01
"""A sum that is smaller than this share of its summands is 0: half precision rounds by less."""


class NoticedChoice:
    """Listens to a model's answers while it is trained. A copy has noticed nothing.

    >>> noticed = NoticedChoice()
    >>> net = nn.Linear(2, 3)
    >>> noticed.listen_to(net)
    >>> nn.functional.cross_entropy(net(torch.randn(5, 2)), torch.arange(5) % 3).backward()
    >>> noticed.chooses
    True
    """

    def __init__(self) -> None:
        self._sums: list[tuple[Tensor, Tensor]] = []

    @property
    def chooses(self) -> bool | None:
        """Whether answers are a choice among classes; None: no gradient was seen."""
        net = sum(float(each) for each, _ in self._sums)
        gross = sum(float(each) for _, each in self._sums)
        return net <= _NOTHING * gross if gross > 0 else None

    def listen_to(self, model: nn.Module) -> None:
        """From now on look at the gradients of what `model` answers."""
        model.register_forward_hook(self._hear)

    @classmethod
    def left_alone(cls, model: nn.Module) -> nn.Module:
        """`model`, a copy of one that is listened to, without that."""
        for key, hook in list(model._forward_hooks.items()):
            if isinstance(getattr(hook, "__self__", None), cls):
                del model._forward_hooks[key]
        return model

    def clear(self) -> None:
        """The task is over."""
        self._sums.clear()

    def _hear(self, model: nn.Module, arguments: Any, output: Any) -> None:
        listening = model.training and torch.is_grad_enabled() and len(self._sums) < _STEPS
        if not listening or torch.compiler.is_compiling():
            return
        try:
            shown, classes = as_put_out(output)
        except TaskError:  # it answers nothing that could be looked at
            return
        if shown.dim() > 1 and shown.requires_grad:
            shown.register_hook(partial(self._add, classes))

    def _add(self, classes: int, gradient: Tensor) -> None:
        self._sums.append((gradient.sum(classes).abs().sum(), gradient.abs().sum()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def __getstate__(self) -> dict[str, Any]:
        return {"_sums": []}
