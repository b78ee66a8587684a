"""Standard normal numbers: reproducible from one seed, and cheap.

Drawing normals costs more than multiplying a weight matrix with a batch. So by default they are
read from one large table at a random place with a random sign; `kind="fresh"` draws them anew.
Either way the n-th draw of a stream depends on (seed, stream, n) alone, so two integers in a
checkpoint are the whole state.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from uclearn.choices import check_choice
from uclearn.errors import TaskError

NoiseKind = Literal["table", "fresh"]

TABLE_SIZE = 1 << 23
"""Normals in the table: 32 MB in single precision, and as much for its negation, once per process,
device and precision."""
_LARGEST_READ = 1 << 22
"""A larger draw is put together from pieces, each with a place and a sign of its own."""


class Noise:
    """A stream of standard normal numbers.

    Args:
        seed: which sequence of draws.
        stream: an independent sequence of the same seed, such as the rank of a process.
        kind: `"table"` reads from a fixed table at random places, `"fresh"` draws anew.

    >>> a, b = Noise(seed=7), Noise(seed=7)
    >>> torch.equal(a.normals((2, 3)), b.normals((2, 3)))
    True
    >>> a.state
    (7, 1)
    """

    def __init__(self, seed: int = 0, stream: int = 0, kind: NoiseKind = "table") -> None:
        check_choice("noise", kind, get_args(NoiseKind))
        self.seed, self.stream, self.kind = int(seed), int(stream), kind
        self.drawn = 0
        self._repeating = False

    @property
    def state(self) -> tuple[int, int]:
        """(seed, draws so far): set it back and the same numbers follow."""
        return self.seed, self.drawn

    @state.setter
    def state(self, state: tuple[int, int]) -> None:
        self.seed, self.drawn = int(state[0]), int(state[1])

    def normals(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """The next standard normal numbers. They may be a window on a shared table: never write
        to them."""
        if torch.compiler.is_compiling():  # a compiled graph draws from torch's own generator
            return torch.randn(shape, dtype=dtype, device=device)
        pieces = self.pieces(math.prod(shape), dtype, device)
        return (pieces[0] if len(pieces) == 1 else torch.cat(pieces)).view(shape)

    def chosen(
        self, rows: Tensor, shape: tuple[int, int], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """(chosen rows, width): some of the rows of the numbers of `normals`; the others are not
        made.

        Args:
            rows: their numbers.
            shape: (rows, width) of all of them.
            dtype: as of `normals`.
            device: as of `normals`.
        """
        if torch.compiler.is_compiling():
            return torch.randn((len(rows), shape[1]), dtype=dtype, device=device)
        pieces = self.pieces(math.prod(shape), dtype, device)
        if len(pieces) == 1:
            return pieces[0].view(shape)[rows]
        places = rows[:, None] * shape[1] + torch.arange(shape[1], device=device)
        found, each = torch.empty(places.shape, dtype=dtype, device=device), len(pieces[0])
        for number, piece in enumerate(pieces):
            here = places // each == number
            found[here] = piece[places[here] - number * each]
        return found

    def numbers(self, size: int, dtype: torch.dtype, device: torch.device) -> Numbers:
        """The numbers of `normals`, by where they lie in memory."""
        if self.kind == "table" and size <= _LARGEST_READ:
            self._check_first_pass()
            self.drawn += 1
            return Numbers(*self._place(size, 0, dtype, device), size)
        return Numbers(self.normals((size,), dtype, device), 0, size)

    def rows(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Tensor | Rows:
        """The numbers of `normals`, to be read a few rows at a time: however many they are, nothing
        of their size is made."""
        size = math.prod(shape)
        if size <= _LARGEST_READ or torch.compiler.is_compiling():
            return self.normals(shape, dtype, device)
        return Rows(self.pieces(size, dtype, device), shape)

    def again(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """For gradient checkpointing, which runs a part of the network a second time during the
        backward pass: one context for each pass, so that the second draws what the first drew.

        checkpoint(method.model, x, use_reentrant=False, context_fn=method.noise.again)
        """
        start = 0

        @contextmanager
        def first() -> Iterator[None]:
            nonlocal start
            start = self.drawn
            yield

        @contextmanager
        def second() -> Iterator[None]:
            now, self.drawn, self._repeating = self.drawn, start, True
            try:
                yield
            finally:
                self.drawn, self._repeating = now, False

        return first(), second()

    def _check_first_pass(self) -> None:
        # a forward pass within a backward pass: other noise would give wrong gradients, silently
        if torch._C._current_graph_task_id() != -1 and not self._repeating:
            raise TaskError(
                "Gradient checkpointing must draw the same noise in both passes. Say so with "
                "`checkpoint(..., use_reentrant=False, context_fn=method.noise.again)`."
            )

    def pieces(self, size: int, dtype: torch.dtype, device: torch.device | str) -> list[Tensor]:
        """The numbers of `normals`, laid out flat, in pieces; all but the last are of one size."""
        self._check_first_pass()
        self.drawn += 1
        if self.kind == "fresh":
            generator = torch.Generator(device)
            generator.manual_seed(self._bits(0))
            return [torch.randn(size, dtype=dtype, device=device, generator=generator)]
        if size <= _LARGEST_READ:
            return [self._window(size, 0, dtype, device)]
        return [
            self._window(min(_LARGEST_READ, size - start), piece, dtype, device)
            for piece, start in enumerate(range(0, size, _LARGEST_READ))
        ]

    def _window(
        self, size: int, piece: int, dtype: torch.dtype, device: torch.device | str
    ) -> Tensor:
        table, start = self._place(size, piece, dtype, device)
        return table.narrow(0, start, size)

    def _place(
        self, size: int, piece: int, dtype: torch.dtype, device: torch.device | str
    ) -> tuple[Tensor, int]:
        bits = self._bits(piece)
        return _table(device, dtype, bits & 1), (bits >> 1) % (TABLE_SIZE - size + 1)

    def _bits(self, piece: int) -> int:
        mixed = _mix(_stem(self.seed, self.stream) ^ _mix(self.drawn))
        return (
            _mix(mixed ^ (_MIXED_0 if piece == 0 else _mix(piece))) >> 1
        )  # a generator's seed is a signed 64-bit number


class Numbers(NamedTuple):
    """A window on a tensor that has one dimension, not yet made a tensor of its own."""

    source: Tensor
    start: int
    size: int

    @property
    def address(self) -> int:
        """Of the first of them."""
        return self.source.data_ptr() + self.start * self.source.itemsize

    def view(self, shape: tuple[int, ...]) -> Tensor:
        """As a tensor."""
        return self.source.narrow(0, self.start, self.size).view(shape)


class Rows:
    """Many numbers, laid out over several pieces, as a tensor of which rows can be read.

    >>> rows = Rows([torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0])], (2, 2))
    >>> rows[1:2]
    tensor([[3., 4.]])
    """

    def __init__(self, pieces: list[Tensor], shape: tuple[int, ...]) -> None:
        self._pieces, self._shape = pieces, tuple(shape)
        self._ends = list(itertools.accumulate(piece.numel() for piece in pieces))

    def __getitem__(self, rows: slice) -> Tensor:
        """(rows, ...): a window on one piece, or a copy across a seam."""
        width = math.prod(self._shape[1:])
        first, last, _ = rows.indices(self._shape[0])
        found = []
        for piece, end in zip(self._pieces, self._ends, strict=True):
            begin = end - piece.numel()
            low, high = max(first * width, begin), min(last * width, end)
            if low < high:
                found.append(piece[low - begin : high - begin])
        read = found[0] if len(found) == 1 else torch.cat(found)
        return read.view(last - first, *self._shape[1:])


def _mix(number: int) -> int:
    """The finaliser of splitmix64: neighbouring numbers become unrelated ones."""
    number = (number + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return number ^ (number >> 31)


_MIXED_0 = _mix(0)


@functools.lru_cache(maxsize=64)
def _stem(seed: int, stream: int) -> int:
    return _mix(_mix(_mix(seed)) ^ _mix(stream))


@functools.cache
def _table(device: torch.device | str, dtype: torch.dtype, negative: int) -> Tensor:
    # the first draw may come in inference mode, but its table serves training too; and it is the
    # same table whatever torch's default device and type
    with torch.inference_mode(False):
        if isinstance(device, torch.device):  # the one table of a device, however it is named
            return _table(str(device), dtype, negative)
        if negative:
            return -_table(device, dtype, 0)
        generator = torch.Generator("cpu").manual_seed(0x5EED)
        # Drawn in two halves on purpose. Freeing them (16 MB each) teaches glibc's allocator to
        # keep blocks of the size of weights instead of giving them back to the system after every
        # step, which costs a step of a small network up to a fifth of its time in page faults.
        halves = [
            torch.randn(TABLE_SIZE // 2, generator=generator, dtype=torch.float32, device="cpu")
            for _ in range(2)
        ]
        return torch.cat(halves).to(device, dtype)
