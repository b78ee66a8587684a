"""Inputs of several parts: what a model is called with by name, held example by example.

A tokenizer's output, two pictures, a picture and a table: `Fields` can be cut, joined, moved and
counted as one tensor of examples can, so that whoever handles examples need not know what a model
takes. `uclearn.networks.call` hands its parts to the model.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeAlias, overload

import torch
from torch import Tensor
from torch.utils._pytree import register_pytree_node

from uclearn.errors import DataError

Examples: TypeAlias = Any
"""A tensor whose first dimension counts examples, or `Fields`."""


class Fields:
    """Tensors by name that hold the same examples, one for each place of their first dimension.

    >>> words = Fields({"input_ids": torch.arange(6).view(3, 2), "mask": torch.ones(3, 2)})
    >>> len(words), words[1:]["input_ids"].tolist(), list(words.keys())
    (3, [[2, 3], [4, 5]], ['input_ids', 'mask'])
    >>> torch.cat([words, words[:1]])["input_ids"].shape
    torch.Size([4, 2])
    """

    def __init__(self, parts: Mapping[str, Tensor]) -> None:
        self._parts = dict(parts)
        sizes = {name: len(part) if part.dim() else 0 for name, part in self._parts.items()}
        if not sizes or len(set(sizes.values())) > 1:
            told = ", ".join(f"{name}: {size}" for name, size in sizes.items()) or "none"
            raise DataError(
                "Inputs given by name must hold the same number of examples each, and there must "
                f"be one at least, got {told}."
            )

    # -- as a mapping, so that `model(**fields)` works ----------------------------------------

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._parts.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def values(self) -> ValuesView[Tensor]:
        """The tensors."""
        return self._parts.values()

    def items(self) -> ItemsView[str, Tensor]:
        """Both."""
        return self._parts.items()

    @overload
    def __getitem__(self, key: str) -> Tensor: ...
    @overload
    def __getitem__(self, key: slice | Tensor | int) -> Fields: ...
    def __getitem__(self, key: str | slice | Tensor | int) -> Tensor | Fields:
        return self._parts[key] if isinstance(key, str) else self._each(lambda part: part[key])

    # -- as a tensor of examples --------------------------------------------------------------

    def __len__(self) -> int:
        """How many examples there are."""
        return len(next(iter(self._parts.values())))

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return next(iter(self._parts.values())).device

    def index_select(self, dim: int, index: Tensor) -> Fields:
        """Some of the examples; `dim` is 0."""
        return self._each(lambda part: part.index_select(dim, index))

    def split(self, size: int) -> tuple[Fields, ...]:
        """So many examples at a time."""
        return tuple(self[begin : begin + size] for begin in range(0, len(self), size))

    def to(self, device: torch.device) -> Fields:
        """The same on `device`."""
        return self._each(lambda part: part.to(device))

    def contiguous(self) -> Fields:
        """The same, each part in one piece."""
        return self._each(Tensor.contiguous)

    def clone(self) -> Fields:
        """A copy."""
        return self._each(Tensor.clone)

    def detach(self) -> Fields:
        """Without a graph."""
        return self._each(Tensor.detach)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is not torch.cat:
            return NotImplemented
        (every,) = args
        return cls({name: torch.cat([one[name] for one in every]) for name in every[0]})

    def _each(self, change: Callable[[Tensor], Tensor]) -> Fields:
        return Fields({name: change(part) for name, part in self._parts.items()})


def _taken_apart(fields: Fields) -> tuple[list[Any], Any]:
    return list(fields.values()), list(fields.keys())


def _put_together(parts: Iterable[Any], names: Any) -> Any:
    named = dict(zip(names, parts, strict=True))
    # what is no tensor has no examples to count
    return Fields(named) if all(isinstance(part, Tensor) for part in named.values()) else named


register_pytree_node(Fields, _taken_apart, _put_together, serialized_type_name="uclearn.Fields")


def as_fields(inputs: Any) -> Examples:
    """Inputs given by name, or several of them in a tuple, as `Fields`; anything else as it is."""
    return Fields(dict(inputs)) if isinstance(inputs, Mapping) else inputs


def described(inputs: Examples) -> str:
    """What an example looks like, in words.

    >>> described(torch.zeros(5, 2))
    'shape (2,) and type float32'
    """
    if isinstance(inputs, Fields):
        return ", ".join(f"`{name}` of {described(part)}" for name, part in inputs.items())
    return f"shape {tuple(inputs.shape[1:])} and type {str(inputs.dtype).removeprefix('torch.')}"


def alike(one: Examples, other: Examples) -> bool:
    """Whether examples of both have the same parts, shapes and types."""
    if isinstance(one, Fields) and isinstance(other, Fields):
        same = one.keys() == other.keys()
        return same and all(alike(part, other[name]) for name, part in one.items())
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        return False
    return one.shape[1:] == other.shape[1:] and one.dtype == other.dtype


def as_buffers(name: str, inputs: Examples) -> dict[str, Tensor]:
    """Under which names a module keeps inputs: one for a tensor, several for `Fields`.

    >>> list(as_buffers("kept", Fields({"ids": torch.zeros(2)})))
    ['kept:ids']
    """
    if isinstance(inputs, Fields):
        return {f"{name}:{part}": tensor for part, tensor in inputs.items()}
    return {name: inputs}


def from_buffers(name: str, buffers: Mapping[str, Tensor | None]) -> Examples:
    """What `as_buffers` put there."""
    parts = {
        key.removeprefix(f"{name}:"): tensor
        for key, tensor in buffers.items()
        if key.startswith(f"{name}:") and tensor is not None
    }
    return Fields(parts) if parts else buffers[name]
