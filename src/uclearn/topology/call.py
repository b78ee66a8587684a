"""One operation of a forward pass, as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from uclearn.topology.sets import NodeSets

Bound = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One operation as it was called, seen twice: with its data and with identities instead."""

    operation: OpOverload
    data: Bound
    """Its arguments by name, in the order of its schema, defaults filled in."""
    numbers: Bound
    """The same, with a tensor of set numbers in place of every tensor."""
    output: Any

    @property
    def name(self) -> str:
        """What it is called, in place or not: `relu` for `relu_`."""
        return twin_name(self.operation)

    @property
    def result(self) -> Tensor:
        """Its output, or the first of several."""
        first: Tensor = self.output if isinstance(self.output, Tensor) else self.output[0]
        return first

    def operands(self) -> list[Tensor]:
        """The set numbers of every tensor that it was given as such."""
        return [value for value in self.numbers.values() if isinstance(value, Tensor)]

    def every_output(self, numbers: Tensor) -> Any:
        """The same set numbers for each of its outputs (values and their indices)."""
        return numbers if isinstance(self.output, Tensor) else tuple(numbers for _ in self.output)


Rule = Callable[[NodeSets, Call], Any]
"""What an operation does to identities: set numbers shaped like its output, or None for a result
that no node has made."""


def twin_name(operation: OpOverload) -> str:
    """The name of the operation that does the same, but not in place."""
    name: str = operation.overloadpacket.__name__
    return name if name.endswith("__") else name.removesuffix("_")


def bind(operation: OpOverload, args: Any, kwargs: Any) -> Bound:
    """The arguments by name. A place for the output (`out=`) is no argument."""
    schema = operation._schema.arguments
    given = {**dict(zip([a.name for a in schema], args, strict=False)), **kwargs}
    return {a.name: given.get(a.name, a.default_value) for a in schema if not a.is_out}


def as_list(value: int | Sequence[int]) -> list[int]:
    """Sizes are given as one number or as one per dimension."""
    return [value] if isinstance(value, int) else list(value)
