"""The penalty that EWC, SI, MAS and RWalk share: a spring on every weight.

    strength/2 * sum importance * (theta - anchor)^2

with the gradient  strength * importance * (theta - anchor).

The methods differ only in how they find the importance. Each function takes lists of tensors, one
of each per parameter, all three of the same shape. Nothing of the size of the weights is made anew
for the gradient alone: on a CPU `uclearn.native` works it out in one pass, or torch does a piece
at a time, in a core's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from uclearn.native import calls, holding
from uclearn.penalties.closed_form import known_gradient
from uclearn.sizes import WEIGHT_PIECE


def quadratic(
    parameters: Sequence[Tensor],
    anchors: Sequence[Tensor],
    importances: Sequence[Tensor],
    strength: float = 1.0,
) -> Tensor:
    """`strength/2 * sum importance (theta - anchor)^2`, with its closed gradient.

    Args:
        parameters: the weights being learned.
        anchors: like `parameters`: where earlier tasks left them.
        importances: like `parameters`: how much each weight matters to those tasks.
        strength: the weight of the whole.

    By hand: weights (3, 1), anchors (1, 4), importances (2, 1): 1/2 * (2 * 2^2 + 1 * 3^2) = 8.5.

    >>> quadratic([torch.tensor([3.0, 1.0])], [torch.tensor([1.0, 4.0])],
    ...           [torch.tensor([2.0, 1.0])])
    tensor(8.5000)
    """
    detached = [parameter.detach() for parameter in parameters]
    value, gradients = quadratic_and_gradient(detached, anchors, importances, strength)
    return known_gradient(value, parameters, gradients)


@torch.no_grad()
def quadratic_and_gradient(
    parameters: Sequence[Tensor],
    anchors: Sequence[Tensor],
    importances: Sequence[Tensor],
    strength: float = 1.0,
) -> tuple[Tensor, list[Tensor]]:
    """The value and its gradient with respect to each parameter."""
    total = parameters[0].new_zeros(())
    gradients = [torch.empty_like(parameter) for parameter in parameters]
    for tensors in zip(gradients, parameters, anchors, importances, strict=True):
        for gradient, parameter, anchor, importance in pieces(tensors):
            moved = parameter - anchor
            torch.mul(moved, importance, out=gradient).mul_(strength)
            total += torch.dot(gradient.flatten(), moved.flatten())
    return total / 2, gradients


@torch.no_grad()
def quadratic_value(
    parameters: Sequence[Tensor],
    anchors: Sequence[Tensor],
    importances: Sequence[Tensor],
    strength: float = 1.0,
) -> Tensor:
    """The value alone, to be looked at: it has no gradient."""
    total = parameters[0].new_zeros(())
    for tensors in zip(parameters, anchors, importances, strict=True):
        for parameter, anchor, importance in pieces(tensors):
            moved = parameter - anchor
            total += torch.dot((moved * importance).flatten(), moved.flatten())
    return total * (strength / 2)


@torch.no_grad()
def add_quadratic_gradient(
    gradients: Sequence[Tensor],
    parameters: Sequence[Tensor],
    anchors: Sequence[Tensor],
    importances: Sequence[Tensor],
    strength: float = 1.0,
) -> None:
    """Add `strength * importance * (theta - anchor)` to `gradients` in place.

    >>> gradient = torch.tensor([1.0])
    >>> add_quadratic_gradient([gradient], [torch.tensor([3.0])], [torch.tensor([1.0])],
    ...                        [torch.tensor([2.0])], strength=10.0)
    >>> gradient
    tensor([41.])
    """
    for tensors in zip(gradients, parameters, anchors, importances, strict=True):
        if calls.usable(*tensors):
            holding.add_spring(*tensors, strength)
            continue
        for gradient, parameter, anchor, importance in pieces(tensors):
            gradient.addcmul_(parameter - anchor, importance, value=strength)


def pieces(tensors: tuple[Tensor, ...]) -> Iterator[tuple[Tensor, ...]]:
    """Tensors of one shape, in pieces of about `WEIGHT_PIECE` elements on a CPU, else whole."""
    first = tensors[0]
    if first.device.type != "cpu" or first.numel() <= WEIGHT_PIECE:
        yield tensors
        return
    step = max(1, WEIGHT_PIECE * first.shape[0] // first.numel())
    for start in range(0, first.shape[0], step):
        yield tuple(tensor[start : start + step] for tensor in tensors)
