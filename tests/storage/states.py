"""Random states, and what it means for two of them to be the same."""

import struct
from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import Tensor

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex128,
    torch.complex64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint64,
    torch.uint32,
    torch.uint16,
    torch.uint8,
    torch.bool,
]


@st.composite
def tensors(draw: Callable[[st.SearchStrategy[object]], object]) -> Tensor:
    """Any dtype, 0 to 3 dimensions, also empty, also not contiguous; any bits, so any nan."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    assert isinstance(dtype, torch.dtype)
    assert isinstance(shape, list)
    count = torch.Size(shape).numel()
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    size = count * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    assert isinstance(data, bytes)
    if dtype is torch.bool:
        data = bytes(byte % 2 for byte in data)
    tensor = torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
    if not shape:
        return tensor
    views = [tensor, tensor.transpose(0, -1), tensor[::2], tensor[..., ::2], tensor[1:]]
    view = draw(st.sampled_from(views))
    assert isinstance(view, Tensor)
    return view


KEYS = st.text(st.characters(), max_size=5) | st.integers()
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | tensors()
)
STATES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=15,
)


def bits(tensor: Tensor) -> bytes:
    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    fresh = plain.clone(memory_format=torch.contiguous_format)
    return fresh.reshape(-1).view(torch.uint8).numpy().tobytes()


def same(one: object, other: object) -> bool:
    """Equal in type, order and every bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return (one.dtype, one.shape, bits(one)) == (other.dtype, other.shape, bits(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("d", one) == struct.pack("d", other)
    return one == other
