"""What the rules speak of: sets of nodes, where in memory they stand, and one operation.

Each set of nodes is known by one number, so that a tensor of numbers can stand for a tensor of sets
and be reshaped, sliced and concatenated by the very operations that moved the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch._ops import OpOverload

EMPTY = 0
SHARE = -1
"""In a set of nodes: what stands here are shares of a whole (a softmax), which weigh what they are
multiplied with."""


class NodeSets:
    """A growing table of sets of nodes. Number 0 is the empty set.

    >>> sets = NodeSets()
    >>> a, b = sets.number({1}), sets.number({1, 2})
    >>> sets.members(int(sets.union(torch.tensor(a), torch.tensor(b)))) == {1, 2}
    True
    """

    def __init__(self) -> None:
        self._members: list[frozenset[int]] = [frozenset()]
        self._numbers: dict[frozenset[int], int] = {frozenset(): EMPTY}
        self._unmarked = [EMPTY]
        """By number of a set that of the same nodes without a mark."""
        self._any_marked = False

    def number(self, members: Iterable[int]) -> int:
        """The number of this set, given out on first sight."""
        key = frozenset(members)
        if key not in self._numbers:
            self._any_marked |= SHARE in key
            bare = self.number(key - {SHARE}) if SHARE in key else len(self._members)
            self._numbers[key] = len(self._members)
            self._members.append(key)
            self._unmarked.append(bare)
        return self._numbers[key]

    def members(self, number: int) -> frozenset[int]:
        """The set behind a number."""
        return self._members[self._unmarked[number]]

    def marked(self, numbers: Tensor) -> Tensor:
        """The same sets, marked as shares; empty ones stay what they are."""
        distinct, inverse = numbers.unique(return_inverse=True)
        found = [self._members[number] for number in distinct.tolist()]
        marked = [self.number(each | {SHARE} if each else each) for each in found]
        return torch.tensor(marked, dtype=torch.int64, device="cpu")[inverse].view(numbers.shape)

    def unmarked(self, numbers: Tensor) -> Tensor:
        """The same sets, as sets of nodes alone."""
        return self._table()[numbers] if self._any_marked else numbers

    def are_shares(self, numbers: Tensor) -> bool:
        """Whether all that is not empty is marked, and there is something."""
        if not self._any_marked or not bool(numbers.any()):
            return False
        unmarked = self._table()
        is_share = unmarked != torch.arange(len(unmarked), device="cpu")
        is_share[EMPTY] = True
        return bool(is_share[numbers].all())

    def _table(self) -> Tensor:
        return torch.tensor(self._unmarked, device="cpu")

    def blank(self, shape: Sequence[int]) -> Tensor:
        """Empty sets in this shape. Set numbers live in main memory, wherever the data do."""
        return torch.full(shape, EMPTY, dtype=torch.int64, device="cpu")

    def union(self, left: Tensor, right: Tensor) -> Tensor:
        """Elementwise union of two tensors of set numbers, broadcast against each other."""
        low, high = torch.minimum(left, right), torch.maximum(left, right)
        mixed = (low != high) & (low != EMPTY)  # elsewhere both are the same, or one is empty
        if not bool(mixed.any()):
            return high
        # few distinct pairs occur, whatever the number of elements
        count = len(self._members)
        pairs, inverse = torch.unique(low[mixed] * count + high[mixed], return_inverse=True)
        unions = [
            self.number(self._members[pair // count] | self._members[pair % count])
            for pair in pairs.tolist()
        ]
        high[mixed] = torch.tensor(unions, device="cpu")[inverse]
        return high

    def merge(self, numbers: Tensor, dims: Iterable[int], keepdim: bool = False) -> Tensor:
        """Union over some dimensions, as `sum` would add over them."""
        axes = sorted({d % numbers.dim() for d in dims}) if numbers.dim() else []
        kept = [d for d in range(numbers.dim()) if d not in axes]
        shape = [numbers.shape[d] for d in kept]
        columns = math.prod(numbers.shape[d] for d in axes)
        rows = numbers.permute((*kept, *axes)).reshape(math.prod(shape), columns)
        merged = self._merge_rows(rows).reshape(shape)
        for axis in axes if keepdim else ():
            merged = merged.unsqueeze(axis)
        return merged

    def _merge_rows(self, rows: Tensor) -> Tensor:
        if rows.shape[1] == 0:
            return self.blank(rows.shape[:1])
        while rows.shape[1] > 1:  # fold in half; the middle of an odd number may count twice
            half = (rows.shape[1] + 1) // 2
            rows = self.union(rows[:, :half], rows[:, -half:])
        return rows[:, 0]


class SetsInMemory:
    """The set number of every element, kept per storage: slices, transposes and other views of a
    tensor share one storage, so that each of them sees what is written through any other.

    >>> memory, x = SetsInMemory(NodeSets()), torch.zeros(2, 3)
    >>> memory.write(x.t()[0], torch.tensor([4, 5]))
    >>> memory.read(x).tolist()
    [[4, 0, 0], [5, 0, 0]]
    """

    def __init__(self, sets: NodeSets) -> None:
        self._sets = sets
        # the storage is kept beside its table, so that its address stays its own
        self._tables: dict[int, tuple[UntypedStorage, Tensor]] = {}

    def knows(self, tensor: Tensor) -> bool:
        """Whether anything was ever written where this tensor lies."""
        return tensor.layout is torch.strided and address(tensor) in self._tables

    def read(self, tensor: Tensor) -> Tensor:
        """Set numbers shaped like `tensor`; zeros for inputs, parameters and constants."""
        if not self.knows(tensor):
            return self._sets.blank(()).expand(tensor.shape)
        numbers = self._place(tensor)
        return self._sets.merge(numbers, (-1,)) if tensor.is_complex() else numbers

    def write(self, tensor: Tensor, numbers: Tensor) -> None:
        """From now on these sets stand where `tensor` lies."""
        if not self.knows(tensor):
            storage = tensor.untyped_storage()
            table = self._sets.blank((storage.nbytes() // _unit(tensor),))
            self._tables[address(tensor)] = (storage, table)
        for dim, (size, step) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
            if step == 0 and size > 1:  # one place for all of them
                numbers = self._sets.merge(numbers, (dim,), keepdim=True)
                tensor = tensor.narrow(dim, 0, 1)
        self._place(tensor).copy_(numbers.unsqueeze(-1) if tensor.is_complex() else numbers)

    def _place(self, tensor: Tensor) -> Tensor:
        shape, stride = list(tensor.shape), list(tensor.stride())
        offset = int(tensor.storage_offset())
        if tensor.is_complex():  # as the pairs of real numbers that it consists of
            shape, stride, offset = [*shape, 2], [*(2 * s for s in stride), 1], 2 * offset
        _, table = self._tables[address(tensor)]
        return table.as_strided(shape, stride, offset)


def address(tensor: Tensor) -> int:
    """What all tensors that share memory have in common, and no others."""
    storage = tensor.untyped_storage()
    return storage.data_ptr() or storage._cdata  # on the meta device there are no data


def _unit(tensor: Tensor) -> int:
    return tensor.element_size() // 2 if tensor.is_complex() else tensor.element_size()


Bound = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One operation as it was called, seen twice: with its data and with identities instead."""

    operation: OpOverload
    data: Bound
    """Its arguments by name, in the order of its schema, defaults filled in."""
    numbers: Bound
    """The same, with a tensor of set numbers in place of every tensor."""
    output: Any

    @property
    def name(self) -> str:
        """What it is called, in place or not: `relu` for `relu_`."""
        return twin_name(self.operation)

    @property
    def result(self) -> Tensor:
        """Its output, or the first of several."""
        first: Tensor = self.output if isinstance(self.output, Tensor) else self.output[0]
        return first

    def operands(self) -> list[Tensor]:
        """The set numbers of every tensor that it was given as such."""
        return [value for value in self.numbers.values() if isinstance(value, Tensor)]

    def every_output(self, numbers: Tensor) -> Any:
        """The same set numbers for each of its outputs (values and their indices)."""
        return numbers if isinstance(self.output, Tensor) else tuple(numbers for _ in self.output)


Rule = Callable[[NodeSets, Call], Any]
"""What an operation does to identities: set numbers shaped like its output, or None for a result
that no node has made."""


def twin_name(operation: OpOverload) -> str:
    """The name of the operation that does the same, but not in place."""
    name: str = operation.overloadpacket.__name__
    return name if name.endswith("__") else name.removesuffix("_")


def bind(operation: OpOverload, args: Any, kwargs: Any) -> Bound:
    """The arguments by name. A place for the output (`out=`) is no argument."""
    schema = operation._schema.arguments
    given = {**dict(zip([a.name for a in schema], args, strict=False)), **kwargs}
    return {a.name: given.get(a.name, a.default_value) for a in schema if not a.is_out}


def as_list(value: int | Sequence[int]) -> list[int]:
    """Sizes are given as one number or as one per dimension."""
    return [value] if isinstance(value, int) else list(value)
