"""The kernels that hold weights, as functions of tensors; `calls.usable` was asked first."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from uclearn.native.calls import check_memory, kernels, pointers


class Spoken(NamedTuple):
    """A linear layer that is held to what its nodes say, all float32 and dense."""

    anchor: Tensor
    """(nodes, inputs)"""
    anchor_bias: Tensor | None
    """(nodes,)"""
    mean: Tensor
    """(inputs,) of what it was given; a bias was given `one`."""
    one: float
    node: Tensor
    """(nodes,)"""
    width: int
    """Of a block of inputs."""


def pulled_rows(
    held: Spoken, weight: Tensor, bias: Tensor | None, to_bias: Tensor | None, scale: float
) -> Tensor:
    """(blocks, nodes, 1 + width): how far each node has moved, times its strength and `scale`: what
    it says on average, and then its weights in the block. The gradient of its bias is added to
    `to_bias`."""
    nodes, inputs = weight.shape
    pulled = torch.empty(-(-inputs // held.width), nodes, 1 + held.width)
    kernels.pulled_rows(
        weight.data_ptr(),
        held.anchor.data_ptr(),
        None if bias is None else bias.data_ptr(),
        None if held.anchor_bias is None else held.anchor_bias.data_ptr(),
        held.mean.data_ptr(),
        held.node.data_ptr(),
        pulled.data_ptr(),
        None if to_bias is None else to_bias.data_ptr(),
        nodes,
        inputs,
        held.width,
        held.one,
        scale,
        torch.get_num_threads(),
    )
    return pulled


def along(gradient: Tensor, weight: Tensor, anchor: Tensor) -> float:
    """The sum of `gradient * (weight - anchor)`."""
    rows = len(weight)
    of_rows = torch.empty(rows)
    total: float = kernels.along(
        gradient.data_ptr(),
        weight.data_ptr(),
        anchor.data_ptr(),
        of_rows.data_ptr(),
        rows,
        weight.numel() // rows,
        torch.get_num_threads(),
    )
    return total


class _Held(ctypes.Structure):
    """How the weights of one parameter are held, as the library reads it."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("anchor", "node", "source", "freeze")),
        *((name, ctypes.c_int64) for name in ("rows", "width", "rows_per_group")),
    )


class Pulled(NamedTuple):
    """How one parameter is held, all float32 and dense. Its weights are rows, one for each node."""

    anchor: Tensor
    node: Tensor
    """(nodes,)"""
    source: Tensor | None
    """(groups, weights of a row)"""
    freeze: Tensor | None
    """(nodes,)"""


class Hold:
    """Eq. (4) + eq. (5) on some parameters and eq. (6) on some uncertainties, in one call.

    Args:
        pulled: of the parameters.
        previous: (nodes,) each: the uncertainties that the previous task left.
    """

    def __init__(self, pulled: Sequence[Pulled], previous: Sequence[Tensor]) -> None:
        self._kept = pulled, previous  # what the pointers point to
        self._held = (_Held * len(pulled))(*(_described(each) for each in pulled))
        self._previous = pointers(previous)
        self._nodes = (ctypes.c_int64 * len(previous))(*(sigma.numel() for sigma in previous))
        self._size = sum(each.anchor.numel() for each in pulled)

    def add_gradients(
        self, means: Sequence[Tensor], into: Sequence[Tensor], settings: tuple[float, float, bool]
    ) -> None:
        """Add the gradients to `into`; parameters first, then rhos.

        Args:
            means: parameters and rhos as they are now.
            into: their gradients.
            settings: the scale of everything, beta, and whether eq. (6) is on.
        """
        kernels.hold_gradient(*self._arguments(means, into, settings))

    def addresses(self) -> Iterator[tuple[int | None, int | None]]:
        """Of each parameter and then of each rho: of how it is held, and of what the previous task
        left of it; one of the two."""
        size = ctypes.sizeof(_Held)
        begin = ctypes.addressof(self._held)
        yield from ((begin + k * size, None) for k in range(len(self._held)))
        yield from ((None, previous) for previous in self._previous)

    def value_and_gradients(
        self, means: Sequence[Tensor], settings: tuple[float, float, bool]
    ) -> tuple[float, list[Tensor]]:
        """The value, and the gradients."""
        gradients = [torch.empty_like(mean) for mean in means]
        value = ctypes.c_double()
        arguments = self._arguments(means, gradients, settings)
        check_memory(kernels.hold_value(*arguments, ctypes.addressof(value)))
        return value.value, gradients

    def _arguments(
        self, means: Sequence[Tensor], gradients: Sequence[Tensor], settings: Sequence[float]
    ) -> tuple[Any, ...]:
        return (
            self._held,
            pointers(means),
            pointers(gradients),
            len(self._held),
            self._previous,
            self._nodes,
            len(self._nodes),
            *settings,
            self._size,
            torch.get_num_threads(),
        )


def _described(pulled: Pulled) -> _Held:
    nodes = pulled.node.numel()
    groups = 1 if pulled.source is None else len(pulled.source)
    pointers = (None if tensor is None else tensor.data_ptr() for tensor in pulled)
    return _Held(*pointers, nodes, pulled.anchor.numel() // nodes, nodes // groups)


def add_spring(
    gradient: Tensor,
    weight: Tensor,
    anchor: Tensor,
    importance: Tensor,
    strength: float,
    kept: tuple[Tensor, Tensor] | None = None,
) -> None:
    """`gradient += strength * importance * (weight - anchor)`. Before that, gradient (0 where it is
    not finite) and weight are copied to `kept`."""
    kernels.add_spring(
        *map(Tensor.data_ptr, (gradient, weight, anchor, importance)),
        *((None, None) if kept is None else map(Tensor.data_ptr, kept)),
        weight.numel(),
        strength,
        torch.get_num_threads(),
    )


def add_way(integral: Tensor, gradient: Tensor, before: Tensor, now: Tensor) -> None:
    """`integral += gradient * (before - now)`."""
    of = map(Tensor.data_ptr, (integral, gradient, before, now))
    kernels.add_way(*of, now.numel(), torch.get_num_threads())


def close_rows(into: Tensor, values: Tensor | None, mask: Tensor, rows: Tensor) -> None:
    """`into = values` (None: 0) where the mask is not 0.

    Args:
        into: rows of one width.
        values: like `into`.
        mask: like `into`, or one number for each row.
        rows: (rows,) bytes: 0 where the mask is 0 in all of the row.
    """
    count = rows.numel()
    kernels.close_rows(
        into.data_ptr(),
        None if values is None else values.data_ptr(),
        mask.data_ptr(),
        rows.data_ptr(),
        count,
        into.numel() // count,
        mask.numel() == count,
        torch.get_num_threads(),
    )
