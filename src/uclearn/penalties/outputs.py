"""Eq. (4) measured by what nodes say, not by what their weights are.

A node that must not forget may well change its weights, as long as it goes on saying the same to
what it has been given before. With d_i the change of node i's weights, e_i that of its bias, and x
what its layer was given in earlier tasks,

    1/2 * sum_i s_i^2 * E[ (d_i x + e_i)^2 ]
  = 1/2 * sum_i s_i^2 * ( (d_i m + e_i)^2 + d_i C d_i^T ),     m = E[x],  C = Cov[x]

takes the place of 1/2 * sum_i s_i^2 * |d_i|^2. In directions that x never took the weights are
free, so tasks share nodes instead of giving them away; that is also what weighs the node at the
other end of a weight, which the paper's Lambda does by a maximum. The gradient with respect to d_i
is s_i^2 ( (d_i m + e_i) m + d_i C ), and s_i^2 (d_i m + e_i) with respect to e_i.

Of C only blocks on the diagonal are kept, no wider than a layer has nodes (`SeenInputs`). To a node
of a convolution x is what it sees at one place: each position of its kernel in each channel. Inputs
stand channel by channel, so that blocks hold what neighbouring positions have in common.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_ITERATIONS = 20


class Given(NamedTuple):
    """What a layer was given in earlier tasks: how it is distributed, as far as is kept."""

    mean: Tensor
    """(groups, inputs) E[x], in the units of `one`."""
    covariance: Tensor
    """(groups, blocks, width, width): of so many consecutive inputs each, the last block padded by
    zeros; or (1, inputs), of inputs that do not covary (words of an embedding)."""
    one: Tensor
    """(): what a bias is given; 1, unless inputs are measured in units of their own."""


def steepest(given: Given) -> float:
    """The largest eigenvalue of E[x x^T], with a bias among the inputs, or a little more: those of
    the mean's part and of the covariance added. The latter by power iteration.

    >>> covariance = torch.tensor([[[[4.0, 0.0], [0.0, 1.0]]]])
    >>> round(steepest(Given(torch.tensor([[1.0, 1.0]]), covariance, torch.tensor(1.0))), 3)
    7.0
    """
    if given.covariance.dim() == 2:
        return float(given.covariance.max())
    along = given.covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).unsqueeze(-1)
    tiny = torch.finfo(along.dtype).tiny
    for _ in range(_ITERATIONS):
        length = along.norm(dim=-2, keepdim=True).clamp_min(tiny)
        along = given.covariance @ (along / length)
    largest = along.norm(dim=-2).max()
    return float(given.mean.square().sum(-1).max() + given.one**2 + largest)


class Moved(NamedTuple):
    """How far a layer has moved since the previous task."""

    weight: Tensor
    """(groups, nodes per group, inputs)"""
    bias: Tensor | None
    """(groups, nodes per group)"""


class OutputHold:
    """The drift of a layer, made ready to be worked out in every step.

    Mean and covariance are one matrix for each block, of which the mean is the first row: so both
    parts of the gradient are one product, added where it belongs.

    Args:
        given: what the layer was given until the previous task ended.
        node: (groups, nodes per group) squared strength of each node, times whatever weighs it.
    """

    def __init__(self, given: Given, node: Tensor) -> None:
        self.node, self._mean, self._one = node, given.mean, given.one
        self._of_words = given.covariance if given.covariance.dim() == 2 else None
        self.matrices: list[Tensor] = []
        """(groups, 1 + inputs of the block, inputs of the block) each."""
        if self._of_words is None:
            width = given.covariance.shape[-1]
            parts = zip(given.mean.split(width, -1), given.covariance.unbind(1), strict=True)
            for mean, block in parts:
                wide = mean.shape[-1]
                rows = [mean.unsqueeze(-2), block[:, :wide, :wide]]
                self.matrices.append(torch.cat(rows, -2))

    def gradient(self, moved: Moved, scale: float = 1.0) -> Moved:
        """The gradients times `scale`; under no_grad. `moved`: since the previous task."""
        weight, bias = moved
        empty = weight.new_zeros(weight.shape)  # dense, whatever the layout of the weights
        into = Moved(empty, None if bias is None else torch.zeros_like(bias))
        self.add_gradient(into, moved, scale)
        return into

    def add_gradient(self, into: Moved, moved: Moved, scale: float) -> None:
        """The same, added to `into`, the first part of which is dense."""
        weight, bias = moved
        node = self.node * scale
        if self._of_words is not None:
            into.weight.addcmul_(weight * self._of_words, node.unsqueeze(-1))
            return  # words of an embedding: there is no bias, and they have no mean
        # (groups, nodes): the change of what is said on average
        steady = (weight @ self._mean.unsqueeze(-1)).squeeze(-1)
        if bias is not None:
            steady = steady + bias * self._one
        pull = node * steady
        if into.bias is not None:
            into.bias.add_(pull * self._one)
        width = self.matrices[0].shape[-1]
        pulled = weight.new_empty(len(self.matrices), *weight.shape[:2], 1 + width)
        pulled[..., 0] = pull
        for part, room in zip(weight.split(width, -1), pulled, strict=True):
            torch.mul(part, node.unsqueeze(-1), out=room[..., 1 : 1 + part.shape[-1]])
        self.add_products(into.weight, pulled)

    def add_products(self, into: Tensor, pulled: Tensor, *, fresh: bool = False) -> None:
        """The last step of `add_gradient`.

        Args:
            into: (groups, nodes, inputs)
            pulled: (blocks, groups, nodes, 1 + width): how far each node has moved, what it says on
                average first, times the strength of its node.
            fresh: `into` holds nothing yet.
        """
        parts = into.split(pulled.shape[-1] - 1, -1)
        for part, room, matrix in zip(parts, pulled, self.matrices, strict=True):
            part.baddbmm_(room[..., : matrix.shape[-2]], matrix, beta=0 if fresh else 1)


def output_drift(moved: Moved, given: Given, node: Tensor) -> tuple[Tensor, Moved]:
    """The value and its gradients; under no_grad.

    Args:
        moved: since the previous task.
        given: what the layer was given until then.
        node: (groups, nodes per group) squared strength of each node, times whatever weighs it.

    By hand: one node, two inputs with mean (1, 0) and covariance diag(0, 4), squared strength 2,
    moved by d = (3, 1) and e = 1: (3 + 1)^2 + 4 = 20, times 2/2.

    >>> covariance = torch.tensor([[[[0.0, 0.0], [0.0, 4.0]]]])
    >>> given = Given(torch.tensor([[1.0, 0.0]]), covariance, torch.tensor(1.0))
    >>> moved = Moved(torch.tensor([[[3.0, 1.0]]]), torch.tensor([[1.0]]))
    >>> output_drift(moved, given, torch.tensor([[2.0]]))[0]
    tensor(20.)
    """
    gradient = OutputHold(given, node).gradient(moved)
    return half_product(gradient, moved), gradient


def half_product(gradient: Moved, moved: Moved) -> Tensor:
    """The value: a quadratic form is half of its gradient times where it is taken."""
    value = torch.dot(gradient.weight.flatten(), moved.weight.flatten())
    if moved.bias is not None and gradient.bias is not None:
        value = value + torch.dot(gradient.bias.flatten(), moved.bias.flatten())
    return value / 2
