"""Both ways to sample, on a CPU, with one pass over weights or outputs: `uclearn.native` does it.

Each function here does what stands in `functions`, from rho on and to rho's gradient, or says None
where it cannot. Who differentiates a second time is served by torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from uclearn.gaussian.functions import in_transform
from uclearn.gaussian.noise import Noise, Numbers
from uclearn.native import calls
from uclearn.sizes import TINY_DRAW


class _Draw(Function):
    """w = mean + softplus(rho) * normals."""

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, rho: Tensor, normals: Numbers, dtype: torch.dtype
    ) -> Tensor:
        ctx.save_for_backward(rho)
        ctx.normals = normals  # constants: a window on a table
        return calls.draw(mean, rho, normals.address, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        (rho,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            sigma = F.softplus(rho).view(-1, *[1] * (gradient.dim() - 1))
            noise = sigma * ctx.normals.view(gradient.shape)
            return gradient.float(), *_differentiably(noise, gradient, rho), None, None
        return *calls.draw_backward(gradient.contiguous(), rho, ctx.normals.address), None, None


class _LocalLinear(Function):
    """y = W x + b + softplus(rho) * |x| * normals: layer and noise at once: for autograd one step
    to record, and no two gradients of the input to add up."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None, rho: Tensor, normals: Numbers
    ) -> Tensor:
        dtype = normals.source.dtype  # in which they are multiplied
        given: tuple[Tensor, Tensor, Tensor | None] = (input, weight, bias)
        if dtype is not torch.float32:  # in a small network each call counts
            given = (input.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))
        output = F.linear(*given)
        if (
            output._is_view()
        ):  # of sequences it is, and whoever is next could not change it in place
            output = torch.ops.aten._unsafe_view(output, output.shape)
        lengths = calls.local(output, given[0], rho, normals.address)
        # converted ones are kept, too, so that nobody converts them again
        ctx.save_for_backward(input, weight, bias, rho, *given[:2], lengths)
        ctx.normals = normals
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        input, weight, bias, rho, x, w, lengths = ctx.saved_tensors
        if torch.is_grad_enabled():
            length = torch.linalg.vector_norm(input, dim=-1, keepdim=True)
            noise = F.softplus(rho) * length * ctx.normals.view(gradient.shape)
            output = F.linear(input, weight, bias) + noise
            return *_differentiably(output, gradient, input, weight, bias, rho), None
        gradient = gradient.contiguous()
        rows, normals = gradient.view(-1, gradient.shape[-1]), ctx.normals.address
        for_input, for_weight, for_bias = ctx.needs_input_grad[:3]
        to_input = gradient @ w if for_input else None
        to_rho = calls.local_backward(gradient, x, rho, normals, lengths, to_input)
        to_weight = rows.t() @ x.view(-1, x.shape[-1]) if for_weight else None
        found: tuple[Tensor | None, ...]
        found = (to_input, to_weight, rows.sum(0) if for_bias else None)
        if gradient.dtype is not torch.float32:
            kinds = (input.dtype, weight.dtype, weight.dtype)
            pairs = zip(found, kinds, strict=True)
            found = tuple(None if each is None else each.to(kind) for each, kind in pairs)
        return *found, to_rho, None


class _LocalConv(Function):
    """y += softplus(rho) * length of what each output sees * normals, in place."""

    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, input: Tensor, rho: Tensor, conv: calls.LocalConv
    ) -> Tensor:
        ctx.save_for_backward(input, rho, conv.add_noise(mean, input, rho))
        ctx.conv = conv
        ctx.mark_dirty(mean)
        return mean

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        input, rho, lengths = ctx.saved_tensors
        conv: calls.LocalConv = ctx.conv
        if torch.is_grad_enabled():
            noise = F.softplus(rho).view(-1, 1, 1) * _conv_length(input, conv.window)
            noise = noise * conv.normals_like(gradient)
            return gradient, *_differentiably(noise, gradient, input, rho), None
        gradient = gradient.contiguous(memory_format=conv.layout)
        to_input = torch.empty_like(input) if ctx.needs_input_grad[1] else None
        to_rho = conv.gradients(gradient, input, lengths, to_input)
        return gradient, to_input, to_rho, None


