"""Which set of nodes stands at which place of memory."""

from __future__ import annotations

import torch
from torch import Tensor, UntypedStorage

from uclearn.topology.sets import NodeSets


class Memory:
    """The set number of every element, kept per storage: slices, transposes and other views of a
    tensor share one storage, so that each of them sees what is written through any other.

    >>> memory, x = Memory(NodeSets()), torch.zeros(2, 3)
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
