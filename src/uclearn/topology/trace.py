"""Run a model once and follow every node from the layer that makes it to those that read it.

`ties` then looks at the result the other way round, from nodes to what reads them: which nodes
stand or fall together, and with which features. A sum of two branches makes one feature out of two
nodes. Take one of the nodes away and the shapes no longer fit: both go, with every feature that
either of them feeds, or both stay. Nodes that are tied like that, directly or through others, form
a group, and every input feature of every layer belongs to exactly one group, or to none if no node
feeds it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from uclearn.topology.watch import ModuleWatcher, tensors_in


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
    swallowed: frozenset[int] = frozenset()
    """The nodes that enter an opaque module, where they are lost from sight."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Where the nodes are lost from sight otherwise, and by which operation."""
    unreached: frozenset[str] = frozenset()
    """Layers that the example does not reach."""
    outside: frozenset[str] = frozenset()
    """Layers whose weights are used outside of them."""
    strange: frozenset[str] = frozenset()
    """Layers that are given or put out something else than their kind does."""

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
    dims: Mapping[str, int] | None = None,
    strict: bool = True,
    call: Callable[[nn.Module, Any], Any] | None = None,
) -> Topology:
    """Push the identity of every node through `model` and note what arrives at each layer.

    What arrives at an input feature (a channel, for a convolution) is the union over all examples,
    positions and uses of the layer.

    Args:
        model: any module; a copy of it is run once, in evaluation mode, on a copy of `example`.
        example: a small batch of inputs: a tensor, or a tuple of positional arguments.
        layers: the layers whose outputs are nodes, by qualified name.
        followed: layers that pass features on and whose own parameters belong to the features
            that arrive (normalisation).
        opaque: layers that stay outside; what they put out counts as input of the network.
        dims: of some of those followed, the dimension of their features.
        strict: refuse what cannot be followed; otherwise its result counts as input of the network,
            and `lost`, `unreached` and `outside` say where that happened.
        call: how to run the model, by default `model(example)` or `model(*example)`.

    Raises:
        UnsupportedLayerError: an operation that no rule covers, with its name and module; a layer
            that the example does not reach, or whose weights are used outside of it.
    """
    # on a copy, so that nothing stays behind: no hook, no mode, no tensor that the model caches
    model, layers, followed, opaque = copied(
        model, (model, dict(layers), dict(followed or {}), dict(opaque or {})), share="everything"
    )
    watcher = ModuleWatcher(layers, followed, opaque, dims or {}, strict)
    watcher.attach(model)
    model.eval()  # every module, dropout and the noise of Gaussian layers included
    example = tree_map_only(Tensor, torch.clone, example)
    with without_shortcuts():
        watcher.operations.watch(lambda: (call or _call)(model, example))
    unreached = frozenset(watcher.unreached())
    tables = {name: _table(sets, watcher.total) for name, sets in watcher.sources().items()}
    operations = watcher.operations
    return Topology(
        watcher.offsets,
        watcher.total,
        tables,
        frozenset(watcher.swallowed),
        dict(operations.lost),
        unreached,
        frozenset(operations.outside),
        frozenset(watcher.strange),
    )


