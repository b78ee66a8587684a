"""Operations that add over dimensions: reductions, products of matrices, attention, losses."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from uclearn.topology.call import Call, as_list
from uclearn.topology.sets import NodeSets

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
    """Union over the summed dimension of both factors, and of what is added."""
    left, right = (call.numbers[factor] for factor in FACTORS[call.name])
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
