"""Sets of nodes, each known by one number, so that a tensor of numbers can stand for a tensor of
sets and be reshaped, sliced and concatenated by the very operations that moved the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

EMPTY = 0


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

    def number(self, members: Iterable[int]) -> int:
        """The number of this set, given out on first sight."""
        key = frozenset(members)
        if key not in self._numbers:
            self._numbers[key] = len(self._members)
            self._members.append(key)
        return self._numbers[key]

    def members(self, number: int) -> frozenset[int]:
        """The set behind a number."""
        return self._members[number]

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
