"""What watches a forward pass: its single operations, and its modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from uclearn.errors import UnsupportedLayerError
from uclearn.topology.rules import nobody, rule_for
from uclearn.topology.sets import Call, NodeSets, Rule, SetsInMemory, address, bind


def node_dim(layer: nn.Module) -> int:
    """The dimension of a layer's output (and input) that counts nodes, from the end."""
    if isinstance(layer, nn.modules.conv._ConvNd):  # every convolution, transposed ones included
        return -1 - len(layer.kernel_size)
    return -1


def node_count(layer: nn.Module) -> int:
    """How many nodes a layer makes: output features, channels or embedding dimensions."""
    for attribute in ("out_features", "out_channels", "embedding_dim", "nf"):
        if hasattr(layer, attribute):
            return int(getattr(layer, attribute))
    raise UnsupportedLayerError(
        f"{type(layer).__name__} has no nodes that could be counted. Give it an attribute "
        "`out_features` that says how many features it puts out."
    )


def feature_count(layer: nn.Module) -> int:
    """How many input features a layer has, or a normalisation."""
    for attribute in ("in_features", "in_channels", "num_embeddings", "nx"):
        if hasattr(layer, attribute):
            return int(getattr(layer, attribute))
    return max((p.numel() for p in layer.parameters()), default=1)


class OperationWatcher(TorchDispatchMode):
    """Sees every operation and keeps, for each place in memory, its set of nodes.

    Args:
        parameters: to which layer each parameter belongs.
        strict: refuse what cannot be followed; otherwise its result is nobody's, and it is noted.
    """

    def __init__(self, parameters: Mapping[Tensor, str], strict: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.strict = strict
        self.lost: dict[str, str] = {}
        """Where the nodes are lost from sight, and by which operation."""
        self.outside: set[str] = set()
        """Layers whose weights are used outside of them."""
        self.sets = NodeSets()
        self.memory = SetsInMemory(self.sets)
        self.within: list[str] = []
        """The modules that are running, the innermost last."""
        self.resting = 0
        """More than 0 inside of modules that are taken as a whole."""
        self._owners = {address(p): name for p, name in parameters.items()}
        self._copies: list[Tensor] = []
        self._refusal: UnsupportedLayerError | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # `watch` sees to it, without loading torch's compiler where nobody uses it

    def watch(self, forward: Callable[[], Any]) -> None:
        """Follow one forward pass."""
        if "torch._dynamo" in sys.modules:  # compiled parts run as they are written
            forward = torch.compiler.disable(forward)
        # Below autograd an operation arrives whole (`layer_norm`, not its parts), and what the
        # model caches stays an ordinary tensor, as it would not in inference mode.
        try:
            with torch.no_grad(), torch._C._AutoDispatchBelowAutograd(), self:
                forward()
        except TypeError:  # operators such as `@` and `//` turn a refusal into one of their own
            if self._refusal is None:
                raise
        if self._refusal is not None:
            raise self._refusal

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.resting:
            return func(*args, **kwargs)
        data = bind(func, args, kwargs)
        owner = self._check_owners(func, tensors_in(data))
        numbers = tree_map_only(Tensor, self.memory.read, data)
        if not any(bool(n.any()) for n in tensors_in(numbers)):
            return self._owned(func(*args, **kwargs), owner, func)
        rule = rule_for(func)
        if rule is None:
            return self._follow_parts(func, args, kwargs)
        output = func(*args, **kwargs)
        outputs = tensors_in(output)
        # a view lies where everything is known already
        if func._schema.is_mutable or not all(map(self.memory.knows, outputs)):
            self._record(outputs, rule, Call(func, data, numbers, output))
        return output

    def _follow_parts(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        with self:
            output = func.decompose(*args, **kwargs)
        if output is NotImplemented:
            self._cannot_follow(func)
            return func(*args, **kwargs)
        return output

    def _record(self, outputs: list[Tensor], rule: Rule, call: Call) -> None:
        try:
            found = rule(self.sets, call)
        except Exception as error:  # a form of the operation that its rule did not foresee
            self._cannot_follow(call.operation, error)
            return
        if found is None:
            return
        numbers = tensors_in(found)
        if [n.shape for n in numbers] != [t.shape for t in outputs]:
            self._cannot_follow(call.operation)
            return
        for tensor, number in zip(outputs, numbers, strict=True):
            self.memory.write(tensor, number)

    def _owned(self, output: Any, owner: str | None, func: OpOverload) -> Any:
        """What is made of a layer's parameters alone (a copy of them, say) belongs to it, too."""
        if owner is not None and rule_for(func) is not nobody:
            for tensor in tensors_in(output):
                if tensor.layout is torch.strided and tensor.is_floating_point():
                    self._owners[address(tensor)] = owner
                    self._copies.append(tensor)  # kept, so that its address stays its own
        return output

    def _check_owners(self, func: OpOverload, tensors: list[Tensor]) -> str | None:
        """A weight is held by the nodes that it joins; used outside of its layer, it joins others.

        Views and `type_as` only look at its shape or type. Returned is the layer that everything
        here belongs to, if there is one.
        """
        strided = [t for t in tensors if t.layout is torch.strided]
        owners = {self._owners.get(address(t)) for t in strided}
        used = owners - {None}
        if used and None in owners and not func.is_view and _name(func) != "type_as":
            self.outside |= {name for name in used if name is not None}
            if not self.strict:
                return None
            raise self._refuse(
                f"The operation `{_name(func)}` in {self._place()} uses a parameter of the layer "
                f"`{used.pop()}` outside of that layer, so it is not known which nodes its weights "
                "join. Call the layer itself, or name it in `plain`."
            )
        return next(iter(used)) if used and None not in owners else None

    def _cannot_follow(self, func: OpOverload, cause: Exception | None = None) -> None:
        if not self.strict:
            self.lost.setdefault(self._place(), _name(func))
            return
        raise self._refuse(
            f"The operation `{_name(func)}` in {self._place()} cannot be followed: it is not known "
            "which nodes its result comes from. Use an operation that has a rule "
            "(uclearn.topology.rules lists them), or name that module in `plain`, so that what it "
            "puts out counts as an input of the network."
        ) from cause

    def _place(self) -> str:
        return self.within[-1] if self.within else "the model"

    def _refuse(self, message: str) -> UnsupportedLayerError:
        self._refusal = self._refusal or UnsupportedLayerError(message)
        return self._refusal


def _name(func: OpOverload) -> str:
    return str(func.overloadpacket.__name__)


def tensors_in(tree: Any) -> list[Tensor]:
    """All tensors of a nest of containers."""
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, Tensor)]


