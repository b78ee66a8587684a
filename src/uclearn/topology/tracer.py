"""What watches a model while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from uclearn.errors import UnsupportedLayerError
from uclearn.topology.call import Call, Rule, bind
from uclearn.topology.memory import Memory
from uclearn.topology.nodes import node_count, node_dim
from uclearn.topology.rules import rule_for
from uclearn.topology.sets import NodeSets


class Tracer(TorchDispatchMode):
    """Sees every operation of a forward pass and keeps, for each place in memory, its set of
    nodes."""

    def __init__(
        self,
        layers: Mapping[str, nn.Module],
        followed: Mapping[str, nn.Module],
        opaque: Mapping[str, nn.Module],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.layers, self.followed, self.opaque = layers, followed, opaque
        self.sets = NodeSets()
        self.memory = Memory(self.sets)
        self.offsets: dict[str, int] = {}
        self.total = 0
        for name, layer in layers.items():
            self.offsets[name] = self.total
            self.total += node_count(layer)
        self.owners = {
            parameter.untyped_storage().data_ptr(): name
            for name, layer in {**layers, **followed}.items()
            for parameter in layer.parameters()
        }
        self.arrived: dict[str, Tensor] = {}
        self.within: list[str] = []
        self.resting = 0
        self.refusal: UnsupportedLayerError | None = None

    def run(self, forward: Callable[[], Any]) -> None:
        """Watch one forward pass."""
        # Below autograd an operation arrives whole (`layer_norm`, not its parts), and what the
        # model caches stays an ordinary tensor, as it would not in inference mode.
        try:
            with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), self:
                forward()
        except TypeError:  # into which operators such as `//` turn a refusal
            if self.refusal is None:
                raise
        if self.refusal is not None:
            raise self.refusal

    def found(self) -> dict[str, list[frozenset[int]]]:
        """For each layer the nodes that feed each of its input features."""
        missing = [n for n in (*self.layers, *self.followed) if n not in self.arrived]
        if missing:
            raise UnsupportedLayerError(
                f"These layers were not used when the model ran on the example: "
                f"{', '.join(missing)}. Give an example that reaches every layer, or name the "
                "layers in `plain`."
            )
        return {
            name: [self.sets.members(number) for number in numbers.tolist()]
            for name, numbers in self.arrived.items()
        }

    # -- modules ---------------------------------------------------------------------------

    def attach(self, model: nn.Module) -> None:
        """Watch the layers by hooks; inside them single operations need not be followed."""
        special = {
            id(module): (name, finish)
            for group, finish in (
                (self.layers, self._leave_layer),
                (self.followed, self._leave_followed),
                (self.opaque, self._leave_opaque),
            )
            for name, module in group.items()
        }
        for place, module in model.named_modules():
            name, finish = special.get(id(module), (place, None))
            module.register_forward_pre_hook(self._enter(name, finish is not None))
            leave = self._leave(name, finish)
            module.register_forward_hook(leave, with_kwargs=True, always_call=True)

    def _enter(self, name: str, closed: bool) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any) -> None:
            self.within.append(f"{name or 'the model itself'} ({type(module).__name__})")
            self.resting += closed

        return hook

    def _leave(self, name: str, finish: Callable[..., Any] | None) -> Callable[..., Any]:
        def hook(module: nn.Module, arguments: Any, named: dict[str, Any], output: Any) -> Any:
            self.within.pop()
            if finish is None:
                return None
            try:
                if output is None:  # the module raised
                    return None
                return finish(name, module, [*arguments, *named.values()][0], output)
            finally:
                self.resting -= 1

        return hook

    def _leave_layer(self, name: str, module: nn.Module, input: Tensor, output: Tensor) -> Tensor:
        dim = node_dim(module)
        if input.is_floating_point():
            self._note_arrival(name, input, [dim])
        else:  # an embedding reads indices, which are inputs of the network
            self.arrived[name] = self.sets.blank((int(module.num_embeddings),))  # type: ignore[arg-type]
        first = self.offsets[name]
        nodes = [self.sets.number({first + i}) for i in range(node_count(module))]
        numbers = torch.tensor(nodes, device="cpu").view(-1, *[1] * (-1 - dim))
        return self._made(output, numbers.expand(output.shape))

    def _leave_followed(
        self, name: str, module: nn.Module, input: Tensor, output: Tensor
    ) -> Tensor:
        self._note_arrival(name, input, _feature_dims(module, input))
        return self._made(output, self.memory.read(input))

    def _leave_opaque(self, name: str, module: nn.Module, input: Any, output: Any) -> Any:
        return tree_map_only(Tensor, torch.clone, output)  # new memory: nobody's

    def _made(self, output: Tensor, numbers: Tensor) -> Tensor:
        own = output.clone()  # a layer may hand out memory that others see too
        self.memory.write(own, numbers)
        return own

    def _note_arrival(self, name: str, tensor: Tensor, dims: Iterable[int]) -> None:
        kept = {d % tensor.dim() for d in dims}
        others = [d for d in range(tensor.dim()) if d not in kept]
        features = self.sets.merge(self.memory.read(tensor), others).reshape(-1)
        earlier = self.arrived.get(name)  # a layer used twice is fed by both uses
        features = features if earlier is None else self.sets.union(earlier, features)
        self.arrived[name] = features.clone()  # the tensor may yet change in place

    # -- single operations -----------------------------------------------------------------

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.resting:
            return func(*args, **kwargs)
        data = bind(func, args, kwargs)
        self._check_owners(func, data)
        numbers = tree_map_only(Tensor, self.memory.read, data)
        if not any(bool(n.any()) for n in tree_flatten(numbers)[0] if isinstance(n, Tensor)):
            return func(*args, **kwargs)
        rule = rule_for(func)
        if rule is None:
            return self._follow_parts(func, args, kwargs)
        output = func(*args, **kwargs)
        outputs = [t for t in tree_flatten(output)[0] if isinstance(t, Tensor)]
        # a view lies where everything is known already
        if func._schema.is_mutable or not all(map(self.memory.knows, outputs)):
            self._record(outputs, rule, Call(func, data, numbers, output))
        return output

    def _follow_parts(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        with self:
            output = func.decompose(*args, **kwargs)
        if output is NotImplemented:
            raise self._cannot_follow(func)
        return output

    def _record(self, outputs: list[Tensor], rule: Rule, call: Call) -> None:
        try:
            found = rule(self.sets, call)
        except Exception as error:  # a form of the operation that its rule did not foresee
            raise self._cannot_follow(call.operation) from error
        if found is None:
            return
        numbers = tree_flatten(found)[0]
        if [n.shape for n in numbers] != [t.shape for t in outputs]:
            raise self._cannot_follow(call.operation)
        for tensor, number in zip(outputs, numbers, strict=True):
            self.memory.write(tensor, number)

    def _check_owners(self, func: OpOverload, data: dict[str, Any]) -> None:
        """A weight is held by the nodes that it joins; used elsewhere, it joins others."""
        tensors = [t for t in tree_flatten(data)[0] if isinstance(t, Tensor)]
        strided = [t for t in tensors if t.layout is torch.strided]
        names = [self.owners.get(t.untyped_storage().data_ptr()) for t in strided]
        used = next((name for name in names if name is not None), None)
        if used is not None and None in names and not func.is_view and _name(func) != "type_as":
            raise self._refuse(
                f"The operation `{_name(func)}` in {self._place()} uses a parameter of the layer "
                f"`{used}` outside of that layer, so it is not known which nodes its weights join. "
                "Call the layer itself, or name it in `plain`."
            )

    def _cannot_follow(self, func: OpOverload) -> UnsupportedLayerError:
        return self._refuse(
            f"The operation `{_name(func)}` in {self._place()} cannot be followed: it is not known "
            "which nodes its result comes from. Use an operation that has a rule "
            "(uclearn.topology.rules lists them), or name that module in `plain`, so that what it "
            "puts out counts as an input of the network."
        )

    def _place(self) -> str:
        return self.within[-1] if self.within else "the model"

    def _refuse(self, message: str) -> UnsupportedLayerError:
        self.refusal = self.refusal or UnsupportedLayerError(message)
        return self.refusal


def _name(func: OpOverload) -> str:
    return str(func.overloadpacket.__name__)


def _feature_dims(norm: nn.Module, input: Tensor) -> Iterable[int]:
    """The dimensions that the parameters of a normalisation stand for."""
    shape = getattr(norm, "normalized_shape", None)
    if shape is not None:
        return range(-len(shape), 0)
    if isinstance(norm, nn.modules.instancenorm._InstanceNorm):  # the batch may be missing
        return [0 if input.dim() == norm._get_no_batch_dim() else 1]
    return [1]  # the channels
