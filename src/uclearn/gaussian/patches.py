"""What a convolution sees at each place, for all kinds of them alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor


def padded(layer: Any, input: Tensor) -> Tensor:
    """The input of a convolution with what stands around it.

    Args:
        layer: the convolution.
        input: (examples, channels, *positions)
    """
    if layer.padding_mode == "zeros":
        return F.pad(input, _zeros_around(layer))
    return F.pad(input, layer._reversed_padding_repeated_twice, mode=layer.padding_mode)


def _zeros_around(layer: Any) -> list[int]:
    """As the convolution reads them when it runs: `padding` may have been set since it was made."""
    if isinstance(layer.padding, str):
        same = layer.padding == "same"
        total = [g * (k - 1) * same for g, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        return [side for t in reversed(total) for side in (t // 2, t - t // 2)]
    return [size for size in reversed(layer.padding) for _ in range(2)]


def spread(layer: Any, input: Tensor) -> Tensor:
    """The input of a transposed convolution with zeros between and around: with its kernel turned
    round, it is a convolution of that, place by place."""
    length = [(n - 1) * step + 1 for n, step in zip(input.shape[2:], layer.stride, strict=True)]
    apart = input.new_zeros(*input.shape[:2], *length)
    every = [slice(None, None, step) for step in layer.stride]
    apart[(slice(None), slice(None), *every)] = input
    sides = zip(layer.kernel_size, layer.dilation, layer.padding, layer.output_padding, strict=True)
    around = [((k - 1) * gap - pad, (k - 1) * gap - pad + more) for k, gap, pad, more in sides]
    return F.pad(apart, [side for pair in reversed(around) for side in pair])


def windows(
    values: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """(examples, channels, *places, *kernel), a view: what each place sees.

    >>> import torch
    >>> windows(torch.arange(5).view(1, 1, 5), [2], [2], [1])[0, 0]
    tensor([[0, 1],
            [2, 3]])
    """
    for dim, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True), 2):
        values = values.unfold(dim, (size - 1) * gap + 1, step)[..., ::gap]
    return values
