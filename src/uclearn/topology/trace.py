"""Run a model once and follow every node from the layer that makes it to those that read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from uclearn.errors import UnsupportedLayerError
from uclearn.topology.rules import Call, rule_for
from uclearn.topology.sets import NodeSets

_CONVOLUTIONS = (
    nn.modules.conv._ConvNd  # every convolution of torch, transposed ones included
)


def node_dim(layer: nn.Module) -> int:
    """The dimension of a layer's output (and input) that counts nodes, from the end."""
    if isinstance(layer, _CONVOLUTIONS):
        return -1 - len(layer.kernel_size)
    return -1


def node_count(layer: nn.Module) -> int:
    """How many nodes a layer makes: output features, channels or embedding dimensions."""
    for attribute in ("out_features", "out_channels", "embedding_dim"):
        if hasattr(layer, attribute):
            return int(getattr(layer, attribute))
    raise UnsupportedLayerError(
        f"{type(layer).__name__} has no nodes that could be counted. Give it an attribute "
        "`out_features` that says how many features it puts out."
    )


@dataclass(frozen=True)
class Topology:
    """Which nodes feed which weights.

    All nodes of all followed layers are numbered through: layer `name` makes the nodes
    `offsets[name] .. offsets[name] + node_count - 1`.
    """

    offsets: Mapping[str, int]
    total: int
    sources: Mapping[str, Tensor]
    """Per layer (and per normalisation) a table (features, most): the nodes that feed each input
    feature, filled up with `total`, the number of a node that does not exist. A feature that no
    node feeds (an input of the network) holds nothing else."""

    def nodes(self, name: str) -> slice:
        """Where layer `name`'s nodes stand in the numbering.

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> topology = trace(net, torch.zeros(1, 2), {"0": net[0], "2": net[2]})
        >>> topology.nodes("2")
        slice(3, 4, None)
        """
        following = [offset for offset in self.offsets.values() if offset > self.offsets[name]]
        return slice(self.offsets[name], min(following, default=self.total))

    def arriving(self, name: str, strengths: Tensor) -> Tensor:
        """The strength of each input feature of layer `name`: the largest of the nodes that feed
        it, and 0 for an input of the network.

        Args:
            name: a followed layer.
            strengths: (total,) one number per node, none negative.

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> topology = trace(net, torch.zeros(1, 2), {"0": net[0], "2": net[2]})
        >>> topology.arriving("2", torch.tensor([0.5, 1.0, 2.0, 9.0]))
        tensor([0.5000, 1.0000, 2.0000])
        >>> topology.arriving("0", torch.tensor([0.5, 1.0, 2.0, 9.0]))
        tensor([0., 0.])
        """
        padded = torch.cat([strengths, strengths.new_zeros(1)])
        return padded[self.sources[name].to(strengths.device)].amax(dim=1)


def trace(
    model: nn.Module,
    example: Any,
    layers: Mapping[str, nn.Module],
    *,
    followed: Mapping[str, nn.Module] | None = None,
    opaque: Mapping[str, nn.Module] | None = None,
    call: Callable[[nn.Module, Any], Any] | None = None,
) -> Topology:
    """Push the identity of every node through `model` and note what arrives at each layer.

    Args:
        model: any module; it is run once, in evaluation mode, on `example`.
        example: a small batch of inputs: a tensor, or a tuple of positional arguments.
        layers: the layers whose outputs are nodes, by qualified name.
        followed: layers that pass features on and whose own parameters belong to the features
            that arrive (normalisation).
        opaque: layers that stay outside; what they put out counts as input of the network.
        call: how to run the model, by default `model(example)` or `model(*example)`.

    Raises:
        UnsupportedLayerError: an operation that no rule covers, with its name and module.
    """
    tracer = _Tracer(layers, followed or {}, opaque or {})
    modes = {module: module.training for module in model.modules()}
    handles = tracer.attach(model)
    model.eval()  # every module, dropout and the noise of Gaussian layers included
    try:
        with torch.inference_mode(), tracer:
            (call or _call)(model, example)
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes.items():
            module.training = training
    return tracer.result()


def _call(model: nn.Module, example: Any) -> Any:
    return model(*example) if isinstance(example, tuple) else model(example)


