"""A nesting of Python values and tensors, taken apart into JSON and a flat dict of tensors.

JSON says None, bool, str, list, ordinary integers and finite floats as they are. The rest is an
object with a single key that names the type: `{"dict": [[key, value], ...]}` (in order, and with
integers as keys), `{"tuple": [...]}`, `{"float": "7ff0000000000000"}` (bits of nan and infinities),
`{"int": "0x..."}` (beyond 64 bits), `{"tensor": name}` and `{"complex": name}` (a tensor stored as
pairs of real numbers, since safetensors files know no complex ones).
"""

import json
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from uclearn.errors import CheckpointError

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