Finish = Callable[[str, nn.Module, list[Any], Any], Any]


class ModuleWatcher:
    """Notes which nodes arrive at each layer, and that what leaves it are its own nodes."""

    def __init__(
        self,
        layers: Mapping[str, nn.Module],
        followed: Mapping[str, nn.Module],
        opaque: Mapping[str, nn.Module],
        dims: Mapping[str, int],
        strict: bool = True,
    ) -> None:
        self.layers, self.followed, self.opaque, self.dims = layers, followed, opaque, dims
        self.strict = strict
        self.offsets: dict[str, int] = {}
        self.total = 0
        for name, layer in layers.items():
            self.offsets[name] = self.total
            self.total += node_count(layer)
        held = {**layers, **followed}
        self.operations = OperationWatcher(
            {p: name for name in held for p in held[name].parameters()}, strict
        )
        self._sets, self._memory = self.operations.sets, self.operations.memory
        self._arrived: dict[str, Tensor] = {}
        self.strange: set[str] = set()
        """Layers that are given or put out something else than their kind does."""
        self.swallowed: set[int] = set()
        """The nodes that enter opaque modules."""

    def sources(self) -> dict[str, list[frozenset[int]]]:
        """For each layer the nodes that feed each of its input features."""
        missing = self.unreached()
        if missing and self.strict:
            raise UnsupportedLayerError(
                f"These layers were not used when the model ran on the example: "
                f"{', '.join(missing)}. Give an example that reaches every layer, or name the "
                "layers in `plain`."
            )
        for name in missing:
            self._arrived[name] = self._sets.blank((feature_count(self._of(name)),))
        return {
            name: [self._sets.members(number) for number in numbers.tolist()]
            for name, numbers in self._arrived.items()
        }

    def unreached(self) -> list[str]:
        """The layers that were not called."""
        return [name for name in (*self.layers, *self.followed) if name not in self._arrived]

    def _of(self, name: str) -> nn.Module:
        return self.layers[name] if name in self.layers else self.followed[name]

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
        if not self.strict and not _fits(module, input, output):
            self.strange.add(name)
            return output
        if isinstance(module, nn.Embedding):  # indices are inputs of the network
            self._arrived[name] = self._sets.blank((module.num_embeddings,))
        else:
            self._note_arrival(name, input, [dim])
        first = self.offsets[name]
        nodes = [self._sets.number({first + i}) for i in range(node_count(module))]
        numbers = torch.tensor(nodes, device="cpu").view(-1, *[1] * (-1 - dim))
        return self._made(output, numbers.expand(output.shape))

    def _leave_followed(
        self, name: str, module: nn.Module, given: list[Any], output: Tensor
    ) -> Tensor:
        input = given[0]
        known = self.dims.get(name)
        dims = _feature_dims(module, input) if known is None else [known]
        self._note_arrival(name, input, dims)
        return self._made(output, self._memory.read(input))

    def _leave_opaque(self, name: str, module: nn.Module, given: list[Any], output: Any) -> Any:
        for tensor in tensors_in(given):
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


def _fits(layer: nn.Module, input: Any, output: Any) -> bool:
    """Whether a layer is given and puts out what its kind does: somebody's subclass may not."""
    dim = node_dim(layer)
    wanted = [(output, node_count(layer))]
    if not isinstance(layer, nn.Embedding):
        wanted.append((input, feature_count(layer)))
    return all(
        isinstance(t, Tensor) and t.dim() >= -dim and t.shape[dim] == size for t, size in wanted
    )


def _feature_dims(norm: nn.Module, input: Tensor) -> Iterable[int]:
    """The dimensions that the parameters of a normalisation stand for."""
    shape = getattr(norm, "normalized_shape", None)
    if shape is not None:
        return range(-len(shape), 0)
    if isinstance(norm, nn.modules.instancenorm._InstanceNorm):  # the batch may be missing
        return [0 if input.dim() == norm._get_no_batch_dim() else 1]
    return [1]  # the channels