class _Tracer(TorchDispatchMode):
    """Sees every operation of the forward pass and keeps, for each tensor, its set numbers."""

    def __init__(
        self,
        layers: Mapping[str, nn.Module],
        followed: Mapping[str, nn.Module],
        opaque: Mapping[str, nn.Module],
    ) -> None:
        super().__init__()
        self.sets = NodeSets()
        self.layers, self.followed, self.opaque = layers, followed, opaque
        self.offsets: dict[str, int] = {}
        self.total = 0
        for name, layer in layers.items():
            self.offsets[name] = self.total
            self.total += node_count(layer)
        # the tensor is kept beside its numbers, so that its id stays its own
        self.known: dict[int, tuple[Tensor, Tensor]] = {}
        self.arrived: dict[str, Tensor] = {}
        self.within: list[str] = []
        self.resting = 0

    # -- modules ---------------------------------------------------------------------------

    def attach(self, model: nn.Module) -> list[Any]:
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
        handles: list[Any] = []
        for name, module in model.named_modules():
            known = special.get(id(module))
            handles.append(module.register_forward_pre_hook(self._enter(name, known is not None)))
            finish = self._leave(known[1], known[0]) if known else self._leave(None, name)
            handles.append(module.register_forward_hook(finish, always_call=True))
        return handles

    def _enter(self, name: str, closed: bool) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any) -> None:
            self.within.append(f"{name or 'the model itself'} ({type(module).__name__})")
            self.resting += closed

        return hook

    def _leave(self, finish: Callable[..., None] | None, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            self.within.pop()
            if finish is not None:
                self.resting -= 1
                if output is not None:  # None: the module raised
                    with self._paused():
                        finish(name, module, arguments, output)

        return hook

    def _leave_layer(self, name: str, module: nn.Module, arguments: Any, output: Tensor) -> None:
        dim = node_dim(module)
        if arguments[0].is_floating_point():
            self._note_arrival(name, arguments[0], dim)
        else:  # an embedding reads indices, which are inputs of the network
            self.arrived[name] = torch.zeros(int(module.num_embeddings), dtype=torch.int64)  # type: ignore[arg-type]
        first = self.offsets[name]
        nodes = [self.sets.number({first + i}) for i in range(node_count(module))]
        shape = [1] * output.dim()
        shape[dim] = len(nodes)
        self._learn(output, torch.tensor(nodes).view(shape).expand(output.shape).clone())

    def _leave_followed(self, name: str, module: nn.Module, arguments: Any, output: Tensor) -> None:
        shape = getattr(module, "normalized_shape", None)  # the last dimensions, or the channels
        dims = tuple(range(-len(shape), 0)) if shape is not None else (1,)
        self._note_arrival(name, arguments[0], *dims)
        self._learn(output, self._numbers(arguments[0]).clone())

    def _leave_opaque(self, name: str, module: nn.Module, arguments: Any, output: Any) -> None:
        for tensor in tree_flatten(output)[0]:
            if isinstance(tensor, Tensor):
                self._learn(tensor, torch.zeros(tensor.shape, dtype=torch.int64))

    def _note_arrival(self, name: str, tensor: Tensor, *dims: int) -> None:
        kept = {d % tensor.dim() for d in dims}
        others = [d for d in range(tensor.dim()) if d not in kept]
        features = self.sets.merge(self._numbers(tensor), others).reshape(-1)
        earlier = self.arrived.get(name)  # a layer used twice is fed by both uses
        self.arrived[name] = features if earlier is None else self.sets.union(earlier, features)

    # -- single operations -----------------------------------------------------------------

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.resting:
            return func(*args, **kwargs)
        data = _bind(func, args, kwargs)
        before = [t for t in tree_flatten(data)[0] if isinstance(t, Tensor)]
        carries = any(bool(self._numbers(t).any()) for t in before)
        rule = rule_for(func)
        if rule is None and carries:
            with self:  # a composite operation is followed through its parts
                output = func.decompose(*args, **kwargs)
            if output is NotImplemented:
                raise self._unknown(func)
            return output
        output = func(*args, **kwargs)
        if rule is not None and (carries or func.is_view):
            numbers = tree_map_only(Tensor, self._numbers, data)
            self._record(output, rule(self.sets, Call(func, data, numbers, output)))
        else:
            self._leave_opaque("", nn.Identity(), (), output)
        return output

    def _record(self, output: Any, numbers: Any) -> None:
        tensors, found = tree_flatten(output)[0], tree_flatten(numbers)[0]
        for tensor, number in zip(tensors, found, strict=True):
            if isinstance(tensor, Tensor):
                self._learn(tensor, number)

    def _numbers(self, tensor: Tensor) -> Tensor:
        entry = self.known.get(id(tensor))
        if entry is None:  # an input, a parameter, a constant: no node made it
            blank = torch.zeros(tensor.shape, dtype=torch.int64)
            entry = self.known[id(tensor)] = (tensor, blank)
        return entry[1]

    def _learn(self, tensor: Tensor, numbers: Tensor) -> None:
        entry = self.known.get(id(tensor))
        if entry is None:
            self.known[id(tensor)] = (tensor, numbers)
        elif entry[1] is not numbers:  # written in place: views of it must see the change
            entry[1].copy_(numbers)

    def _unknown(self, func: OpOverload) -> UnsupportedLayerError:
        name = func.overloadpacket.__name__
        where = self.within[-1] if self.within else "the model"
        return UnsupportedLayerError(
            f"The operation `{name}` in {where} cannot be followed: it is not known which nodes "
            "its result comes from. Use an operation that has a rule (uclearn.topology.rules lists "
            "them), or name that module in `plain`, so that what it puts out counts as an input "
            "of the network."
        )

    @contextmanager
    def _paused(self) -> Any:
        self.resting += 1
        try:
            yield
        finally:
            self.resting -= 1

    # -- the result ------------------------------------------------------------------------

    def result(self) -> Topology:
        """The sets that arrived, as tables of node numbers."""
        missing = [name for name in self.layers if name not in self.arrived]
        if missing:
            raise UnsupportedLayerError(
                f"These layers were not used when the model ran on the example: "
                f"{', '.join(missing)}. Give an example that reaches every layer, or name the "
                "layers in `plain`."
            )
        return Topology(
            offsets=self.offsets,
            total=self.total,
            sources={name: self._table(numbers) for name, numbers in self.arrived.items()},
        )

    def _table(self, numbers: Tensor) -> Tensor:
        members = [sorted(self.sets.members(n)) for n in numbers.tolist()]
        most = max(1, *map(len, members)) if members else 1
        return torch.tensor([row + [self.total] * (most - len(row)) for row in members])


def _bind(func: OpOverload, args: Any, kwargs: Any) -> dict[str, Any]:
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}
