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

Of C only blocks on the diagonal are kept, no wider than a layer has nodes (`SeenInputs`). A
convolution has such a d_i for each position p of its kernel; what they are given has one m, and is
taken to vary independently from position to position:
(sum_p d_ip m + e_i)^2 + sum_p d_ip C d_ip^T.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Given(NamedTuple):
    """What a layer was given in earlier tasks: how it is distributed, as far as is kept."""

    mean: Tensor
    """(groups, inputs) E[x], in the units of `one`."""
    covariance: Tensor
    """(groups, blocks, width, width): of so many consecutive inputs each, the last block padded by
    zeros; or (1, inputs), of inputs that do not covary (words of an embedding)."""
    one: Tensor
    """(): what a bias is given; 1, unless inputs are measured in units of their own."""

    def times_covariance(self, moved: Tensor) -> Tensor:
        """`moved @ covariance`.

        Args:
            moved: (groups, rows, inputs)
        """
        if self.covariance.dim() == 2:
            return moved * self.covariance
        width = self.covariance.shape[-1]
        parts = [
            part @ block[:, : part.shape[-1], : part.shape[-1]]
            for part, block in zip(moved.split(width, -1), self.covariance.unbind(1), strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


class Moved(NamedTuple):
    """How far a layer has moved since the previous task."""

    weight: Tensor
    """(groups, nodes per group, positions, inputs)"""
    bias: Tensor | None
    """(groups, nodes per group)"""


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
    >>> moved = Moved(torch.tensor([[[[3.0, 1.0]]]]), torch.tensor([[1.0]]))
    >>> output_drift(moved, given, torch.tensor([[2.0]]))[0]
    tensor(20.)
    """
    gradient = output_gradient(moved, given, node)
    # a quadratic form is half of its gradient times where it is taken
    value = torch.dot(gradient.weight.flatten(), moved.weight.flatten())
    if moved.bias is not None and gradient.bias is not None:
        value = value + torch.dot(gradient.bias.flatten(), moved.bias.flatten())
    return value / 2, gradient


def output_gradient(moved: Moved, given: Given, node: Tensor) -> Moved:
    """The gradients of `output_drift` alone; arguments as there."""
    weight, bias = moved
    groups, nodes, positions = weight.shape[:3]
    rows = weight.flatten(1, 2)  # (groups, nodes * positions, inputs)
    felt = given.times_covariance(rows)
    mean = given.mean.unsqueeze(-1)  # (groups, inputs, 1)
    # (groups, nodes): the change of what is said on average
    steady = (rows @ mean).view(groups, nodes, positions).sum(2)
    if bias is not None:
        steady = steady + bias * given.one
    pull = node * steady
    felt.view(weight.shape).mul_(node[..., None, None])
    felt.baddbmm_(pull.repeat_interleave(positions, 1).unsqueeze(-1), mean.mT)
    return Moved(felt.view(weight.shape), None if bias is None else pull * given.one)
