"""The kernels as functions of tensors. Whoever calls them has asked `usable` first.

Normal numbers come as the address of the first: in a small network a tensor that is only looked at
costs more than the work on it.
"""

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
    "local_conv": (_P, _P, _P, _P, _P, _P),
    "local_conv_backward": (_P, _P, _P, _P, _P, _P, _P),
    "pulled_rows": (_P, _P, _P, _P, _P, _P, _P, _P, _N, _N, _N, _F, _F, _I),
    "along": (_P, _P, _P, _P, _N, _N, _I),
    "add_spring": (_P, _P, _P, _P, _P, _P, _N, _F, _I),
    "add_way": (_P, _P, _P, _P, _N, _I),
    "close_rows": (_P, _P, _P, _P, _N, _N, _I, _I),
    "adam": (_P, _P, _N, _F, _F, _I, _N, _I),
    "hold_gradient": (_P, _P, _P, _N, _P, _P, _N, _F, _F, _I, _N, _I),
    "hold_value": (_P, _P, _P, _N, _P, _P, _N, _F, _F, _I, _N, _I, _P),
}
_WITHOUT_ANSWER = (
    *("draw", "draw_backward", "local", "hold_gradient", "adam"),
    *("pulled_rows", "add_spring", "add_way", "close_rows"),
)
"""The others say whether there was memory enough, but for `along`, which is a number."""


class _Kernels:
    """The functions of the library, made ready when the first of them is wanted."""

    def __getattr__(self, name: str) -> Any:
        found = library()
        assert not isinstance(found, str), found
        function = getattr(found, name)
        function.argtypes = _SIGNATURES[name]
        answer = ctypes.c_double if name == "along" else _I
        function.restype = None if name in _WITHOUT_ANSWER else answer
        setattr(self, name, function)
        return function


kernels = _Kernels()
_PLAIN = (Tensor, nn.Parameter)
_HALF = (torch.float32, torch.bfloat16)


def usable(*tensors: Tensor) -> bool:
    """Whether the library is there and these are tensors that it can work on: plain ones on the
    CPU, dense in memory, of float32."""
    for t in tensors:
        if not (t.dtype is torch.float32 and t.is_cpu and t.is_contiguous() and type(t) in _PLAIN):
            return False
    return not isinstance(library(), str)


def usable_activations(*tensors: Tensor, last: bool = False) -> bool:
    """The same of activations, which may be bfloat16 (`last`: and have their channels last)."""
    layout = torch.channels_last if last else torch.contiguous_format
    for t in tensors:
        if not (t.dtype in _HALF and t.is_cpu and type(t) in _PLAIN):
            return False
        if not t.is_contiguous(memory_format=layout):
            return False
    return not isinstance(library(), str)


def draw(mean: Tensor, rho: Tensor, normals: int, dtype: torch.dtype) -> Tensor:
    """`mean + softplus(rho) * normals`, rho (nodes,) along the first dimension of `mean`."""
    drawn = torch.empty_like(mean, dtype=dtype)
    kernels.draw(
        mean.data_ptr(),
        rho.data_ptr(),
        normals,
        drawn.data_ptr(),
        *_rows(mean, rho),
        dtype is torch.bfloat16,
        torch.get_num_threads(),
    )
    return drawn


