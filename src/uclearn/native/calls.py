"""The kernels as functions of tensors. Whoever calls them has asked `usable` first."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from uclearn.native.build import library

_P, _N, _I, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "draw": (_P, _P, _P, _P, _N, _N, _I, _I),
    "draw_backward": (_P, _P, _P, _P, _P, _N, _N, _I, _I),
    "local": (_P, _P, _P, _P, _P, _N, _N, _N, _I, _I, _I),
    "local_backward": (_P, _P, _P, _P, _P, _P, _N, _N, _N, _I, _I, _I),
    "hold_gradient": (_P, _P, _P, _N, _P, _P, _N, _F, _F, _I, _N, _I),
    "hold_value": (_P, _P, _P, _N, _P, _P, _N, _F, _F, _I, _N, _I, _P),
}


class _Kernels:
    """The functions of the library, made ready when the first of them is wanted."""

    def __getattr__(self, name: str) -> Any:
        found = library()
        assert not isinstance(found, str), found
        function = getattr(found, name)
        function.argtypes = _SIGNATURES[name]
        function.restype = _I if name in ("local_backward", "hold_value") else None
        setattr(self, name, function)
        return function


_kernels = _Kernels()
_PLAIN = (Tensor, nn.Parameter)
_FLOAT, _HALF = (torch.float32,), (torch.float32, torch.bfloat16)


def usable(*tensors: Tensor, half: bool = False) -> bool:
    """Whether the library is there and these are tensors that it can work on: plain ones on the
    CPU, dense in memory, of float32 (`half`: or bfloat16)."""
    kinds = _HALF if half else _FLOAT
    for t in tensors:
        if t.dtype not in kinds or type(t) not in _PLAIN or not (t.is_cpu and t.is_contiguous()):
            return False
    return not isinstance(library(), str)


def draw(mean: Tensor, rho: Tensor, normals: Tensor, dtype: torch.dtype) -> Tensor:
    """`mean + softplus(rho) * normals`, rho (nodes,) along the first dimension of `mean`."""
    drawn = torch.empty_like(mean, dtype=dtype)
    _kernels.draw(
        mean.data_ptr(),
        rho.data_ptr(),
        normals.data_ptr(),
        drawn.data_ptr(),
        *_rows(mean, rho),
        dtype is torch.bfloat16,
        torch.get_num_threads(),
    )
    return drawn


def draw_backward(gradient: Tensor, rho: Tensor, normals: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of `draw` with respect to mean and rho, from that of the draw."""
    half = gradient.dtype is torch.bfloat16
    to_mean = torch.empty_like(gradient, dtype=torch.float32) if half else gradient
    to_rho = torch.empty_like(rho)
    _kernels.draw_backward(
        gradient.data_ptr(),
        rho.data_ptr(),
        normals.data_ptr(),
        to_mean.data_ptr(),
        to_rho.data_ptr(),
        *_rows(gradient, rho),
        half,
        torch.get_num_threads(),
    )
    return to_mean, to_rho


def _rows(weight: Tensor, rho: Tensor) -> tuple[int, int]:
    nodes = rho.numel()
    return nodes, weight.numel() // nodes


def local(output: Tensor, input: Tensor, rho: Tensor, normals: Tensor) -> Tensor:
    """`output += softplus(rho) * |input| * normals` in place, for a linear layer. Returns what its
    backward needs: the length of each input, and then sigma of each node."""
    nodes = rho.numel()
    rows = output.numel() // nodes
    lengths = torch.empty(rows + nodes)
    _kernels.local(
        output.data_ptr(),
        input.data_ptr(),
        rho.data_ptr(),
        normals.data_ptr(),
        lengths.data_ptr(),
        rows,
        input.shape[-1],
        nodes,
        output.dtype is torch.bfloat16,
        input.dtype is torch.bfloat16,
        torch.get_num_threads(),
    )
    return lengths


def local_backward(
    gradient: Tensor,
    input: Tensor,
    rho: Tensor,
    normals: Tensor,
    lengths: Tensor,
    to_input: Tensor | None,
) -> Tensor:
    """The gradient of `local` with respect to rho; that of the input into `to_input`."""
    to_rho = torch.empty_like(rho)
    nodes = rho.numel()
    done = _kernels.local_backward(
        gradient.data_ptr(),
        input.data_ptr(),
        normals.data_ptr(),
        lengths.data_ptr(),
        None if to_input is None else to_input.data_ptr(),
        to_rho.data_ptr(),
        lengths.numel() - nodes,
        input.shape[-1],
        nodes,
        gradient.dtype is torch.bfloat16,
        input.dtype is torch.bfloat16,
        torch.get_num_threads(),
    )
    _check_memory(done)
    return to_rho


def _check_memory(done: int) -> None:
    if not done:
        raise MemoryError


class _Held(ctypes.Structure):
    """How the weights of one parameter are held, as the library reads it."""

    _fields_ = (
        *((name, _P) for name in ("anchor", "node", "source", "freeze")),
        *((name, _N) for name in ("rows", "width", "rows_per_group")),
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
        self._previous = _pointers(previous)
        self._nodes = (_N * len(previous))(*(sigma.numel() for sigma in previous))
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
        _kernels.hold_gradient(*self._arguments(means, into, settings))

    def value_and_gradients(
        self, means: Sequence[Tensor], settings: tuple[float, float, bool]
    ) -> tuple[float, list[Tensor]]:
        """The value, and the gradients."""
        gradients = [torch.empty_like(mean) for mean in means]
        value = ctypes.c_double()
        arguments = self._arguments(means, gradients, settings)
        _check_memory(_kernels.hold_value(*arguments, ctypes.addressof(value)))
        return value.value, gradients

    def _arguments(
        self, means: Sequence[Tensor], gradients: Sequence[Tensor], settings: Sequence[float]
    ) -> tuple[Any, ...]:
        return (
            self._held,
            _pointers(means),
            _pointers(gradients),
            len(self._held),
            self._previous,
            self._nodes,
            len(self._nodes),
            *settings,
            self._size,
            torch.get_num_threads(),
        )


def _pointers(tensors: Sequence[Tensor]) -> Any:
    return (_P * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def _described(pulled: Pulled) -> _Held:
    nodes = pulled.node.numel()
    groups = 1 if pulled.source is None else len(pulled.source)
    pointers = (None if tensor is None else tensor.data_ptr() for tensor in pulled)
    return _Held(*pointers, nodes, pulled.anchor.numel() // nodes, nodes // groups)
