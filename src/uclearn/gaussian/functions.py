"""One noisy weight, one noisy output: the two ways to sample, each as one autograd function.

Written by hand because the gradients need no more than the noise itself: autograd would keep and
multiply several tensors of the size of the weights (or of the activations).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


class _SampleWeight(Function):
    """w = mean + sigma * normals."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, sigma: Tensor, normals: Tensor) -> Tensor:
        ctx.save_for_backward(normals)
        ctx.sigma_shape = sigma.shape
        return torch.addcmul(mean, normals, sigma)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (normals,) = ctx.saved_tensors
        (gradient,) = gradients
        return gradient, (gradient * normals).sum_to_size(ctx.sigma_shape), None


class _AddNoise(Function):
    """y = mean + sigma * length * normals, all broadcast to the shape of `mean`."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, length: Tensor, sigma: Tensor, normals: Tensor) -> Tensor:
        ctx.save_for_backward(length, sigma, normals)
        return torch.addcmul(mean, normals * sigma, length)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, Tensor, None]:
        length, sigma, normals = ctx.saved_tensors
        (gradient,) = gradients
        felt = gradient * normals
        for_length = _sum_over_nodes(felt, sigma, length) if ctx.needs_input_grad[1] else None
        return gradient, for_length, _sum_over_outputs(felt, length, sigma), None


class _SumOfSquares(Function):
    """sum x^2 over one dimension; autograd would go through the inputs once more in backward."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, dim: int) -> Tensor:
        ctx.save_for_backward(inputs)
        ctx.dim = dim
        return inputs.square().sum(dim)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (inputs,) = ctx.saved_tensors
        return inputs * (2 * gradients[0]).unsqueeze(ctx.dim), None


def _sum_over_outputs(felt: Tensor, length: Tensor, sigma: Tensor) -> Tensor:
    """`(felt * length).sum_to_size(sigma.shape)`, as a matrix product where it is one."""
    if sigma.dim() == 1 and length.shape[-1] == 1:  # (..., nodes) of a linear layer
        return felt.reshape(-1, felt.shape[-1]).T @ length.flatten()
    if sigma.dim() > 1 and length.dim() == sigma.dim() + 1 and length.shape[1] == 1:  # channels
        positions = length.flatten(2).transpose(1, 2)  # (batch, positions, 1)
        return (felt.flatten(2) @ positions).sum(0).view_as(sigma)
    return (felt * length).sum_to_size(sigma.shape)


def _sum_over_nodes(felt: Tensor, sigma: Tensor, length: Tensor) -> Tensor:
    """`(felt * sigma).sum_to_size(length.shape)`, as a matrix product where it is one."""
    if sigma.dim() == 1 and length.shape[-1] == 1:
        return (felt @ sigma).unsqueeze(-1)
    if sigma.dim() > 1 and length.dim() == sigma.dim() + 1 and length.shape[1] == 1:
        return (sigma.view(1, 1, -1) @ felt.flatten(2)).view_as(length)
    return (felt * sigma).sum_to_size(length.shape)


def sample_weight(mean: Tensor, sigma: Tensor, normals: Tensor) -> Tensor:
    """A draw of the weights, `w = mean + sigma * normals`.

    Args:
        mean: (out, in, ...) the means.
        sigma: broadcastable to `mean`: one standard deviation per node.
        normals: like `mean`: standard normal numbers, shared by all examples of the batch.
    """
    if _in_transform():
        return torch.addcmul(mean, normals, sigma)
    drawn: Tensor = _SampleWeight.apply(mean, sigma, normals)  # type: ignore[no-untyped-call]
    return drawn


def add_noise(mean: Tensor, length: Tensor, sigma: Tensor, normals: Tensor) -> Tensor:
    """A draw of the outputs, `y = mean + sigma * length * normals`: what weight noise does
    to one example, with fresh noise for each (local reparameterisation).

    Args:
        mean: (batch, ..., out) the output under the mean weights.
        length: broadcastable to `mean`: the root of the sum of squares of the inputs that each
            output sees.
        sigma: broadcastable to `mean`: one standard deviation per node.
        normals: like `mean`: standard normal numbers.
    """
    if _in_transform():
        return torch.addcmul(mean, normals * sigma, length)
    drawn: Tensor = _AddNoise.apply(mean, length, sigma, normals)  # type: ignore[no-untyped-call]
    return drawn


def sum_of_squares(inputs: Tensor, dim: int) -> Tensor:
    """`inputs.square().sum(dim)`.

    >>> sum_of_squares(torch.tensor([[3.0, 4.0]]), 1)
    tensor([25.])
    """
    if _in_transform():
        return inputs.square().sum(dim)
    total: Tensor = _SumOfSquares.apply(inputs, dim)  # type: ignore[no-untyped-call]
    return total


def _in_transform() -> bool:
    # torch.func (vmap, grad, jvp) cannot look into functions written this way; the other way of
    # writing them costs more per call than a small layer
    return bool(torch._C._are_functorch_transforms_active())
