"""All that UCL holds, at once: its penalty and the gradients of it.

In a small network a step costs what its calls cost, not what they compute. So small parameters are
laid end to end and worked on as one, and so are the uncertainties of all layers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from uclearn.methods.parts.held import Bond, Held, gradient_of
from uclearn.penalties import (
    Grip,
    add_hold_gradient,
    hold,
    spread_and_gradient,
    spread_gradient,
)

SMALL = 1 << 13
"""Parameters up to this size are worked on together. They are copied for it, which for larger ones
costs more than the calls do, and two numbers for each of their elements are kept."""

T = TypeVar("T")


class Term(NamedTuple):
    """A part of the penalty: the parameters that it is on, its value, its gradients."""

    parameters: Sequence[Tensor]
    value: Tensor
    gradients: Sequence[Tensor]


class Grasp:
    """The penalty on everything that is held; to be called under no_grad.

    Args:
        all_held: the memory of each layer, tightened.
    """

    def __init__(self, all_held: Iterable[Held]) -> None:
        all_held = list(all_held)
        bonds = [bond for held in all_held for bond in held.bonds]
        together = _alike((b for b in bonds if b.anchor.numel() <= SMALL), lambda b: b.anchor)
        self._bundles = [(few, _grip_on_all(few)) for few in together]
        self._large = [bond for bond in bonds if bond.anchor.numel() > SMALL]
        spreads = (spread for held in all_held for spread in held.spreads())
        self._spreads = _alike(spreads, lambda spread: spread.previous)

    def terms(self, scale: float, beta: float, inflate: bool) -> Iterator[Term]:
        """Eq. (4) + eq. (5) on means and beta eq. (6) on uncertainties, times `scale`."""
        for parameters, mean, anchor, grip in self._pulled():
            value, gradient = hold(mean, anchor, grip, scale)
            yield Term(parameters, value, _split(gradient, parameters))
        for rhos, rho, previous in self._spread():
            value, gradient = spread_and_gradient(F.softplus(rho), previous, inflate=inflate)
            # d/d rho = d/d sigma * sigmoid(rho)
            gradient.mul_(rho.sigmoid()).mul_(beta * scale)
            yield Term(rhos, value * (beta * scale), _split(gradient, rhos))

    def add_gradients(self, scale: float, beta: float, inflate: bool) -> None:
        """The same gradients, added to what the parameters have."""
        for parameters, mean, anchor, grip in self._pulled():
            if len(parameters) == 1:
                target = gradient_of(parameters[0]).view_as(mean)
                add_hold_gradient(target, mean, anchor, grip, scale)
                continue
            gradient = torch.zeros_like(mean)
            add_hold_gradient(gradient, mean, anchor, grip, scale)
            _add(gradient, parameters)
        for rhos, rho, previous in self._spread():
            gradient = spread_gradient(F.softplus(rho), previous, inflate=inflate)
            _add(gradient.mul_(rho.sigmoid()).mul_(beta * scale), rhos)

    def _pulled(self) -> Iterator[tuple[list[nn.Parameter], Tensor, Tensor, Grip]]:
        """What is trained now: parameters, and their mean, anchor and grip, as one or blocks."""
        for bonds, grip in self._bundles:
            parameters = [bond.parameter for bond in bonds]
            if len(bonds) > 1 and all(parameter.requires_grad for parameter in parameters):
                anchors = [bond.anchor for bond in bonds]
                yield parameters, _end_to_end(parameters), _end_to_end(anchors), grip
            else:
                yield from _one_by_one(bonds)
        yield from _one_by_one(self._large)

    def _spread(self) -> Iterator[tuple[list[nn.Parameter], Tensor, Tensor]]:
        """What is trained now: rhos, and them and the previous sigmas as one."""
        for spreads in self._spreads:
            rhos = [spread.rho for spread in spreads]
            before = [s.previous for s, rho in zip(spreads, rhos, strict=True) if rho.requires_grad]
            if before:
                rhos = [rho for rho in rhos if rho.requires_grad]
                yield rhos, _end_to_end(rhos), _end_to_end(before)


def _one_by_one(
    bonds: Iterable[Bond],
) -> Iterator[tuple[list[nn.Parameter], Tensor, Tensor, Grip]]:
    for bond in bonds:
        if (parameter := bond.parameter).requires_grad:
            blocks = bond.held.blocks
            yield [parameter], blocks(parameter), blocks(bond.anchor), bond.grip


def _grip_on_all(bonds: list[Bond]) -> Grip:
    each = [bond.grip.for_each(bond.held.blocks(bond.anchor)) for bond in bonds]
    presses = [grip.press for grip in each if grip.press is not None]
    node = torch.cat([grip.node for grip in each])
    return Grip(node, None, torch.cat(presses) if presses else None)


def _end_to_end(tensors: Sequence[Tensor]) -> Tensor:
    whole: Tensor = _flatten_dense_tensors(tensors)
    return whole


def _split(whole: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
    if len(parameters) == 1:
        return [whole.view_as(parameters[0])]
    parts: Sequence[Tensor] = _unflatten_dense_tensors(whole, parameters)
    return parts


def _add(gradient: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    for parameter, part in zip(parameters, _split(gradient, parameters), strict=True):
        gradient_of(parameter).add_(part)


def _alike(items: Iterable[T], tensor: Callable[[T], Tensor]) -> list[list[T]]:
    """Groups whose tensors live in one place in one precision."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault((tensor(item).device, tensor(item).dtype), []).append(item)
    return list(groups.values())
