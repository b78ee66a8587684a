"""One noisy weight, one noisy output: the two ways to sample, each as one autograd function.

Written by hand because the gradients need no more than the noise itself: autograd would keep and
multiply several tensors of the size of the weights (or of the activations). Where those are small,
a function written by hand costs more than it saves, and autograd does it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from uclearn.gaussian.noise import Rows
from uclearn.sizes import ACTIVATION_PIECE, SMALL_DRAW


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
    """y = mean + sigma * length * normals, in place, a few rows at a time: what is worked on stays
    in the cache, and nothing of the size of the activations is made."""

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, length: Tensor, sigma: Tensor, normals: Tensor | Rows
    ) -> Tensor:
        ctx.save_for_backward(length, sigma)
        ctx.normals = normals  # constants: windows on a table
        ctx.mark_dirty(mean)
        scratch = _Scratch()
        for rows in _few_rows(mean):
            noise = scratch.product(normals[rows], sigma)
            mean[rows].addcmul_(noise, length[rows])
        return mean

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, Tensor, None]:
        (gradient,) = gradients
        length, sigma = ctx.saved_tensors
        differentiated = torch.is_grad_enabled()  # with create_graph=True
        few = [slice(None)] if differentiated else _few_rows(gradient)
        scratch = _Scratch()
        for_length, for_sigma = [], []
        for rows in few:
            normals = ctx.normals[rows]
            some = gradient[rows]
            felt = some * normals if differentiated else scratch.product(some, normals)
            for_sigma.append(_sum_over_outputs(felt, length[rows], sigma))
            if ctx.needs_input_grad[1]:
                for_length.append(_sum_over_nodes(felt, sigma, length[rows]))
        to_length = torch.cat(for_length) if for_length else None
        return gradient, to_length, torch.stack(for_sigma).sum(0), None


class _SumOfSquares(Function):
    """sum x^2 over one dimension; autograd would go through the inputs once more in backward."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, dim: int) -> Tensor:
        ctx.save_for_backward(inputs)
        ctx.dim = dim
        if dim % inputs.dim() == 0:
            return inputs.square().sum(dim)
        scratch = _Scratch()
        few = (inputs[rows] for rows in _few_rows(inputs))
        sums = [scratch.product(some, some).sum(dim) for some in few]
        return sums[0] if len(sums) == 1 else torch.cat(sums)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (inputs,) = ctx.saved_tensors
        return inputs * (2 * gradients[0]).unsqueeze(ctx.dim), None


class _Scratch:
    """Room for the product of a few rows, used again for the next ones."""

    def __init__(self) -> None:
        self.room: Tensor | None = None

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        if self.room is None:
            self.room = left * right
            return self.room
        return torch.mul(left, right, out=self.room[: len(left)])


def _few_rows(tensor: Tensor) -> list[slice]:
    """Slices of the first dimension that hold about `ACTIVATION_PIECE` elements each on a CPU;
    elsewhere, and where there is nothing, all of it."""
    rows, size = len(tensor), tensor.numel()
    if size == 0 or tensor.device.type != "cpu":
        return [slice(None)]
    step = max(1, ACTIVATION_PIECE * rows // size)
    return [slice(start, start + step) for start in range(0, rows, step)]


def _sum_over_outputs(felt: Tensor, length: Tensor, sigma: Tensor) -> Tensor:
    """`(felt * length).sum_to_size(sigma.shape)`, as a matrix product where it is one."""
    if sigma.dim() == 1 and length.shape[-1] == 1:  # (..., nodes) of a linear layer
        return felt.reshape(-1, felt.shape[-1]).T @ length.flatten()
    if sigma.dim() > 1 and length.dim() == sigma.dim() + 1 and length.shape[1] == 1:  # channels
        positions = length.flatten(2).transpose(1, 2)  # (batch, positions, 1)
        return torch.bmm(felt.flatten(2), positions).sum(0).view_as(sigma)
    return (felt * length).sum_to_size(sigma.shape)


def _sum_over_nodes(felt: Tensor, sigma: Tensor, length: Tensor) -> Tensor:
    """`(felt * sigma).sum_to_size(length.shape)`, as a matrix product where it is one."""
    if sigma.dim() == 1 and length.shape[-1] == 1:
        return (felt @ sigma).unsqueeze(-1)
    if sigma.dim() > 1 and length.dim() == sigma.dim() + 1 and length.shape[1] == 1:
        row = sigma.view(1, 1, -1).expand(len(felt), -1, -1)
        return torch.bmm(row, felt.flatten(2)).view_as(length)
    return (felt * sigma).sum_to_size(length.shape)


def sample_weight(mean: Tensor, sigma: Tensor, normals: Tensor) -> Tensor:
    """A draw of the weights, `w = mean + sigma * normals`.

    Args:
        mean: (out, in, ...) the means.
        sigma: broadcastable to `mean`: one standard deviation per node.
        normals: like `mean`: standard normal numbers, shared by all examples of the batch.
    """
    if mean.numel() <= SMALL_DRAW or in_transform():
        return torch.addcmul(mean, normals, sigma)
    drawn: Tensor = _SampleWeight.apply(mean, sigma, normals)  # type: ignore[no-untyped-call]
    return drawn


def add_noise(mean: Tensor, length: Tensor, sigma: Tensor, normals: Tensor | Rows) -> Tensor:
    """A draw of the outputs, `y = mean + sigma * length * normals`: what weight noise does
    to one example, with fresh noise for each (local reparameterisation).

    Args:
        mean: (batch, ..., out) the output under the mean weights. It is given away: where it is
            large, the noise is added in place.
        length: (batch, ...) broadcastable to `mean`: the root of the sum of squares of the inputs
            that each output sees.
        sigma: broadcastable to one example of `mean`: one standard deviation per node.
        normals: like `mean`: standard normal numbers.
    """
    by_rows = sigma.dim() < mean.dim() and len(length) == len(mean)
    if mean.numel() <= SMALL_DRAW or not by_rows or in_transform():
        whole = normals if isinstance(normals, Tensor) else normals[:]
        return torch.addcmul(mean, whole * sigma, length)
    if mean._base is not None or (mean.is_leaf and mean.requires_grad):
        mean = mean.clone()  # what is seen elsewhere is not ours to write to
    drawn: Tensor = _AddNoise.apply(mean, length, sigma, normals)  # type: ignore[no-untyped-call]
    return drawn


def sum_of_squares(inputs: Tensor, dim: int) -> Tensor:
    """`inputs.square().sum(dim)`.

    >>> sum_of_squares(torch.tensor([[3.0, 4.0]]), 1)
    tensor([25.])
    """
    if in_transform():
        return inputs.square().sum(dim)
    total: Tensor = _SumOfSquares.apply(inputs, dim)  # type: ignore[no-untyped-call]
    return total


def in_transform() -> bool:
    """Whether torch.func or a compiler looks on. The former (vmap, grad, jvp) cannot look into
    functions written this way, and the other way of writing them costs more per call than a small
    layer; the latter does as well by itself."""
    return bool(torch._C._are_functorch_transforms_active()) or torch.compiler.is_compiling()
