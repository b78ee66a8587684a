"""What does a loop of one's own learn: a choice among classes, a yes or no for each of several
labels, or numbers?

Nobody says it, and the loss is computed elsewhere. But whatever the loss: adding one number to all
logits of an example does not change a choice, so their gradients sum to 0. Those of numbers that
are to be predicted do not. And the gradient of a yes or no with logit z is c (sigmoid z - y), where
y is 0 or 1, so that each tells the same c.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.methods.parts.surprise import Kind
from uclearn.networks import as_put_out

_STEPS = 4
"""Of a task, whose gradients are looked at."""
_NOTHING = 0.01
"""A sum that is smaller than this share of its summands is 0: half precision rounds by less."""
_SURE = 0.001
"""A yes or no that is nearer to 0 or 1 than this has too small a gradient to tell c."""


class _Heard(NamedTuple):
    """Of the gradients of one step."""

    net: Tensor  # (): the absolute values of their sums over classes
    gross: Tensor  # (): of themselves
    units: Tensor  # (2, 2): least and largest c, times the examples, by y = 0 and by y = 1
    told: Tensor  # (): how many tell c


class NoticedChoice:
    """Listens to a model's answers while it is trained. A copy has noticed nothing.

    >>> noticed = NoticedChoice()
    >>> net = nn.Linear(2, 3)
    >>> noticed.listen_to(net)
    >>> nn.functional.cross_entropy(net(torch.randn(5, 2)), torch.arange(5) % 3).backward()
    >>> noticed.kind
    'classes'
    """

    def __init__(self) -> None:
        self._heard: list[_Heard] = []
        self.understands = True
        """What the model puts out has answers in it, as far as is known."""

    @property
    def kind(self) -> Kind | None:
        """What answers are; None: no gradient was seen."""
        net = sum(float(each.net) for each in self._heard)
        gross = sum(float(each.gross) for each in self._heard)
        if not gross > 0:
            return None
        if net <= _NOTHING * gross:
            return "classes"
        return "labels" if self._tell_one_unit() else "numbers"

    def _tell_one_unit(self) -> bool:
        least = torch.stack([each.units[0] for each in self._heard]).amin(0)
        largest = torch.stack([each.units[1] for each in self._heard]).amax(0)
        alike = largest <= least * (1 + 2 * _NOTHING)  # as it is where none has that y
        return bool(alike.all()) and sum(int(each.told) for each in self._heard) > 1

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
        self._heard.clear()

    def _hear(self, model: nn.Module, arguments: Any, output: Any) -> None:
        listening = model.training and torch.is_grad_enabled() and len(self._heard) < _STEPS
        if not listening or torch.compiler.is_compiling():
            return
        try:
            shown, classes = as_put_out(output)
        except TaskError:
            self.understands = False
            return
        self.understands = shown.dim() > 0  # and no loss
        if self.understands and shown.requires_grad:
            shown.register_hook(partial(self._add, min(classes, shown.dim()), shown.detach()))

    def _add(self, classes: int, shown: Tensor, gradient: Tensor) -> None:
        if gradient.dim() == classes:  # one number for each example
            gradient, shown = gradient.unsqueeze(-1), shown.unsqueeze(-1)
        chances, slopes = shown.float().sigmoid(), gradient.float()  # not every device has doubles
        tells = (chances * (1 - chances) > _SURE) & (slopes != 0)
        units = slopes / (chances - (slopes < 0).to(chances)) * len(gradient)
        ends = [
            (of.masked_fill(~of_y, torch.inf).min(), of.masked_fill(~of_y, -torch.inf).max())
            for of, of_y in ((units, tells & (slopes > 0)), (units, tells & (slopes < 0)))
        ]
        self._heard.append(
            _Heard(
                gradient.sum(classes).abs().sum(),
                gradient.abs().sum(),
                torch.stack([torch.stack(pair) for pair in zip(*ends, strict=True)]),
                tells.sum(),
            )
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def __getstate__(self) -> dict[str, Any]:
        return {"_heard": []}
