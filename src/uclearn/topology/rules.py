"""What each kind of operation does to the identity of nodes.

The rules, in one place:

- elementwise functions pass identities on; two operands (a sum, a product, a gate) give the union;
- views, permutes, slices, concatenations and paddings move identities as they move data;
- pooling gives the union over its window, a reduction the union over its dimensions;
- normalisation, softmax and dropout pass on feature by feature;
- attention passes on the features of its values;
- a matrix product of two activations gives the union over the summed dimension of both.

Anything else is refused by name, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from uclearn.topology.sets import EMPTY, NodeSets

Bound = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One operation as it was called, seen twice: with its data and with identities instead."""

    operation: OpOverload
    data: Bound
    """Its arguments by name, in the order of its schema."""
    numbers: Bound
    """The same, with a tensor of set numbers in place of every tensor."""
    output: Any


Rule = Callable[[NodeSets, Call], Any]
"""What an operation does to identities: set numbers shaped like its output."""


def rule_for(operation: OpOverload) -> Rule | None:
    """The rule that this operation follows, or None if there is none."""
    name = operation.overloadpacket.__name__
    named = _RULES.get(name.removesuffix("_") if name.endswith("_") else name)
    if named is not None:
        return named
    if torch.Tag.pointwise in operation.tags:
        return _elementwise
    if operation.is_view:
        return _move
    return None


def _tensors(bound: Bound) -> list[Tensor]:
    return [value for value in bound.values() if isinstance(value, Tensor)]


def _pass_on(sets: NodeSets, call: Call) -> Any:
    first = _tensors(call.numbers)[0]
    if isinstance(call.output, Tensor):
        return first.clone()
    return tuple(  # a normalisation may return its statistics too: they are nobody's feature
        first.clone() if part.shape == first.shape else torch.zeros(part.shape, dtype=torch.int64)
        for part in call.output
    )


def _elementwise(sets: NodeSets, call: Call) -> Any:
    result = torch.zeros(call.output.shape, dtype=torch.int64)
    for operand in _tensors(call.numbers):
        result = sets.union(result, operand)
    return result.clone()  # a broadcast result must own its memory: it may be written to later


def _move(sets: NodeSets, call: Call) -> Any:
    """Do to the identities what was done to the data; indices stay what they are."""
    arguments = dict(call.data)
    for name in ("self", "tensors", "src", "values"):
        if name in arguments:
            arguments[name] = call.numbers[name]
    return call.operation(**arguments)


def _pad(sets: NodeSets, call: Call) -> Any:
    mode = call.numbers.get("mode", "constant")
    moved = call.numbers["self"].double()  # some paddings exist for floats only; exact below 2**53
    padded = torch.nn.functional.pad(moved, list(call.numbers["pad"]), mode=mode)
    return padded.to(torch.int64)


def _overwrite(sets: NodeSets, call: Call) -> Any:
    source = call.numbers.get("src", call.numbers.get("value"))
    if isinstance(source, Tensor):
        return source.expand(call.output.shape)
    return torch.zeros(call.output.shape, dtype=torch.int64)


def _reduce(sets: NodeSets, call: Call) -> Any:
    if "other" in call.numbers:  # max(a, b): not a reduction
        return _elementwise(sets, call)
    dims = call.numbers.get("dim")
    axes = range(call.numbers["self"].dim()) if dims in (None, []) else _as_list(dims)
    merged = sets.merge(
        call.numbers["self"], axes, keepdim=bool(call.numbers.get("keepdim", False))
    )
    return merged if isinstance(call.output, Tensor) else tuple(merged for _ in call.output)


def _gated(sets: NodeSets, call: Call) -> Any:
    value, gate = call.numbers["self"].chunk(2, call.numbers["dim"])
    return sets.union(value, gate).clone()


def _attention(sets: NodeSets, call: Call) -> Any:
    return sets.merge(call.numbers["value"], (-2,), keepdim=True).expand(call.output.shape).clone()


def _matrix_product(sets: NodeSets, call: Call) -> Any:
    left, right = (
        call.numbers["self"],
        call.numbers.get("other", call.numbers.get("mat2", call.numbers.get("vec2"))),
    )
    rows = sets.merge(left, (-1,))  # what each row of the left factor carries
    columns = sets.merge(right, (-2,) if right.dim() > 1 else (-1,))
    if left.dim() > 1 and right.dim() > 1:
        rows, columns = rows.unsqueeze(-1), columns.unsqueeze(-2)
    elif right.dim() > 1:
        rows = rows.unsqueeze(-1)
    elif left.dim() > 1:
        columns = columns.unsqueeze(-1)
    return sets.union(rows, columns).expand(call.output.shape).clone()


