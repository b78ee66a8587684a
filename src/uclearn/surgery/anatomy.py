"""What of a network can be resized, and what stands against it.

The nodes of all layers, heads included, are followed through the network, and so are its inputs and
its output, as if they were layers too: what is added to an input, or put out, keeps its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from uclearn.errors import SettingError
from uclearn.fields import Fields
from uclearn.gaussian import GaussianLayer
from uclearn.methods.parts.wrapper import running_on
from uclearn.methods.vcl.mean_field import MeanFieldLayer
from uclearn.networks import MultiHead, arguments, call
from uclearn.topology import Ties, Topology, node_count, ties, trace
from uclearn.topology.trace import Port, Ported

OUTPUT = "<output>"
TRUNK = "<end of the trunk>"
_LAYERS = (
    *(nn.Linear, nn.Embedding, nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)
_MIXING = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)


@dataclass(frozen=True)
class Anatomy:
    """The layers and normalisations of a network by name, and which nodes feed which features."""

    layers: dict[str, nn.Module]
    norms: dict[str, nn.Module]
    opaque: dict[str, nn.Module]
    inputs: tuple[str, ...]
    """The ports of the inputs, each a layer of one node in the topology."""
    topology: Topology

    @cached_property
    def ties(self) -> Ties:
        """Which nodes can only be resized together."""
        return ties(self.topology)

    @cached_property
    def obstacles(self) -> dict[str, str]:
        """By layer, why its number of nodes must stay; layers that can be resized are not here."""
        found: dict[str, str] = {}
        for nodes, reason in self._reasons():
            for name in self.owners(nodes):
                found.setdefault(name, reason)
        groups = {name: self.groups(name) for name in self.layers}
        for name in [name for name in self.layers if name in found]:
            for other in self.layers:  # tied layers stand or fall together
                if groups[name] & groups[other]:
                    found.setdefault(other, f"it is tied to `{name}`, and there {found[name]}")
        return found

    def require_layers(self, names: Iterable[str], setting: str) -> None:
        """Refuse the names of layers that there are not, given as `setting`."""
        for name in names:
            if name not in self.layers:
                raise SettingError(
                    f"`{setting}` must name layers of the network, got {name!r}. Its layers are: "
                    f"{', '.join(self.layers)}."
                )

    def groups(self, name: str) -> set[int]:
        """The groups that the nodes of layer `name` belong to."""
        return set(self.ties.of_nodes[self.topology.nodes(name)].tolist())

    def sets(self, name: str) -> list[frozenset[int]]:
        """The nodes that feed each input feature of `name`."""
        table = self.topology.sources[name].tolist()
        return [frozenset(row) - {self.topology.total} for row in table]

    def owners(self, nodes: set[int]) -> list[str]:
        """The layers that make any of these nodes."""
        every = range(self.topology.total)
        return [n for n in self.layers if nodes & set(every[self.topology.nodes(n)])]

    def _fed(self, name: str) -> set[int]:
        return set(self.topology.sources[name].flatten().tolist()) - {self.topology.total}

    def _reasons(self) -> Iterator[tuple[set[int], str]]:
        every = range(self.topology.total)
        yield self._fed(OUTPUT), "what it puts out is what the network puts out"
        if self.topology.swallowed:
            names = ", ".join(f"`{n}` ({type(m).__name__})" for n, m in self.opaque.items())
            yield set(self.topology.swallowed), f"its nodes enter a module taken whole: {names}"
        for name, layer in self.layers.items():
            if getattr(layer, "groups", 1) != 1:
                reason = f"`{name}` is a grouped convolution (groups={layer.groups})"
                yield self._fed(name) | set(every[self.topology.nodes(name)]), reason
        for name, norm in self.norms.items():
            if not isinstance(norm, _NormBase):
                kind = type(norm).__name__
                yield self._fed(name), f"`{name}` ({kind}) normalises over all features together"
        for name in self.inputs:
            group = self.ties.of_nodes[self.topology.nodes(name)]
            mates = (self.ties.of_nodes == group).nonzero().flatten().tolist()
            yield set(mates), "it is combined with an input of the network"
        read: set[int] = set().union(*(self._fed(n) for n in self.topology.sources))
        yield set(every) - read, "its nodes arrive at no layer one by one"


def examine(model: nn.Module, example: Any) -> Anatomy:
    """Look at a network by running a copy of it on `example` (a tuple for several arguments, a
    dictionary for named ones).

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> examine(net, torch.zeros(1, 2)).obstacles
    {'2': 'what it puts out is what the network puts out'}
    """
    layers, norms, opaque = _sort(model)
    by_name = isinstance(example, Mapping | Fields)
    given = tuple(example.values()) if by_name else arguments(example)
    watched = _Watched(model, given, tuple(example.keys()) if by_name else None)
    ports = {f"<input {n}>": port for n, port in enumerate(watched.ports)}
    ends = {OUTPUT: watched.exit}
    if isinstance(model, MultiHead):
        ends[TRUNK] = watched.trunk_end
    with running_on(example):
        topology = trace(watched, given, {**layers, **ports, **ends}, followed=norms, opaque=opaque)
    return Anatomy(layers, norms, opaque, tuple(ports), topology)


def _sort(model: nn.Module) -> tuple[dict[str, nn.Module], ...]:
    """Layers, normalisations, and what has weights but is neither."""
    layers: dict[str, nn.Module] = {}
    norms: dict[str, nn.Module] = {}
    opaque: dict[str, nn.Module] = {}
    inside: set[int] = set()
    for name, module in model.named_modules():
        if id(module) in inside:
            continue
        if isinstance(module, GaussianLayer | MeanFieldLayer) or type(module) in _LAYERS:
            layers[name] = module
        elif isinstance(module, (_NormBase, *_MIXING)):
            norms[name] = module
        elif list(module.parameters(recurse=False)):
            opaque[name] = module
            inside.update(id(below) for below in module.modules())
    return layers, norms, opaque


class _Watched(Ported):
    """A network whose trunk has a port behind it as well, before the heads; `names` of its inputs
    where it takes them by name."""

    def __init__(
        self, model: nn.Module, inputs: tuple[Any, ...], names: tuple[str, ...] | None
    ) -> None:
        super().__init__(model, inputs)
        self.trunk_end, self._names = Port(), names

    def run(self, entered: list[Any]) -> Any:
        names = self._names
        given = tuple(entered) if names is None else dict(zip(names, entered, strict=True))
        if not isinstance(self.model, MultiHead):
            return call(self.model, given)
        features = self.model.embed(given)
        self.trunk_end(features)
        return [head(features) for head in self.model.heads]


def widths(model: nn.Module) -> dict[str, int]:
    """How many nodes each layer of a network makes.

    >>> widths(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    {'0': 3, '2': 1}
    """
    return {name: node_count(layer) for name, layer in _sort(model)[0].items()}
