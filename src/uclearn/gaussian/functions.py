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

    generate_vmap_rule = True

    @staticmethod
    def forward(mean: Tensor, sigma: Tensor, normals: Tensor) -> Tensor:
        return torch.addcmul(mean, normals, sigma)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, sigma, normals = inputs
        ctx.save_for_backward(normals)
        ctx.sigma_shape = sigma.shape

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (normals,) = ctx.saved_tensors
        (gradient,) = gradients
        return gradient, (gradient * normals).sum_to_size(ctx.sigma_shape), None


class _AddNoise(Function):
    """y = mean + sigma * sqrt(energy) * normals, all broadcast to the shape of `mean`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(mean: Tensor, energy: Tensor, sigma: Tensor, normals: Tensor) -> Tensor:
        return torch.addcmul(mean, normals * sigma, energy.sqrt())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, energy, sigma, normals = inputs
        ctx.save_for_backward(energy, sigma, normals)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, Tensor, None]:
        energy, sigma, normals = ctx.saved_tensors
        (gradient,) = gradients
        felt = gradient * normals
        length = energy.sqrt()
        for_sigma = (felt * length).sum_to_size(sigma.shape)
        for_energy = None
        if ctx.needs_input_grad[1]:
            for_length = (felt * sigma).sum_to_size(energy.shape)
            # where no input is active the length has a kink; 0 is a subgradient there
            for_energy = torch.where(energy > 0, for_length / (2 * length), 0.0)
        return gradient, for_energy, for_sigma, None


def sample_weight(mean: Tensor, sigma: Tensor, normals: Tensor) -> Tensor:
    """A draw of the weights, `w = mean + sigma * normals`.

    Args:
        mean: (out, in, ...) the means.
        sigma: broadcastable to `mean`: one standard deviation per node.
        normals: like `mean`: standard normal numbers, shared by all examples of the batch.
    """
    drawn: Tensor = _SampleWeight.apply(mean, sigma, normals)  # type: ignore[no-untyped-call]
    return drawn


def add_noise(mean: Tensor, energy: Tensor, sigma: Tensor, normals: Tensor) -> Tensor:
    """A draw of the outputs, `y = mean + sigma * sqrt(energy) * normals`: what weight noise does
    to one example, with fresh noise for each (local reparameterisation).

    Args:
        mean: (batch, ..., out) the output under the mean weights.
        energy: broadcastable to `mean`: the sum of the squared inputs that each output sees.
        sigma: broadcastable to `mean`: one standard deviation per node.
        normals: like `mean`: standard normal numbers.
    """
    drawn: Tensor = _AddNoise.apply(mean, energy, sigma, normals)  # type: ignore[no-untyped-call]
    return drawn
