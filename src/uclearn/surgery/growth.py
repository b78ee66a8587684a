"""What a method remembers, extended for nodes that it did not know before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import UnsupportedLayerError
from uclearn.methods.contract import Method
from uclearn.methods.facts import Facts
from uclearn.methods.parts.wrapper import innermost
from uclearn.methods.registry import METHODS
from uclearn.surgery.anatomy import Anatomy
from uclearn.surgery.resize import NEW, Cut, Cuts, cut_values, pick


@dataclass(frozen=True)
class Growth:
    """How a method's model has grown."""

    anatomy: Anatomy
    """As it was before, with the modules as they are now."""
    cuts: Cuts
    example: Any

    def of(self, module: nn.Module) -> Cut:
        """What happened to one layer or normalisation."""
        held = {**self.anatomy.layers, **self.anatomy.norms}
        return next(self.cuts.of[name] for name, own in held.items() if own is module)

    def padded(self, module: nn.Module, name: str, kept: Tensor) -> Tensor:
        """What is kept of the parameter `name`, with 0 where it is new."""
        if kept.shape == getattr(module, name).shape:
            return kept  # it has not grown
        return cut_values(module, name, kept, self.of(module), 0.0)

    def picked(self, values: Tensor, index: Tensor, fill: float, dim: int = 0) -> Tensor:
        """`values` at the old places that `index` (of a cut) names, with `fill` for new ones."""
        return pick(values, index, fill, dim)

    def is_new(self, index: Tensor) -> Tensor:
        """Where an index (of a cut) stands for something new."""
        return index == NEW

    def extended(self, module: nn.Module, name: str, anchor: Tensor) -> Tensor:
        """An anchor of the parameter `name`: where it is new, the parameter as it is now."""
        old = self.padded(module, name, torch.ones_like(anchor))
        now = getattr(module, name).detach()
        return torch.where(old > 0, self.padded(module, name, anchor), now)


Grower = Callable[[Any, Growth], None]

_TAUGHT: dict[type[Method], Grower] = {}


def grow(method: Method, growth: Growth) -> None:
    """Extend what `method` remembers, in place; its model has grown already."""
    inner = innermost(method)
    grower = _grower(type(inner))
    assert grower is not None  # the model would not have been widened
    grower(inner, growth)


def require_growable(method: Method) -> None:
    """Refuse a method whose memory nobody knows how to extend."""
    kind = type(innermost(method))
    if _grower(kind) is None:
        kinds: list[Any] = [*METHODS.sound()[0].values(), *_TAUGHT]
        known = ", ".join(each.__name__ for each in kinds if _grower(each) is not None)
        raise UnsupportedLayerError(
            f"A network under {kind.__name__} cannot be widened: it is not known what its memory "
            f"should hold for new nodes. These can: {known}; "
            "uclearn.surgery.growth.register_growth teaches it another."
        )


def register_growth(kind: type[Method], grower: Grower) -> None:
    """Teach widening a method of yours: `grower(method, growth)` extends its memory in place. A
    class of your own can say it itself, in its `facts`."""
    _TAUGHT[kind] = grower


def _grower(kind: Any) -> Grower | None:
    """By exact type: a subclass may remember more than the class whose facts it inherits."""
    own: Facts | None = vars(kind).get("facts")
    return _TAUGHT.get(kind, own.grow if own is not None else None)


__all__ = ["Growth", "grow", "register_growth", "require_growable"]