def _pool(sets: NodeSets, call: Call) -> Any:
    """Union over each window; cells of the padding hold the empty set, which adds nothing."""
    main = call.output if isinstance(call.output, Tensor) else call.output[0]
    numbers, spatial = call.numbers["self"], len(_as_list(call.numbers["kernel_size"]))
    spatial = max(spatial, int(call.operation.overloadpacket.__name__.split("pool")[1][0]))
    kernel = _repeat(call.numbers["kernel_size"], spatial)
    stride = _repeat(call.numbers.get("stride") or kernel, spatial)
    padding = _repeat(call.numbers.get("padding", 0), spatial)
    dilation = _repeat(call.numbers.get("dilation", 1), spatial)
    sizes = main.shape[-spatial:]
    for axis in range(spatial):
        dim = numbers.dim() - spatial + axis
        reach = (kernel[axis] - 1) * dilation[axis] + 1
        needed = (sizes[axis] - 1) * stride[axis] + reach  # ceil mode may look past the end
        before, length = padding[axis], numbers.shape[dim]
        after = max(needed - before - length, 0)
        numbers = _pad_dim(numbers, dim, before, after)
        windows = numbers.unfold(dim, reach, stride[axis]).narrow(dim, 0, sizes[axis])
        numbers = sets.merge(windows[..., :: dilation[axis]], (-1,))
    return numbers if isinstance(call.output, Tensor) else (numbers, numbers)


def _adaptive_pool(sets: NodeSets, call: Call) -> Any:
    main = call.output if isinstance(call.output, Tensor) else call.output[0]
    numbers = call.numbers["self"]
    spatial = int(call.operation.overloadpacket.__name__.split("pool")[1][0])
    for dim in range(numbers.dim() - spatial, numbers.dim()):
        size, wanted = numbers.shape[dim], main.shape[dim]
        cells = []
        for cell in range(wanted):
            start, stop = cell * size // wanted, -(-(cell + 1) * size // wanted)
            cells.append(sets.merge(numbers.narrow(dim, start, stop - start), (dim,)))
        numbers = torch.stack(cells, dim=dim)
    return numbers if isinstance(call.output, Tensor) else (numbers, numbers)


def _resample(sets: NodeSets, call: Call) -> Any:
    """Interpolation mixes positions of one channel: each call.output position may see them all."""
    source = call.numbers.get("input", call.numbers.get("self"))
    assert source is not None
    spatial = tuple(range(2, source.dim()))
    return sets.merge(source, spatial, keepdim=True).expand(call.output.shape).clone()


def _as_list(value: int | Sequence[int]) -> list[int]:
    return [value] if isinstance(value, int) else list(value)


def _repeat(value: int | Sequence[int], times: int) -> list[int]:
    values = _as_list(value)
    return values * times if len(values) == 1 else values


def _pad_dim(numbers: Tensor, dim: int, before: int, after: int) -> Tensor:
    def blank(size: int) -> Tensor:
        shape = list(numbers.shape)
        shape[dim] = size
        return numbers.new_full(shape, EMPTY)

    return torch.cat([blank(before), numbers, blank(after)], dim=dim)


_PASS_ON = (
    "to _to_copy contiguous clone detach alias lift_fresh type_as "
    "dropout native_dropout feature_dropout alpha_dropout feature_alpha_dropout "
    "softmax _softmax log_softmax _log_softmax "
    "layer_norm native_layer_norm rms_norm group_norm native_group_norm batch_norm instance_norm "
    "local_response_norm hardswish prelu rrelu tril triu"
)
_MOVE = (
    "cat concat concatenate stack hstack vstack dstack repeat repeat_interleave tile "
    "index_select index gather take_along_dim flip fliplr flipud roll rot90 "
    "pixel_shuffle pixel_unshuffle channel_shuffle unfold_copy slice_scatter select_scatter "
    "index_put"
)
_REDUCE = (
    "sum mean amax amin max min logsumexp var std prod nansum nanmean median norm "
    "linalg_vector_norm any all argmax argmin count_nonzero"
)
_POOL = "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d"
_WITH_INDICES = "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices"
_ADAPTIVE = (
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"
)
_RESAMPLE = (
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d "
    "upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d"
)

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_PASS_ON.split(), _pass_on),
    **dict.fromkeys(_MOVE.split(), _move),
    **dict.fromkeys(_REDUCE.split(), _reduce),
    **dict.fromkeys((_POOL + " " + _WITH_INDICES).split(), _pool),
    **dict.fromkeys(_ADAPTIVE.split(), _adaptive_pool),
    **dict.fromkeys(_RESAMPLE.split(), _resample),
    **dict.fromkeys(["pad", "constant_pad_nd"], _pad),
    **dict.fromkeys(["copy", "fill", "zero"], _overwrite),
    **dict.fromkeys(["matmul", "mm", "bmm", "mv", "dot"], _matrix_product),
    "scaled_dot_product_attention": _attention,
    "glu": _gated,
}