def _conv_length(input: Tensor, window: calls.Window) -> Tensor:
    squares = input.float().square().sum(1, keepdim=True)
    box = squares.new_ones((1, 1, *window.kernel))
    energy = F.conv2d(squares, box, None, window.stride, window.padding, window.dilation)
    return energy.clamp_min(torch.finfo(energy.dtype).tiny).sqrt()


def _differentiably(
    noisy: Tensor, gradient: Tensor, *inputs: Tensor | None
) -> Iterator[Tensor | None]:
    """The gradients of what something noisy was made of, themselves to be differentiated
    (create_graph=True)."""
    wanted = [each for each in inputs if each is not None and each.requires_grad]
    found = torch.autograd.grad(noisy, wanted, gradient.to(noisy.dtype), create_graph=True)
    rest = iter(found)
    return (next(rest) if each is not None and each.requires_grad else None for each in inputs)


def _elsewhere(noise: Noise) -> bool:
    """Who brings noise of another kind is asked for it by name."""
    return type(noise) is not Noise or in_transform()


def _multiplied_in() -> torch.dtype:
    """The precision of products of float32."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


def draw(mean: Tensor, rho: Tensor, noise: Noise) -> Tensor | None:
    """A draw of the weights, in the precision in which they are multiplied: under autocast to
    bfloat16 nobody needs to convert them again. None: not here, and nothing was drawn.

    Args:
        mean: (nodes, ...) the means.
        rho: (nodes,)
        noise: for normal numbers like `mean`.
    """
    if mean.numel() <= TINY_DRAW or _elsewhere(noise) or not calls.usable(mean, rho):
        return None
    normals = noise.numbers(mean.numel(), torch.float32, mean.device)
    dtype = torch.bfloat16 if _multiplied_in() is torch.bfloat16 else torch.float32
    drawn: Tensor = _Draw.apply(mean, rho, normals, dtype)  # type: ignore[no-untyped-call]
    return drawn


def local_linear(
    input: Tensor, weight: Tensor, bias: Tensor | None, rho: Tensor, noise: Noise
) -> Tensor | None:
    """A draw of the outputs of a linear layer, under autocast to bfloat16 in that. None: not here,
    and nothing was drawn.

    Args:
        input: (..., features)
        weight: (nodes, features) the means.
        bias: (nodes,)
        rho: (nodes,)
        noise: for normal numbers like the outputs.
    """
    means = (weight,) if bias is None else (weight, bias)
    if _elsewhere(noise) or not (calls.usable(rho, *means) and calls.usable_activations(input)):
        return None
    if input.numel() == 0:
        return None
    dtype = _multiplied_in()
    if dtype is not torch.bfloat16 and not dtype is input.dtype is torch.float32:
        return None
    size = input.numel() // input.shape[-1] * rho.numel()
    normals = noise.numbers(size, dtype, input.device)
    drawn: Tensor = _LocalLinear.apply(input, weight, bias, rho, normals)  # type: ignore[no-untyped-call]
    return drawn


def local_conv(
    mean: Tensor, input: Tensor, rho: Tensor, noise: Noise, window: calls.Window
) -> Tensor | None:
    """A draw of the outputs of a convolution over two dimensions, without groups and with zeros
    around the input. None: not here, and nothing was drawn.

    Args:
        mean: (batch, nodes, height, width) the outputs under the mean weights; it is given away.
        input: (batch, channels, height, width) that they were made of.
        rho: (nodes,)
        noise: for normal numbers like `mean`.
        window: of the convolution.
    """
    if _elsewhere(noise) or mean.dim() != 4 or mean.numel() == 0 or not calls.usable(rho):
        return None
    last = not (mean.is_contiguous() and input.is_contiguous())
    if not calls.usable_activations(mean, input, last=last):
        return None
    if mean._base is not None or (mean.is_leaf and mean.requires_grad):
        mean = mean.clone()  # what is seen elsewhere is not ours to write to
    pieces = noise.pieces(mean.numel(), mean.dtype, mean.device)
    conv = calls.LocalConv(mean, input, window, pieces, last)
    drawn: Tensor = _LocalConv.apply(mean, input, rho, conv)  # type: ignore[no-untyped-call]
    return drawn
