"""UCL's penalty, eq. (3) to (6) of the paper.

Eq. (4) and eq. (5), `hold`: what holds the means where earlier tasks left them,

    drift, eq. (4):   1/2 * sum_ij ( Lambda_ij * (mean_ij - anchor_ij) )^2,
                      Lambda_ij = max(strength of node i, strength of the node that feeds input j)
    freeze, eq. (5):  sigma_init^2 * sum_ij (anchor_ij / sigma'_i)^2 * |mean_ij - anchor_ij|
                    = sum_ij (s_i * anchor_ij)^2 * |mean_ij - anchor_ij|,
                      s_i = sigma_init / sigma'_i

with the gradient  Lambda^2 (mean - anchor) + (s anchor)^2 sign(mean - anchor).

The two share their passes over the weights, so they are computed together. Nothing of the size of
the weights is kept: Lambda arises from two vectors, a piece at a time.

Term (b) of eq. (3) and eq. (6), `spread`: what happens to the uncertainty of nodes,

    1/2 * sum_i [ (sigma_i/sigma'_i)^2 - log (sigma_i/sigma'_i)^2  +  sigma_i^2 - log sigma_i^2 ]

The first two keep a node as certain as it was; the last two, eq. (6), let go: together they are
least at sigma = sqrt(2 / (1/sigma'^2 + 1)), close to sqrt(2) sigma'. The gradient is
sigma/sigma'^2 - 2/sigma + sigma.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from uclearn.penalties.closed_form import known_gradient
from uclearn.sizes import WEIGHT_PIECE


class Grip(NamedTuple):
    """How firmly each weight is held, as vectors that broadcast over the weights.

    For a linear layer `node` and `freeze` are (out, 1) and `source` is (1, in).
    """

    node: Tensor
    """Squared strength of the node that the weight comes into, times the weight of eq. (4)."""
    source: Tensor | None
    """Squared strength of the node that feeds the weight, times the weight of eq. (4)."""
    freeze: Tensor | None
    """Squared strength of the node, times the weight of eq. (5); None: eq. (5) is off."""

    def times(self, factor: float) -> Grip:
        """Every hold multiplied by `factor`."""
        node, source, freeze = self
        return Grip(
            node * factor,
            None if source is None else source * factor,
            None if freeze is None else freeze * factor,
        )

    def for_each(self, mean: Tensor) -> Grip:
        """The same grip on `mean.flatten()`: as many numbers as there are weights.

        >>> vectors = Grip(torch.tensor([[2.0]]), torch.tensor([[1.0, 3.0]]), None)
        >>> vectors.for_each(torch.zeros(1, 2)).node
        tensor([2., 3.])
        """
        node = _stiffness(self, out=torch.empty_like(mean)).flatten()
        return Grip(
            node, None, None if self.freeze is None else self.freeze.expand_as(mean).flatten()
        )


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
    with torch.no_grad():
        value, gradient = hold(mean, anchor, grip)
    return known_gradient(value, [mean], [gradient])


def hold(mean: Tensor, anchor: Tensor, grip: Grip, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """The value of eq. (4) + eq. (5) and its gradient, both times `scale`; under no_grad."""
    whole = torch.empty_like(mean)
    values = []
    for (gradient, means, anchors), part in _pieces((whole, mean, anchor), grip.times(scale)):
        moved, pressed = _scratch.like(means)
        torch.sub(means, anchors, out=moved)
        pulled = _dot(_pull(part, moved, out=gradient), moved)
        if part.freeze is None:
            values.append(pulled / 2)
            continue
        torch.mul(anchors, anchors, out=pressed).mul_(part.freeze)
        gradient.addcmul_(pressed, torch.sign(moved))
        # <c d, d> counts eq. (4) twice; |d| = sign(d) d counts eq. (5) once
        values.append(torch.sub(_dot(gradient, moved), pulled, alpha=0.5))
    return values[0] if len(values) == 1 else torch.stack(values).sum(), whole


def add_hold_gradient(
    gradient: Tensor, mean: Tensor, anchor: Tensor, grip: Grip, scale: float
) -> None:
    """Add the gradient of eq. (4) + eq. (5), times `scale`, to `gradient` in place; under
    no_grad."""
    for (target, means, anchors), part in _pieces((gradient, mean, anchor), grip):
        moved, pull = _scratch.like(means)
        torch.sub(means, anchors, out=moved)
        stiffness = part.node if part.source is None else _stiffness(part, out=pull)
        target.addcmul_(moved, stiffness, value=scale)
        if part.freeze is not None:
            torch.mul(anchors, anchors, out=pull).mul_(part.freeze)
            target.addcmul_(moved.sign_(), pull, value=scale)


def spread(sigma: Tensor, previous: Tensor, *, inflate: bool = True) -> Tensor:
    """Terms (b) + eq. (6), summed over nodes (one term per node, not per weight).

    Args:
        sigma: (nodes,) the standard deviations being learned.
        previous: (nodes,) those that the previous task left.
        inflate: eq. (6); without it sigma stays near `previous` (the paper's "without (6)").

    By hand: sigma = sigma' = 1: 1/2 * (1 - 0 + 1 - 0) = 1.

    >>> spread(torch.tensor([1.0]), torch.tensor([1.0]))
    tensor(1.)
    """
    with torch.no_grad():
        value, gradient = spread_and_gradient(sigma, previous, inflate=inflate)
    return known_gradient(value, [sigma], [gradient])


def spread_and_gradient(
    sigma: Tensor, previous: Tensor, *, inflate: bool = True
) -> tuple[Tensor, Tensor]:
    """The value and its gradient with respect to sigma."""
    ratio = (sigma / previous).square_()
    total = ratio.sub_(ratio.log())
    if inflate:
        square = sigma.square()
        total = total.add_(square).sub_(square.log_())
    return total.sum() / 2, spread_gradient(sigma, previous, inflate=inflate)


def spread_gradient(sigma: Tensor, previous: Tensor, *, inflate: bool = True) -> Tensor:
    """(nodes,) `sigma/sigma'^2 - 2/sigma + sigma`; without eq. (6) `sigma/sigma'^2 - 1/sigma`."""
    gradient = (sigma / previous).div_(previous)
    if inflate:
        return gradient.add_(sigma).sub_(sigma.reciprocal(), alpha=2)
    return gradient.sub_(sigma.reciprocal())


def _dot(left: Tensor, right: Tensor) -> Tensor:
    return torch.dot(left.flatten(), right.flatten())


class _Scratch(threading.local):
    """Temporaries that are used again and again: allocating them costs more than computing."""

    def __init__(self) -> None:
        self.known: dict[tuple[torch.device, torch.dtype, torch.Size], tuple[Tensor, Tensor]] = {}

    def like(self, piece: Tensor) -> tuple[Tensor, Tensor]:
        """Two of that shape, this thread's own."""
        key = (piece.device, piece.dtype, piece.shape)
        if key not in self.known:
            if len(self.known) >= 64:  # shapes of models long gone
                self.known.clear()
            self.known[key] = (torch.empty_like(piece), torch.empty_like(piece))
        return self.known[key]


_scratch = _Scratch()


def _pull(grip: Grip, moved: Tensor, out: Tensor) -> Tensor:
    """The gradient of eq. (4)."""
    if grip.source is None:
        return torch.mul(moved, grip.node, out=out)
    return _stiffness(grip, out).mul_(moved)


def _stiffness(grip: Grip, out: Tensor) -> Tensor:
    """Lambda^2, times the weight of eq. (4)."""
    if grip.source is None:
        return out.copy_(grip.node)
    return torch.maximum(grip.node.expand_as(out), grip.source, out=out)  # kernels: out is larger


def _pieces(tensors: tuple[Tensor, ...], grip: Grip) -> Iterator[tuple[tuple[Tensor, ...], Grip]]:
    """Tensors of the size of the weights, and their grip, in pieces of about `WEIGHT_PIECE`."""
    first = tensors[0]
    if first.numel() <= WEIGHT_PIECE:
        yield tensors, grip
        return
    step = max(1, WEIGHT_PIECE * first.shape[0] // first.numel())
    for start in range(0, first.shape[0], step):
        rows = slice(start, start + step)
        part = Grip(*(_rows(values, rows, first.dim()) for values in grip))  # type: ignore[arg-type]
        yield tuple(tensor[rows] for tensor in tensors), part


def _rows(values: Tensor | None, rows: slice, dims: int) -> Tensor | None:
    # one row, or fewer dimensions than the weights: the same for all rows
    if values is None or values.dim() < dims or values.shape[0] == 1:
        return values
    return values[rows]
