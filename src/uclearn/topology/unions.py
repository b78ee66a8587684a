"""Operations that give the union of many places: reductions, products of matrices, attention and
losses; pooling, filters and interpolation, which look at the neighbourhood of a position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from uclearn.topology.sets import EMPTY, Call, NodeSets, as_list

FACTORS = {
    "matmul": ("self", "other"),
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "mv": ("self", "vec"),
    "dot": ("self", "tensor"),
    "vdot": ("self", "other"),
    "addmm": ("mat1", "mat2"),
    "addmv": ("mat", "vec"),
    "baddbmm": ("batch1", "batch2"),
    "_sparse_addmm": ("mat1", "mat2"),
    "linear": ("input", "weight"),
    "cdist": ("x1", "x2"),
}
"""What each product of matrices calls its factors."""
_WITH_SUMMAND = ("addmm", "addmv", "baddbmm", "_sparse_addmm")


def reduce(sets: NodeSets, call: Call) -> Any:
    """Union over the dimensions that are reduced, of values as of their indices."""
    numbers = call.numbers["self"]
    if "other" in call.numbers:  # max(a, b): not a reduction
        return sets.union(numbers, call.numbers["other"])
    dims = call.data.get("dim")
    axes = range(numbers.dim()) if dims in (None, []) else as_list(dims)
    merged = sets.merge(numbers, axes, keepdim=bool(call.data.get("keepdim", False)))
    return call.every_output(merged)


def select_largest(sets: NodeSets, call: Call) -> Any:
    """`topk`: each of the k comes from anywhere in its dimension."""
    merged = sets.merge(call.numbers["self"], (call.data["dim"],), keepdim=True)
    return call.every_output(merged.expand(call.result.shape))


def matrix_product(sets: NodeSets, call: Call) -> Any:
    """Union over the summed dimension of both factors, and of what is added. Shares of attention
    only weigh what they are multiplied with, as `attention` has it."""
    left, right = _weighed(sets, *(call.numbers[factor] for factor in FACTORS[call.name]))
    if call.name in ("linear", "cdist"):  # these compare rows with rows
        right = right.mT
    rows = sets.merge(left, (-1,))  # what each row of the left factor carries
    columns = sets.merge(right, (-2,) if right.dim() > 1 else (-1,))
    if right.dim() > 1:
        rows = rows.unsqueeze(-1)
    if left.dim() > 1 and right.dim() > 1:
        columns = columns.unsqueeze(-2)
    result = sets.union(rows, columns)
    added = call.numbers["self"] if call.name in _WITH_SUMMAND else call.numbers.get("bias")
    result = result if added is None else sets.union(result, added)
    return result.expand(call.result.shape)


def _weighed(sets: NodeSets, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Both factors, without the nodes of the one that holds shares of the other."""
    shares = sets.are_shares(left), sets.are_shares(right)
    if shares == (True, False) and bool((right != EMPTY).any()):
        return sets.blank(()).expand(left.shape), right
    if shares == (False, True) and bool((left != EMPTY).any()):
        return left, sets.blank(()).expand(right.shape)
    return sets.unmarked(left), sets.unmarked(right)


def attention(sets: NodeSets, call: Call) -> Any:
    """The features of the values, from any position."""
    shape, values = call.result.shape, call.numbers["value"]
    merged = sets.merge(values, (-2,), keepdim=True)
    if call.data["enable_gqa"]:  # several heads of queries share one of values
        merged = merged.repeat_interleave(shape[-3] // values.shape[-3], dim=-3)
    return merged.expand(shape)


def gated(sets: NodeSets, call: Call) -> Any:
    """One half is the gate of the other."""
    value, gate = call.numbers["self"].chunk(2, call.data["dim"])
    return sets.union(value, gate)


def loss(sets: NodeSets, call: Call) -> Any:
    """Everything that is compared."""
    total: Tensor = sets.blank(())
    for operand in call.operands():
        total = sets.union(total, sets.merge(operand, range(operand.dim())))
    return call.every_output(total.expand(call.result.shape))


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
