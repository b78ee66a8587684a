"""A state as the bytes of one safetensors file, and back.

    8 bytes     length of the header, little endian
    header      JSON: metadata {digest, format, version, kind, skeleton} and, per tensor, its dtype,
                shape and place in the data; padded with spaces to a multiple of 8
    data        the tensors, one after the other, widest elements first so that all are aligned

Any safetensors reader shows the tensors; the skeleton says how they were nested. It is JSON, which
says None, bool, str, list, ordinary integers and finite floats as they are. The rest is an object
with a single key that names the type: `{"dict": [[key, value], ...]}` (in order, and with integers
as keys), `{"tuple": [...]}`, `{"float": "7ff0000000000000"}` (bits of nan and infinities),
`{"int": "0x..."}` (beyond 64 bits), `{"tensor": name}` and `{"complex": name}` (a tensor stored as
pairs of real numbers, since safetensors files know no complex ones).

The library writes metadata in random order and copies every tensor, so the header is made here: the
same state gives the same bytes, and tensors go to the disk straight from where they are.

The digest is the CRC-32 of all bytes of the file but its own eight. It is there against accidents,
not against malice: a CRC-32 notices every damage within 32 consecutive bits for certain, and any
other but for one in four thousand million.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from uclearn.errors import CheckpointError
from uclearn.storage.files import Chunk

FORMAT = "uclearn.checkpoint"
VERSION = 1

_METADATA = "__metadata__"
_PREFIX = b'{"__metadata__":{"digest":"'  # how a header begins: the digest has a fixed place
_DIGEST = slice(8 + len(_PREFIX), 8 + len(_PREFIX) + 8)
_LONGEST_HEADER = 100_000_000  # bytes; safetensors readers refuse longer ones

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def pack(state: State, kind: str) -> list[Chunk]:
    """The file that holds `state`, in pieces to be written one after the other.

    Tensors are not copied where their memory can be written as it is: write the pieces before the
    tensors change.
    """
    skeleton, tensors = take_apart(state)
    plain = {name: _plain(name, tensor) for name, tensor in tensors.items()}
    plain = dict(sorted(plain.items(), key=lambda item: -item[1].element_size()))
    about = {"format": FORMAT, "version": str(VERSION), "kind": kind, "skeleton": skeleton}
    header = _header({"digest": "0" * 8, **about}, plain)
    body = [_bytes_of(tensor) for tensor in plain.values()]
    header[_DIGEST] = _digest([header, *body])
    return [header, *body]


def unpack(data: bytes, kind: str, device: torch.device | str) -> Any:
    """The state in the file that consists of `data`; refuses all but a sound one of this `kind`.

    The error says only what is wrong with the file: its caller knows which file it is.
    """
    metadata, size = _read_header(data)
    if metadata.get("format") != FORMAT:
        raise CheckpointError("it was not written by uclearn")
    if metadata.get("version") != str(VERSION):
        raise CheckpointError(
            f"it has format version {metadata.get('version')} and this uclearn reads {VERSION}, "
            "use the uclearn that wrote it"
        )
    if len(data) < size:
        raise CheckpointError(f"it is cut short: {len(data)} bytes instead of {size}")
    if data[_DIGEST] != _digest([data]):
        raise CheckpointError("its contents do not match their digest: it is damaged")
    if metadata.get("kind") != kind:
        raise CheckpointError(f"it holds a {metadata.get('kind')!r}, not a {kind!r}")
    try:
        tensors = safetensors.torch.load(data)
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"its tensors cannot be read ({error})") from error
    moved = {name: tensor.to(device) for name, tensor in tensors.items()}
    return put_together(metadata.get("skeleton", ""), moved)


def _plain(name: str, tensor: Tensor) -> Tensor:
    """`tensor` in the form in which its memory can be written: on the CPU, contiguous."""
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.dtype not in _DTYPES:
        raise CheckpointError(
            f"Tensor {name!r} must be dense, hold data and have one of the dtypes "
            f"{', '.join(str(dtype) for dtype in _DTYPES)} or a complex one, got {tensor.dtype}, "
            f"{tensor.layout}, on {tensor.device}. Convert it before saving."
        )
    return tensor.detach().cpu().resolve_neg().contiguous()


def _bytes_of(tensor: Tensor) -> memoryview:
    # Not reshape(-1): that leaves a tensor of one element its stride, which `view` may refuse.
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy().data


def _header(metadata: dict[str, str], tensors: dict[str, Tensor]) -> bytearray:
    entries: dict[str, object] = {_METADATA: metadata}
    end = 0
    for name, tensor in tensors.items():
        shape, offsets = list(tensor.shape), [end, end + tensor.nbytes]
        end = offsets[1]
        entries[name] = {"dtype": _DTYPES[tensor.dtype], "shape": shape, "data_offsets": offsets}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LONGEST_HEADER:
        raise CheckpointError(
            f"`state` holds too many values that are not tensors: describing them takes "
            f"{len(text)} bytes, the most is {_LONGEST_HEADER}. Turn long lists into tensors."
        )
    return bytearray(len(text).to_bytes(8, "little") + text)


def _digest(chunks: Sequence[Chunk]) -> bytes:
    """The CRC-32 in hexadecimal of all chunks but the digest's own place in the first."""
    first = memoryview(chunks[0])
    crc = zlib.crc32(first[_DIGEST.stop :], zlib.crc32(first[: _DIGEST.start]))
    for chunk in chunks[1:]:
        crc = zlib.crc32(chunk, crc)
    return f"{crc:08x}".encode()


