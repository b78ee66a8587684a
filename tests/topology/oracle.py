"""A slow second opinion on which nodes feed which weights.

Every element is a Python set of the nodes that it comes from, and every operation is a loop over
elements that follows the documented rules (`uclearn.topology.rules`). Nothing here is shared with
the library, torch included.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Node = tuple[str, int]
"""The name of a layer and the number of one of its outputs."""
Cell = frozenset[Node]
Array = npt.NDArray[Any]  # of cells

NOBODY: Cell = frozenset()


def filled(shape: Sequence[int], cell: Callable[[tuple[int, ...]], Iterable[Node]]) -> SetTensor:
    """A tensor whose element at an index is what `cell` says."""
    cells = np.empty(tuple(shape), dtype=object)
    for index in np.ndindex(*cells.shape):
        cells[index] = frozenset(cell(index))
    return SetTensor(cells)


def inputs(*shape: int) -> SetTensor:
    """Elements that no node has made."""
    return filled(shape, lambda _: NOBODY)


class SetTensor:
    """An array of sets of nodes."""

    def __init__(self, cells: Array) -> None:
        self.cells = cells

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.cells.shape)

    @property
    def T(self) -> SetTensor:  # noqa: N802
        return self.move(np.transpose)

    # -- elementwise: the union of what stands at the same place -------------------------------

    def __add__(self, other: SetTensor) -> SetTensor:
        left, right = np.broadcast_arrays(self.cells, other.cells)
        return filled(left.shape, lambda index: left[index] | right[index])

    __mul__ = __sub__ = __truediv__ = __add__

    # -- moves: NumPy carries the sets where torch carries the data ----------------------------

    def move(self, how: Callable[..., Any], *arguments: Any, **settings: Any) -> SetTensor:
        return SetTensor(np.array(how(self.cells, *arguments, **settings), dtype=object))

    def __getitem__(self, index: Any) -> SetTensor:
        return self.move(lambda cells: cells[index])

    def reshape(self, *shape: int) -> SetTensor:
        return self.move(np.reshape, shape)

    def permute(self, *axes: int) -> SetTensor:
        return self.move(np.transpose, axes)

    def swap(self, first: int, second: int) -> SetTensor:
        return self.move(np.swapaxes, first, second)

    def flatten(self) -> SetTensor:
        """All but the first dimension."""
        return self.reshape(self.shape[0], -1)

    def put(self, index: Any, other: SetTensor) -> SetTensor:
        """A copy in which `other` stands at some places."""
        cells = self.cells.copy()
        cells[index] = other.cells[()]  # a single element as itself
        return SetTensor(cells)

    # -- sums and windows ----------------------------------------------------------------------

    def union(self, *axes: int, keep: bool = False) -> SetTensor:
        """Over some dimensions, or over all."""
        gone = {axis % self.cells.ndim for axis in axes or range(self.cells.ndim)}
        shape = [1 if d in gone else size for d, size in enumerate(self.shape)]
        gathered: dict[tuple[int, ...], set[Node]] = {place: set() for place in np.ndindex(*shape)}
        for index in np.ndindex(*self.shape):
            place = tuple(0 if d in gone else i for d, i in enumerate(index))
            gathered[place].update(self.cells[index])
        result = filled(shape, lambda place: gathered[place])
        kept = [size for d, size in enumerate(self.shape) if d not in gone]
        return result if keep else result.reshape(*kept)

    def windows(self, places: Sequence[Sequence[Iterable[int]]]) -> SetTensor:
        """`places[axis][o]`: which positions output o sees along each of the last dimensions."""
        spatial = len(places)
        lead = self.shape[: len(self.shape) - spatial]

        def seen(index: tuple[int, ...]) -> set[Node]:
            front, back = index[: len(lead)], index[len(lead) :]
            positions = itertools.product(*(places[axis][o] for axis, o in enumerate(back)))
            return set().union(*(self.cells[front + position] for position in positions))

        return filled([*lead, *map(len, places)], seen)

    def pool(
        self,
        kernel: Sequence[int],
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        ceil: bool = False,
    ) -> SetTensor:
        spatial = len(kernel)
        stride, padding = stride or kernel, padding or [0] * spatial
        dilation = dilation or [1] * spatial
        sizes = self.shape[-spatial:]
        return self.windows(
            [
                slid(*axis, ceil=ceil)
                for axis in zip(sizes, kernel, stride, padding, dilation, strict=True)
            ]
        )

    def adaptive_pool(self, *wanted: int) -> SetTensor:
        sizes = self.shape[-len(wanted) :]
        return self.windows([shared(*axis) for axis in zip(sizes, wanted, strict=True)])

    def __matmul__(self, other: SetTensor) -> SetTensor:
        """Of two stacks of matrices: the union over the summed dimension of both."""
        rows, columns = self.union(-1, keep=True), other.union(-2, keep=True)
        return rows + columns

    def attend(self, queries: int) -> SetTensor:
        """Attention whose values are these (..., positions, features)."""
        everywhere = self.union(-2, keep=True).cells
        return SetTensor(np.repeat(everywhere, queries, axis=-2))


def slid(size: int, kernel: int, stride: int, pad: int, gap: int, ceil: bool) -> list[list[int]]:
    """The positions inside of each window that slides over `size` cells and their padding. In ceil
    mode the last one may be cut short, if cells are left and it does not begin in the padding."""
    reach, start = gap * (kernel - 1) + 1, -pad
    found: list[list[int]] = []
    while True:
        fits = start + reach <= size + pad
        short = ceil and start - stride + reach < size + pad and start < size
        if not fits and not short:
            return found
        found.append([p for p in range(start, start + reach, gap) if 0 <= p < size])
        start += stride


def shared(size: int, wanted: int) -> list[list[int]]:
    """Cell o sees the positions p whose stretch of the whole overlaps its own."""
    return [
        [p for p in range(size) if p * wanted < (o + 1) * size and (p + 1) * wanted > o * size]
        for o in range(wanted)
    ]


def cat(*parts: SetTensor, axis: int = 1) -> SetTensor:
    return SetTensor(np.concatenate([part.cells for part in parts], axis=axis))


def stack(*parts: SetTensor, axis: int = 1) -> SetTensor:
    return SetTensor(np.stack([part.cells for part in parts], axis=axis))


def pad(x: SetTensor, *widths: tuple[int, int]) -> SetTensor:
    """Blank cells around the last dimensions."""
    widths = ((0, 0),) * (len(x.shape) - len(widths)) + widths
    shape = [before + size + after for size, (before, after) in zip(x.shape, widths, strict=True)]
    middle = tuple(
        slice(before, before + size) for size, (before, _) in zip(x.shape, widths, strict=True)
    )
    return inputs(*shape).put(middle, x)


class Oracle:
    """Layers: what arrives at each is written down, what leaves it are its own nodes."""

    def __init__(self) -> None:
        self.arrived: dict[str, list[set[Node]]] = {}

    def arrive(self, name: str, x: SetTensor, *axes: int) -> None:
        """Each feature takes the union over all other dimensions, and over all uses."""
        kept = [axis % len(x.shape) for axis in axes]
        sizes = [x.shape[axis] for axis in kept]
        features = self.arrived.setdefault(name, [set() for _ in range(int(np.prod(sizes)))])
        for index in np.ndindex(*x.shape):
            feature = 0
            for axis in kept:
                feature = feature * x.shape[axis] + index[axis]
            features[feature].update(x.cells[index])

    def linear(self, name: str, x: SetTensor, nodes: int) -> SetTensor:
        self.arrive(name, x, -1)
        return filled([*x.shape[:-1], nodes], lambda index: {(name, index[-1])})

    def conv(
        self,
        name: str,
        x: SetTensor,
        nodes: int,
        kernel: Sequence[int],
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
    ) -> SetTensor:
        """Grouped or not: what arrives is counted per input channel."""
        spatial = len(kernel)
        channel = -1 - spatial
        self.arrive(name, x, channel)
        sizes = [
            len(slid(size, width, stride, padding, dilation, ceil=False))
            for size, width in zip(x.shape[-spatial:], kernel, strict=True)
        ]
        shape = [*x.shape[:channel], nodes, *sizes]
        return filled(shape, lambda index: {(name, index[channel])})

    def conv_transpose(
        self, name: str, x: SetTensor, nodes: int, kernel: int, stride: int, padding: int = 0
    ) -> SetTensor:
        self.arrive(name, x, -3)
        sizes = [(size - 1) * stride - 2 * padding + kernel for size in x.shape[-2:]]
        return filled([*x.shape[:-3], nodes, *sizes], lambda index: {(name, index[-3])})

    def embedding(self, name: str, shape: Sequence[int], rows: int, nodes: int) -> SetTensor:
        """Its rows are chosen by inputs of the network."""
        self.arrived.setdefault(name, [set() for _ in range(rows)])
        return filled([*shape, nodes], lambda index: {(name, index[-1])})

    def norm(self, name: str, x: SetTensor, *axes: int) -> SetTensor:
        """Scale and shift belong to the features, which pass on one by one."""
        self.arrive(name, x, *axes)
        return x
