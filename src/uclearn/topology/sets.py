"""Sets of nodes, each known by one number, so that a tensor of numbers can stand for a tensor of
sets and be reshaped, sliced and concatenated by the very operations that moved the data."""

from __future__ import annotations

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
        left, right = torch.broadcast_tensors(left, right)
        if not right.any() or torch.equal(left, right):
            return left
        if not left.any():
            return right
        return self.merge(torch.stack([left, right], dim=-1), (-1,))

    def merge(self, numbers: Tensor, dims: Iterable[int], keepdim: bool = False) -> Tensor:
        """Union over some dimensions, as `sum` would add over them."""
        axes = sorted({d % numbers.dim() for d in dims}) if numbers.dim() else []
        kept = [d for d in range(numbers.dim()) if d not in axes]
        shape = [numbers.shape[d] for d in kept]
        rows = numbers.permute((*kept, *axes)).reshape(_product(shape), -1)  # (elements, merged)
        merged = self._merge_rows(rows).reshape(shape)
        for axis in axes if keepdim else ():
            merged = merged.unsqueeze(axis)
        return merged

    def _merge_rows(self, rows: Tensor) -> Tensor:
        if rows.shape[1] == 0:
            return rows.new_zeros(rows.shape[0])
        if bool((rows == rows[:, :1]).all()):  # the usual case: one channel, one node
            return rows[:, 0]
        # few distinct combinations occur, whatever the number of elements
        distinct, inverse = torch.unique(rows.sort(dim=1).values, dim=0, return_inverse=True)
        unions = [
            self.number(frozenset().union(*(self._members[n] for n in set(row))))
            for row in distinct.tolist()
        ]
        return torch.tensor(unions, dtype=rows.dtype, device=rows.device)[inverse.reshape(-1)]


def _product(shape: list[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