def draw_backward(gradient: Tensor, rho: Tensor, normals: int) -> tuple[Tensor, Tensor]:
    """The gradients of `draw` with respect to mean and rho, from that of the draw."""
    half = gradient.dtype is torch.bfloat16
    to_mean = torch.empty_like(gradient, dtype=torch.float32) if half else gradient
    to_rho = torch.empty_like(rho)
    kernels.draw_backward(
        gradient.data_ptr(),
        rho.data_ptr(),
        normals,
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


def local(output: Tensor, input: Tensor, rho: Tensor, normals: int) -> Tensor:
    """`output += softplus(rho) * |input| * normals` in place, for a linear layer. Returns what its
    backward needs: the length of each input, and then sigma of each node."""
    nodes = rho.numel()
    rows = output.numel() // nodes
    lengths = torch.empty(rows + nodes)
    kernels.local(
        output.data_ptr(),
        input.data_ptr(),
        rho.data_ptr(),
        normals,
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
    normals: int,
    lengths: Tensor,
    to_input: Tensor | None,
) -> Tensor:
    """The gradient of `local` with respect to rho; that of the input is added to `to_input`."""
    to_rho = torch.empty_like(rho)
    nodes = rho.numel()
    done = kernels.local_backward(
        gradient.data_ptr(),
        input.data_ptr(),
        normals,
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
    check_memory(done)
    return to_rho


class _Conv(ctypes.Structure):
    """A convolution, as the library reads it."""

    _fields_ = (
        *((name, _N) for name in ("examples", "channels", "height", "width")),
        *((name, _N) for name in ("nodes", "out_height", "out_width")),
        *((name, _N * 2) for name in ("kernel", "stride", "padding", "dilation")),
        ("piece", _N),
        *((name, _I) for name in ("half", "half_input", "last", "threads")),
    )


class Window(NamedTuple):
    """What each output of a convolution sees of its input."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


class LocalConv:
    """`output += softplus(rho) * length * normals` for a convolution, and its gradients, where
    length^2 is the sum of squares of the inputs that an output sees.

    Args:
        output: (batch, nodes, height, width)
        input: (batch, channels, height, width)
        window: of the convolution.
        pieces: of normals, as many as there are outputs, in the order of their numbers.
        last: whether channels are the last dimension in memory, of outputs, inputs and gradients.
    """

    def __init__(
        self, output: Tensor, input: Tensor, window: Window, pieces: Sequence[Tensor], last: bool
    ) -> None:
        pairs = ((_N * 2)(*pair) for pair in window)
        halves = output.dtype is torch.bfloat16, input.dtype is torch.bfloat16
        self._conv = _Conv(
            *input.shape, *output.shape[1:], *pairs, pieces[0].numel(), *halves, last
        )
        self.window, self._pieces, self._normals = window, pieces, pointers(pieces)
        self.layout = torch.channels_last if last else torch.contiguous_format

    def normals_like(self, output: Tensor) -> Tensor:
        """The normals in the shape of the output."""
        return torch.cat(list(self._pieces)).view(output.shape)

    def add_noise(self, output: Tensor, input: Tensor, rho: Tensor) -> Tensor:
        """In place; returns what `gradients` needs: each length, and then each sigma."""
        self._conv.threads = torch.get_num_threads()
        lengths = torch.empty(output.numel() // output.shape[1] + rho.numel())
        done = kernels.local_conv(
            ctypes.addressof(self._conv),
            output.data_ptr(),
            input.data_ptr(),
            rho.data_ptr(),
            self._normals,
            lengths.data_ptr(),
        )
        check_memory(done)
        return lengths

    def gradients(
        self, gradient: Tensor, input: Tensor, lengths: Tensor, to_input: Tensor | None
    ) -> Tensor:
        """Of rho; that of the input into `to_input`."""
        self._conv.threads = torch.get_num_threads()
        to_rho = torch.empty(gradient.shape[1])
        done = kernels.local_conv_backward(
            ctypes.addressof(self._conv),
            gradient.data_ptr(),
            input.data_ptr(),
            self._normals,
            lengths.data_ptr(),
            None if to_input is None else to_input.data_ptr(),
            to_rho.data_ptr(),
        )
        check_memory(done)
        return to_rho


def check_memory(done: int) -> None:
    """Raise where a kernel says that there was not enough."""
    if not done:
        raise MemoryError


def pointers(tensors: Sequence[Tensor]) -> Any:
    """Their addresses, as an array of C."""
    return (_P * len(tensors))(*map(Tensor.data_ptr, tensors))
