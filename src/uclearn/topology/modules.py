"""What watches the modules of a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map_only

from uclearn.errors import UnsupportedLayerError
from uclearn.topology.nodes import node_count, node_dim
from uclearn.topology.operations import Operations

Finish = Callable[[str, nn.Module, list[Any], Any], Any]


class Modules:
    """Notes which nodes arrive at each layer, and that what leaves it are its own nodes."""

    def __init__(
        self,
        layers: Mapping[str, nn.Module],
        followed: Mapping[str, nn.Module],
        opaque: Mapping[str, nn.Module],
    ) -> None:
        self.layers, self.followed, self.opaque = layers, followed, opaque
        self.offsets: dict[str, int] = {}
        self.total = 0
        for name, layer in layers.items():
            self.offsets[name] = self.total
            self.total += node_count(layer)
        held = {**layers, **followed}
        self.operations = Operations({p: name for name in held for p in held[name].parameters()})
        self._sets, self._memory = self.operations.sets, self.operations.memory
        self._arrived: dict[str, Tensor] = {}
        self.swallowed: set[int] = set()
        """The nodes that enter opaque modules."""

    def sources(self) -> dict[str, list[frozenset[int]]]:
        """For each layer the nodes that feed each of its input features."""
        missing = [n for n in (*self.layers, *self.followed) if n not in self._arrived]
        if missing:
            raise UnsupportedLayerError(
                f"These layers were not used when the model ran on the example: "
                f"{', '.join(missing)}. Give an example that reaches every layer, or name the "
                "layers in `plain`."
            )
        return {
            name: [self._sets.members(number) for number in numbers.tolist()]
            for name, numbers in self._arrived.items()
        }

    def attach(self, model: nn.Module) -> None:
        """Watch by hooks; inside of a layer single operations need not be followed."""
        groups: tuple[tuple[Mapping[str, nn.Module], Finish], ...] = (
            (self.layers, self._leave_layer),
            (self.followed, self._leave_followed),
            (self.opaque, self._leave_opaque),
        )
        special = {
            id(module): (name, finish) for group, finish in groups for name, module in group.items()
        }
        for place, module in model.named_modules():
            name, finish = special.get(id(module), (place, None))
            module.register_forward_pre_hook(self._enter(name, finish is not None))
            leave = self._leave(name, finish)
            module.register_forward_hook(leave, with_kwargs=True, always_call=True)

    def _enter(self, name: str, closed: bool) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any) -> None:
            kind = type(module).__name__
            self.operations.within.append(f"{name or 'the model itself'} ({kind})")
            self.operations.resting += closed

        return hook

    def _leave(self, name: str, finish: Finish | None) -> Callable[..., Any]:
        def hook(module: nn.Module, arguments: Any, named: dict[str, Any], output: Any) -> Any:
            self.operations.within.pop()
            if finish is None:
                return None
            try:
                if output is None:  # the module raised
                    return None
                return finish(name, module, [*arguments, *named.values()], output)
            finally:
                self.operations.resting -= 1

        return hook

    def _leave_layer(
        self, name: str, module: nn.Module, given: list[Any], output: Tensor
    ) -> Tensor:
        dim, input = node_dim(module), given[0]
        if input.is_floating_point():
            self._note_arrival(name, input, [dim])
        else:  # an embedding reads indices, which are inputs of the network
            self._arrived[name] = self._sets.blank((int(module.num_embeddings),))  # type: ignore[arg-type]
        first = self.offsets[name]
        nodes = [self._sets.number({first + i}) for i in range(node_count(module))]
        numbers = torch.tensor(nodes, device="cpu").view(-1, *[1] * (-1 - dim))
        return self._made(output, numbers.expand(output.shape))

    def _leave_followed(
        self, name: str, module: nn.Module, given: list[Any], output: Tensor
    ) -> Tensor:
        input = given[0]
        self._note_arrival(name, input, _feature_dims(module, input))
        return self._made(output, self._memory.read(input))

    def _leave_opaque(self, name: str, module: nn.Module, given: list[Any], output: Any) -> Any:
        for tensor in tree_flatten(given)[0]:
            if isinstance(tensor, Tensor):
                for number in self._memory.read(tensor).unique().tolist():
                    self.swallowed |= self._sets.members(number)
        return tree_map_only(Tensor, torch.clone, output)  # new memory: nobody's

    def _made(self, output: Tensor, numbers: Tensor) -> Tensor:
        own = output.clone()  # a layer may hand out memory that others see too
        self._memory.write(own, numbers)
        return own

    def _note_arrival(self, name: str, tensor: Tensor, dims: Iterable[int]) -> None:
        kept = {d % tensor.dim() for d in dims}
        others = [d for d in range(tensor.dim()) if d not in kept]
        features = self._sets.merge(self._memory.read(tensor), others).reshape(-1)
        earlier = self._arrived.get(name)  # a layer used twice is fed by both uses
        features = features if earlier is None else self._sets.union(earlier, features)
        self._arrived[name] = features.clone()  # the tensor may yet change in place


def _feature_dims(norm: nn.Module, input: Tensor) -> Iterable[int]:
    """The dimensions that the parameters of a normalisation stand for."""
    shape = getattr(norm, "normalized_shape", None)
    if shape is not None:
        return range(-len(shape), 0)
    if isinstance(norm, nn.modules.instancenorm._InstanceNorm):  # the batch may be missing
        return [0 if input.dim() == norm._get_no_batch_dim() else 1]
    return [1]  # the channels
