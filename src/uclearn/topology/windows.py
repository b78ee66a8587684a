"""Operations that look at the neighbourhood of a position: pooling, filters, interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from uclearn.topology.call import Call, as_list
from uclearn.topology.sets import EMPTY, NodeSets


def pool(sets: NodeSets, call: Call) -> Any:
    """Union over each window; cells of the padding hold the empty set, which adds nothing."""
    spatial = _spatial(call)
    kernel = _repeat(call.data["kernel_size"], spatial)
    windowed = _slide(
        sets,
        call.numbers["self"],
        sizes=call.result.shape[-spatial:],
        kernel=kernel,
        stride=_repeat(call.data["stride"] or kernel, spatial),
        padding=_repeat(call.data["padding"], spatial),
        dilation=_repeat(call.data.get("dilation", 1), spatial),
    )
    return call.every_output(windowed)


def adaptive_pool(sets: NodeSets, call: Call) -> Any:
    """Union over windows that share a dimension out evenly."""
    numbers, spatial = call.numbers["self"], _spatial(call)
    for dim in range(numbers.dim() - spatial, numbers.dim()):
        size, wanted = numbers.shape[dim], call.result.shape[dim]
        cells = []
        for cell in range(wanted):
            start, stop = cell * size // wanted, -(-(cell + 1) * size // wanted)
            cells.append(sets.merge(numbers.narrow(dim, start, stop - start), (dim,)))
        numbers = torch.stack(cells, dim=dim)
    return call.every_output(numbers)


def filtered(sets: NodeSets, call: Call) -> Any:
    """A convolution that is no layer (a blur): union over each window and group of channels, and
    over the filter, should nodes have made it."""
    numbers, weight = call.numbers["input"], call.numbers["weight"]
    spatial, groups = weight.dim() - 2, call.data["groups"]
    channels = numbers.dim() - spatial - 1
    kernel = list(weight.shape[2:])
    dilation = _repeat(call.data["dilation"], spatial)
    grouped = sets.merge(numbers.unflatten(channels, (groups, -1)), (channels + 1,))
    windowed = _slide(
        sets,
        grouped,
        sizes=call.result.shape[-spatial:],
        kernel=kernel,
        stride=_repeat(call.data["stride"], spatial),
        padding=_padding(call.data["padding"], kernel, dilation),
        dilation=dilation,
    )
    result = windowed.repeat_interleave(weight.shape[0] // groups, dim=channels)
    for made in (sets.merge(weight, range(1, weight.dim())), call.numbers["bias"]):
        if made is not None:
            result = sets.union(result, made.view(-1, *[1] * spatial))
    return result


def resample(sets: NodeSets, call: Call) -> Any:
    """Interpolation mixes positions of one channel: each position may see them all."""
    source: Tensor = call.numbers["input" if "input" in call.numbers else "self"]
    return sets.merge(source, range(2, source.dim()), keepdim=True).expand(call.result.shape)


def _slide(
    sets: NodeSets,
    numbers: Tensor,
    *,
    sizes: Sequence[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> Tensor:
    """Union over the windows of the last dimensions, one dimension after the other."""
    first = numbers.dim() - len(kernel)
    for axis, (size, width, step, before, gap) in enumerate(
        zip(sizes, kernel, stride, padding, dilation, strict=True)
    ):
        dim, reach = first + axis, (width - 1) * gap + 1
        needed = (size - 1) * step + reach  # ceil mode may look past the end
        after = max(needed - before - numbers.shape[dim], 0)
        padded = _pad_dim(numbers, dim, before, after)
        windows = padded.unfold(dim, reach, step).narrow(dim, 0, size)
        numbers = sets.merge(windows[..., ::gap], (-1,))
    return numbers


def _pad_dim(numbers: Tensor, dim: int, before: int, after: int) -> Tensor:
    behind = [0, 0] * (numbers.dim() - 1 - dim)  # sizes are given from the last dimension on
    return torch.nn.functional.pad(numbers, [*behind, before, after], value=EMPTY)


def _padding(given: str | int | list[int], kernel: list[int], dilation: list[int]) -> list[int]:
    if given == "same":  # the odd cell goes behind
        return [gap * (width - 1) // 2 for width, gap in zip(kernel, dilation, strict=True)]
    return [0] * len(kernel) if isinstance(given, str) else _repeat(given, len(kernel))


def _spatial(call: Call) -> int:
    return int(call.name.split("pool")[1][0])  # the 2 of max_pool2d_with_indices


def _repeat(value: int | Sequence[int], times: int) -> list[int]:
    values = as_list(value)
    return values * times if len(values) == 1 else values
