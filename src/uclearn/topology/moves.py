"""Operations that move elements about, and those that leave them where they are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from uclearn.topology.sets import EMPTY, Call, NodeSets

_MOVED = ("self", "input", "weight", "tensors", "src", "source", "values")
"""Arguments whose elements turn up in the result; others (indices, masks) say where to."""


def nobody(sets: NodeSets, call: Call) -> None:
    """Only the shape, the type or the place of something: no node has made that."""


def pass_on(sets: NodeSets, call: Call) -> Any:
    """Feature by feature, whatever else is looked at."""
    return call.operands()[0]


def elementwise(sets: NodeSets, call: Call) -> Any:
    """The union of what stands at the same place."""
    result = sets.blank(call.result.shape)
    for operand in call.operands():
        result = sets.union(result, operand)
    return call.every_output(result)


def choose(sets: NodeSets, call: Call) -> Any:
    """`where(mask, a, b)` is elementwise; `where(mask)` gives places."""
    return elementwise(sets, call) if "self" in call.numbers else None


def move(sets: NodeSets, call: Call) -> Any:
    """Do to the identities what was done to the data; indices stay what they are."""
    return _moved(call, torch.int64)


def move_floats(sets: NodeSets, call: Call) -> Any:
    """The same for what exists for floats only; they hold every set number (below 2**53)."""
    return _moved(call, torch.float64).to(torch.int64)


def _moved(call: Call, kind: torch.dtype) -> Any:
    arguments = {}
    for name, value in call.data.items():
        if name in _MOVED:
            arguments[name] = tree_map_only(Tensor, lambda n: n.to(kind), call.numbers[name])
        elif name == "value":  # what is filled in: a number comes from no node
            arguments[name] = call.numbers[name] if isinstance(value, Tensor) else EMPTY
        else:
            arguments[name] = tree_map_only(Tensor, Tensor.cpu, value)
    if arguments.keys().isdisjoint(_MOVED):
        raise TypeError("no argument whose elements turn up in the result")
    return getattr(torch.ops.aten, call.name)(**arguments)


def overwrite(sets: NodeSets, call: Call) -> Any:
    """What stood there is gone."""
    source = call.numbers.get("src", call.numbers.get("value"))
    shape = call.result.shape
    return source.expand(shape) if isinstance(source, Tensor) else sets.blank(shape)


def put(sets: NodeSets, call: Call) -> Any:
    """Elements written to indexed places, or united with what stands there."""
    if call.data["accumulate"]:
        self, values = call.numbers["self"], call.numbers["values"]
        places = torch.arange(self.numel(), device="cpu").view(self.shape)
        places = places[tuple(_whole(call.data["indices"]))]
        index, source = places.reshape(-1), values.expand(places.shape).reshape(-1)
        return _unite(sets, self.reshape(-1), 0, index, source).view(self.shape)
    return move(sets, call)


def _whole(indices: list[Tensor | None]) -> list[Tensor | slice]:
    return [slice(None) if index is None else index.cpu() for index in indices]


def scatter(sets: NodeSets, call: Call) -> Any:
    """Elements written to indexed places along one dimension; `add` and `reduce` unite."""
    if not (call.name in ("scatter_add", "scatter_reduce", "index_add") or "reduce" in call.data):
        return move(sets, call)
    target, dim, index = call.numbers["self"], call.data["dim"], call.data["index"].cpu()
    source = call.numbers.get("src", call.numbers.get("source"))
    if source is None:  # a number
        return target
    if call.name == "index_add":  # one index per slice
        index = index.view([-1 if d == dim % source.dim() else 1 for d in range(source.dim())])
        index = index.expand(source.shape)
    return _unite(sets, target, dim, index, source)


def _unite(sets: NodeSets, target: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Slice by slice, in which no two elements go to one place."""
    target = target.clone()
    for k in range(index.shape[dim]):
        where = index.narrow(dim, k, 1)
        cut = tuple(slice(size) for size in where.shape)
        here = source.narrow(dim, k, 1)[cut]
        target.scatter_(dim, where, sets.union(target.gather(dim, where), here))
    return target