def copied(model: nn.Module, what: Any = None, *, share: Share = "nothing") -> Any:
    """A deep copy of `what`, by default `model` itself; of weights that are computed before each
    use (torch.nn.utils.weight_norm) their present values.

    Args:
        model: whose weights they are.
        what: holds the model, or parts of it.
        share: the parameters that stay where they are in memory: `"frozen"`, those that do not
            learn, or `"everything"`, for a copy that only computes. Those of a type of their own
            (weights in 4 or 8 bit) are then the same objects.
    """
    known: dict[int, Any] = {
        id(value): value.detach().clone()
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    changed = {id(m._parameters.get("weight")) for m in model.modules() if _renormalises(m)}
    for own in model.parameters() if share != "nothing" else ():
        if (share == "everything" or not own.requires_grad) and id(own) not in changed:
            # its own parameter, so that moving one model to another device leaves the other alone
            plain = type(own) is nn.Parameter
            known[id(own)] = nn.Parameter(own.data, own.requires_grad) if plain else own
    return copy.deepcopy(model if what is None else what, known)


Share = Literal["nothing", "frozen", "everything"]


def _renormalises(module: nn.Module) -> bool:
    """Embeddings with `max_norm` change their weights when they are called."""
    return getattr(module, "max_norm", None) is not None


@contextmanager
def without_shortcuts() -> Iterator[None]:
    """Within, torch's transformer layers call their parts in evaluation mode, too, instead of one
    operation for all of them."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _call(model: nn.Module, example: Any) -> Any:
    return model(*example) if isinstance(example, tuple) else model(example)


def _table(sources: Sequence[frozenset[int]], filler: int) -> Tensor:
    most = max(1, *map(len, sources))
    return torch.tensor([[*sorted(row), *[filler] * (most - len(row))] for row in sources])


NOBODY = -1
"""The group of a feature that no node feeds."""


@dataclass(frozen=True)
class Ties:
    """Groups of nodes that can only be resized together, numbered from 0."""

    count: int
    of_nodes: Tensor
    """(total,) the group of each node."""
    of_features: Mapping[str, Tensor]
    """Per layer and normalisation (features,): the group that feeds each input feature, or
    `NOBODY`."""


def ties(topology: Topology) -> Ties:
    """Find the groups.

    >>> net = nn.Sequential(nn.Conv1d(1, 2, 1), nn.Flatten(), nn.Linear(6, 1))
    >>> found = ties(trace(net, torch.zeros(1, 1, 3), {"0": net[0], "2": net[2]}))
    >>> found.of_nodes
    tensor([0, 1, 2])
    >>> found.of_features["2"]
    tensor([0, 0, 0, 1, 1, 1])
    """
    leader = list(range(topology.total))

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for table in topology.sources.values():
        for first, *others in table.unique(dim=0).tolist():
            for other in others:
                if other < topology.total:
                    low, high = sorted((find(first), find(other)))
                    leader[high] = low
    leaders = torch.tensor([find(node) for node in range(topology.total)], dtype=torch.int64)
    numbers, of_nodes = leaders.unique(return_inverse=True)
    padded = torch.cat([of_nodes, torch.tensor([NOBODY])])
    of_features = {name: padded[table[:, 0]] for name, table in topology.sources.items()}
    return Ties(len(numbers), of_nodes, of_features)


# -- where a network begins and ends: what enters and leaves is followed as if it came from nodes


class Port(nn.Module):
    """What goes through here is followed as if it came from one node."""

    out_features = 1

    def forward(self, input: Tensor) -> Tensor:
        """A copy."""
        return input.clone()


class Ported(nn.Module):
    """A network with a port before each of its inputs and one behind all of its outputs."""

    def __init__(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        super().__init__()
        self.model = model
        self.ports = nn.ModuleList(Port() for value in inputs if is_float(value))
        self.exit = Port()

    def forward(self, *inputs: Any) -> Tensor:
        """(1,): everything that left, summed."""
        ports = iter(self.ports)
        entered = [next(ports)(value) if is_float(value) else value for value in inputs]
        sums = [tensor.reshape(-1).sum() for tensor in tensors_in(self.run(entered))]
        total = torch.stack(sums).sum() if sums else torch.zeros(())  # a network without outputs
        joined: Tensor = self.exit(total.reshape(1))
        return joined

    def run(self, entered: list[Any]) -> Any:
        """Call the network; other ways to call it are for subclasses."""
        return self.model(*entered)


def is_float(value: Any) -> bool:
    """Whether it is a tensor that nodes can feed."""
    return isinstance(value, Tensor) and value.is_floating_point()
