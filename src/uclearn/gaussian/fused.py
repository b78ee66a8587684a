"""Both ways to sample, on a CPU, with one pass over weights or outputs: `uclearn.native` does it.

Each function here does what stands in `functions`, from rho on and to rho's gradient, or says None
where it cannot. Who differentiates a second time is served by torch.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from uclearn.gaussian.functions import in_transform
from uclearn.gaussian.noise import Noise
from uclearn.native import calls


class _Draw(Function):
    """w = mean + softplus(rho) * normals."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, rho: Tensor, normals: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(rho)
        ctx.normals = normals  # constants: a window on a table
        return calls.draw(mean, rho, normals, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (gradient,) = gradients
        (rho,) = ctx.saved_tensors
        if _torch_must(gradient):
            gradient = gradient.float()
            felt = (gradient * ctx.normals.view_as(gradient)).flatten(1).sum(1)
            return gradient, felt * rho.sigmoid(), None, None
        return *calls.draw_backward(gradient, rho, ctx.normals), None, None


class _Local(Function):
    """y += softplus(rho) * |x| * normals, in place, for a linear layer."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, input: Tensor, rho: Tensor, normals: Tensor) -> Tensor:
        # lengths of the inputs, and sigma
        lengths = calls.local(mean, input, rho, normals)
        ctx.save_for_backward(input, rho, lengths)
        ctx.normals = normals
        ctx.mark_dirty(mean)
        return mean

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, Tensor, None]:
        (gradient,) = gradients
        input, rho, lengths = ctx.saved_tensors
        if _torch_must(gradient):
            normals = ctx.normals.view_as(gradient)
            return gradient, *_local_gradients(gradient, input, rho, normals), None
        to_input = torch.empty_like(input) if ctx.needs_input_grad[1] else None
        to_rho = calls.local_backward(gradient, input, rho, ctx.normals, lengths, to_input)
        return gradient, to_input, to_rho, None


def _local_gradients(
    gradient: Tensor, input: Tensor, rho: Tensor, normals: Tensor
) -> tuple[Tensor, Tensor]:
    felt = gradient.float() * normals
    length = torch.linalg.vector_norm(input.float(), dim=-1, keepdim=True)
    along = (felt * F.softplus(rho)).sum(-1, keepdim=True) / length
    to_rho = (felt * length).view(-1, len(rho)).sum(0) * rho.sigmoid()
    return (input * along.masked_fill(length == 0, 0)).to(input.dtype), to_rho


def _torch_must(gradient: Tensor) -> bool:
    """The gradient is itself to be differentiated (create_graph=True), or lies oddly in memory."""
    return torch.is_grad_enabled() or not gradient.is_contiguous() or type(gradient) is not Tensor


def draw(mean: Tensor, rho: Tensor, noise: Noise) -> Tensor | None:
    """A draw of the weights, in the precision in which they are multiplied: under autocast to
    bfloat16 nobody needs to convert them again. None: not here, and nothing was drawn.

    Args:
        mean: (nodes, ...) the means.
        rho: (nodes,)
        noise: for normal numbers like `mean`.
    """
    if not calls.usable(mean, rho) or in_transform():
        return None
    half = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.bfloat16
    normals = noise.flat(mean.numel(), torch.float32, mean.device)
    dtype = torch.bfloat16 if half else torch.float32
    drawn: Tensor = _Draw.apply(mean, rho, normals, dtype)  # type: ignore[no-untyped-call]
    return drawn


def local(mean: Tensor, input: Tensor, rho: Tensor, noise: Noise) -> Tensor | None:
    """A draw of the outputs of a linear layer. None: not here, and nothing was drawn.

    Args:
        mean: (..., nodes) the outputs under the mean weights; it is given away.
        input: (..., features) that they were made of.
        rho: (nodes,)
        noise: for normal numbers like `mean`.
    """
    if not (calls.usable(rho) and calls.usable(mean, input, half=True)) or in_transform():
        return None
    if mean._base is not None or (mean.is_leaf and mean.requires_grad):
        mean = mean.clone()  # what is seen elsewhere is not ours to write to
    normals = noise.flat(mean.numel(), mean.dtype, mean.device)
    drawn: Tensor = _Local.apply(mean, input, rho, normals)  # type: ignore[no-untyped-call]
    return drawn
