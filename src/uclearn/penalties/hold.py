"""Eq. (4) and eq. (5) of the paper: what holds the means where earlier tasks left them.

    drift, eq. (4):   1/2 * sum_ij ( Lambda_ij * (mean_ij - anchor_ij) )^2,
                      Lambda_ij = max(strength of node i, strength of the node that feeds input j)
    freeze, eq. (5):  sigma_init^2 * sum_ij (anchor_ij / sigma'_i)^2 * |mean_ij - anchor_ij|
                    = sum_ij (s_i * anchor_ij)^2 * |mean_ij - anchor_ij|,
                      s_i = sigma_init / sigma'_i

with the gradient  Lambda^2 (mean - anchor) + (s anchor)^2 sign(mean - anchor).

The two share their passes over the weights, so they are computed together. Nothing of the size of
the weights is kept: Lambda arises from two vectors, a piece at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from uclearn.penalties.closed_form import known_gradient

PIECE = 1 << 17
"""Weights worked on at a time: the temporaries then stay in a core's cache."""


class Grip(NamedTuple):
    """How firmly each weight is held, as vectors that broadcast over the weights.

    For a linear layer `node` and `press` are (out, 1) and `source` is (1, in).
    """

    node: Tensor
    """Squared strength of the node that the weight comes into, times the weight of eq. (4)."""
    source: Tensor | None
    """Squared strength of the node that feeds the weight, times the weight of eq. (4)."""
    press: Tensor | None
    """Squared strength of the node, times the weight of eq. (5); None: eq. (5) is off."""


def drift(mean: Tensor, anchor: Tensor, node: Tensor, source: Tensor | None = None) -> Tensor:
    """Eq. (4), `1/2 * sum (max(node, source) * (mean - anchor))^2`, with its closed gradient.

    Args:
        mean: (out, in) the means being learned (any shape).
        anchor: like `mean`: the means that the previous task left.
        node: broadcastable to `mean`, (out, 1): strength sigma_init / sigma' of each node.
        source: broadcastable to `mean`, (1, in): strength of the node that feeds each input;
            None leaves it out (the paper's "without upper freeze", and biases).

    By hand: mean (3, 1), anchor (1, 1), node strength 2, source strengths (3, 1):
    Lambda = (3, 2), so 1/2 * ((3 * 2)^2 + (2 * 0)^2) = 18.

    >>> drift(torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, 1.0]]),
    ...       torch.tensor([[2.0]]), torch.tensor([[3.0, 1.0]]))
    tensor(18.)
    """
    grip = Grip(node.square(), None if source is None else source.square(), None)
    return _differentiable(mean, anchor, grip)


def freeze(mean: Tensor, anchor: Tensor, node: Tensor) -> Tensor:
    """Eq. (5), `sum (node * anchor)^2 * |mean - anchor|`, with its closed gradient.

    By hand: mean (3, 1), anchor (1, 4), node strength 2: (2 * 1)^2 * 2 + (2 * 4)^2 * 3 = 200.

    >>> freeze(torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, 4.0]]), torch.tensor([[2.0]]))
    tensor(200.)
    """
    return _differentiable(mean, anchor, Grip(torch.zeros_like(node), None, node.square()))


def _differentiable(mean: Tensor, anchor: Tensor, grip: Grip) -> Tensor:
    value, gradient = hold(mean.detach(), anchor, grip)
    return known_gradient(value, [mean], [gradient])


@torch.no_grad()
def hold(mean: Tensor, anchor: Tensor, grip: Grip, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """The value of eq. (4) + eq. (5) and its gradient, both times `scale`."""
    gradient = torch.empty_like(mean)
    drifted = mean.new_zeros(())
    both = mean.new_zeros(())
    for rows in _pieces(mean):
        moved, pull = mean[rows] - anchor[rows], gradient[rows]
        _pull(grip, rows, moved, out=pull)
        drifted += torch.dot(pull.flatten(), moved.flatten())
        if grip.press is not None:
            pressed = anchor[rows].square().mul_(_rows(grip.press, rows, pull))
            pull.addcmul_(pressed, moved.sign())
        both += torch.dot(pull.flatten(), moved.flatten())
    # sum c d^2 counts double in <gradient, moved>; |d| = sign(d) d does not
    return (both - 0.5 * drifted) * scale, gradient.mul_(scale) if scale != 1.0 else gradient


@torch.no_grad()
def add_hold_gradient(
    gradient: Tensor, mean: Tensor, anchor: Tensor, grip: Grip, scale: float
) -> None:
    """Add the gradient of eq. (4) + eq. (5), times `scale`, to `gradient` in place."""
    for rows in _pieces(mean):
        moved, target = mean[rows] - anchor[rows], gradient[rows]
        pull = torch.empty_like(moved)
        _stiffness(grip, rows, out=pull)
        target.addcmul_(moved, pull, value=scale)
        if grip.press is not None:
            torch.mul(anchor[rows], anchor[rows], out=pull)
            target.addcmul_(moved.sign_(), pull.mul_(_rows(grip.press, rows, pull)), value=scale)


def _pull(grip: Grip, rows: slice, moved: Tensor, out: Tensor) -> None:
    _stiffness(grip, rows, out=out)
    out.mul_(moved)


def _stiffness(grip: Grip, rows: slice, out: Tensor) -> None:
    """Lambda^2 for some rows of the weights, times the weight of eq. (4)."""
    node = _rows(grip.node, rows, out)
    if grip.source is None:
        out.copy_(node.expand_as(out))
    else:
        torch.maximum(node.expand_as(out), _rows(grip.source, rows, out).expand_as(out), out=out)


def _pieces(tensor: Tensor) -> Iterator[slice]:
    """Slices of the first dimension that hold about `PIECE` elements each."""
    length = max(tensor.shape[0], 1)
    step = max(1, PIECE * length // max(tensor.numel(), 1))
    return (slice(start, start + step) for start in range(0, length, step))


def _rows(values: Tensor, rows: slice, like: Tensor) -> Tensor:
    # values of fewer dimensions broadcast over the rows, as those with one row do
    return values[rows] if values.dim() == like.dim() and values.shape[0] > 1 else values