def _read_header(data: bytes) -> tuple[dict[str, Any], int]:
    """The metadata of the file that consists of `data`, and the size the file should have."""
    if not data:
        raise CheckpointError("it is empty")
    length = int.from_bytes(data[:8], "little")
    if data[8:9] != b"{" or length > _LONGEST_HEADER:
        raise CheckpointError("it is not a safetensors file")
    if len(data) < 8 + length:
        raise CheckpointError(f"it is cut short: {len(data)} bytes instead of {8 + length} or more")
    try:
        header = dict(json.loads(data[8 : 8 + length]))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != _METADATA]
        return dict(header.get(_METADATA, {})), 8 + length + max(ends, default=0)
    except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"its header cannot be read ({error})") from error


State: TypeAlias = object
"""Any nesting of dict (keys str or int), list, tuple, None, bool, int, float, str and Tensor.

Checked when it is taken apart: as a static type it would refuse every `dict[str, object]`."""

DEEPEST = 100  # levels of nesting; beyond, a state surely contains itself
_LARGEST = 1 << 63


def take_apart(state: State) -> tuple[str, dict[str, Tensor]]:
    """`state` as JSON in which names stand for tensors, and the tensors by name.

    A name is a number followed by the way to the tensor, as `3/optimizer/state/0/exp_avg`.

    >>> import torch
    >>> take_apart({"step": 3, "weight": torch.zeros(1)})
    ('{"dict":[["step",3],["weight",{"tensor":"0/weight"}]]}', {'0/weight': tensor([0.])})
    """
    tensors: dict[str, Tensor] = {}
    skeleton = _describe(state, (), tensors)
    return json.dumps(skeleton, separators=(",", ":"), allow_nan=False), tensors


def put_together(skeleton: str, tensors: Mapping[str, Tensor]) -> Any:
    """The state that `take_apart` took apart. The caller knows what it should be: hence `Any`."""
    try:
        return _rebuild(json.loads(skeleton), tensors)
    except (KeyError, TypeError, ValueError, struct.error, RecursionError) as error:
        raise CheckpointError(
            f"the description of its contents makes no sense ({error!r})"
        ) from error


def _describe(value: object, way: tuple[str | int, ...], tensors: dict[str, Tensor]) -> object:
    if len(way) > DEEPEST:
        raise CheckpointError(
            f"{_place(way[:3])} is nested more than {DEEPEST} levels deep. Does it contain itself?"
        )
    if isinstance(value, Tensor):
        name = "/".join([str(len(tensors)), *map(_printable, way)])
        if value.is_complex():
            tensors[name] = torch.view_as_real(value.detach().resolve_conj())
            return {"complex": name}
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, dict):  # and its subclasses, such as the OrderedDict of a state_dict
        return {"dict": [_item(key, entry, way, tensors) for key, entry in value.items()]}
    # Exact types only: a subclass (torch.Size, numpy.float64, an enum) would not come back as such.
    if type(value) is list or type(value) is tuple:
        entries = [_describe(entry, (*way, i), tensors) for i, entry in enumerate(value)]
        return entries if type(value) is list else {"tuple": entries}
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if -_LARGEST <= value < _LARGEST else {"int": hex(value)}
    if type(value) is float:
        return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
    raise CheckpointError(
        f"{_place(way)} must be a dict, list, tuple, None, bool, int, float, str or Tensor, "
        f"got {value!r} of type {type(value).__name__}. Convert it before saving."
    )


def _item(
    key: object, value: object, way: tuple[str | int, ...], tensors: dict[str, Tensor]
) -> list[object]:
    if type(key) is not str and type(key) is not int:
        raise CheckpointError(
            f"The keys of {_place(way)} must be str or int, got {key!r} of type "
            f"{type(key).__name__}. Convert it before saving."
        )
    return [_describe(key, way, tensors), _describe(value, (*way, key), tensors)]


def _rebuild(skeleton: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(skeleton, list):
        return [_rebuild(entry, tensors) for entry in skeleton]
    if not isinstance(skeleton, dict):
        return skeleton
    [(kind, content)] = skeleton.items()
    return _REBUILD[kind](content, tensors)


def _rebuild_dict(content: Any, tensors: Mapping[str, Tensor]) -> Any:
    return {_rebuild(key, tensors): _rebuild(value, tensors) for key, value in content}


_REBUILD: dict[str, Callable[[Any, Mapping[str, Tensor]], Any]] = {
    "dict": _rebuild_dict,
    "tuple": lambda content, tensors: tuple(_rebuild(content, tensors)),
    "float": lambda content, tensors: struct.unpack(">d", bytes.fromhex(content))[0],
    "int": lambda content, tensors: int(content, 16),
    "tensor": lambda content, tensors: tensors[content],
    "complex": lambda content, tensors: torch.view_as_complex(tensors[content]),
}


def _place(way: tuple[str | int, ...]) -> str:
    return "`state" + "".join(f"[{step!r}]" for step in way) + "`"


def _printable(step: str | int) -> str:
    # Half of a surrogate pair is a legal str, but no legal UTF-8 and so no legal tensor name.
    return str(step).encode(errors="replace").decode()
