"""What is alive in a network of which some nodes are closed.

A closed node puts out 0. So does, further on, every feature that only closed nodes feed, unless

- the network's own input feeds it as well (a skip connection around the first layer), or
- something on the way turns zeros into other numbers: a sigmoid, a bias that is added, the shift
  of a normalisation, the mean that a layer norm takes away.

The first is found by following the inputs as if they were nodes, the second by trying: a copy of
the network with other weights is run with some of its nodes closed. Where anything comes through,
the whole input of that layer counts as alive, always.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.gaussian import Survey
from uclearn.methods.parts.wrapper import running_on
from uclearn.networks import run_trunk
from uclearn.topology import Topology, node_count, node_dim, trace
from uclearn.topology.trace import Ported, is_float

_TRIALS = 4
"""Random choices of open nodes. One shows what leaks, unless all that leaks happens to be open."""


@dataclass(frozen=True)
class Wiring:
    """Which nodes feed which weights, which of them make the output, and where zeros do not last.

    Nodes are numbered through as in `topology`; behind those of the layers stand the ports of the
    inputs.
    """

    topology: Topology
    outputs: frozenset[str]
    """The layers whose nodes are, or are part of, what comes out."""
    inputs: slice
    """The ports of the inputs, in the numbering of nodes."""
    leaky: frozenset[str] = frozenset()
    """The layers at whose input closed nodes show."""

    def alive(self, name: str, nodes: Tensor) -> Tensor:
        """(features,) bool: which input features of layer `name` can differ from 0 while only the
        given nodes, (total,) bool, are open."""
        table = self.topology.sources[name].to(nodes.device)
        if name in self.leaky:
            return torch.ones(len(table), dtype=torch.bool, device=nodes.device)
        padded = torch.cat([nodes, nodes.new_zeros(1)])
        fed = (table < self.topology.total).any(1)  # what no node feeds is a constant, or a word
        return padded[table].any(1) | ~fed


def wire(model: nn.Module, example: Any, found: Survey, *, heads: bool) -> Wiring:
    """Find out by running copies of `model` on `example` (a tuple for several arguments).

    Args:
        model: any network that the topology follows.
        example: a small batch of inputs.
        found: its layers and normalisations.
        heads: only the trunk is run, whose nodes all feed the heads: none makes the output.
    """
    with running_on(example):
        return _wired(model, example if isinstance(example, tuple) else (example,), found, heads)


def _wired(model: nn.Module, inputs: tuple[Any, ...], found: Survey, heads: bool) -> Wiring:
    watched = _Watched(model, inputs)
    ports = {f"<input {n}>": port for n, port in enumerate(watched.ports)}
    layers = {**found.layers, **ports, "<output>": watched.exit}
    topology = trace(watched, inputs, layers, followed=found.norms, opaque=found.opaque)
    ends = set() if heads else set(topology.sources["<output>"].flatten().tolist())
    outputs = {n for n in found.layers if ends & set(range(topology.total)[topology.nodes(n)])}
    first = sum(node_count(layer) for layer in found.layers.values())
    wiring = Wiring(topology, frozenset(outputs), slice(first, first + len(ports)))
    leaky = frozenset(_leaks(watched, inputs, found, wiring))
    return Wiring(topology, wiring.outputs, wiring.inputs, leaky)


class _Watched(Ported):
    def run(self, entered: list[Any]) -> Any:
        return self.model(*entered) if len(entered) > 1 else run_trunk(self.model, entered[0])


def _leaks(
    watched: nn.Module, inputs: tuple[Any, ...], found: Survey, wiring: Wiring
) -> Iterator[str]:
    """The layers at whose input something shows although all that feeds it is closed."""
    generator = torch.Generator().manual_seed(0)
    watched, layers = copy.deepcopy((watched, found.layers))
    _draw_parameters(watched, generator)
    total = wiring.topology.total
    inputs = tuple(
        torch.randn(value.shape, generator=generator).to(value) if is_float(value) else value
        for value in inputs
    )
    closable = torch.zeros(total, dtype=torch.bool)
    for name in layers.keys() - wiring.outputs:
        closable[wiring.topology.nodes(name)] = True
    for trial in range(1 + _TRIALS):  # the first with all of them closed
        share = 0.5 if trial else 0.0
        nodes = ~closable | (torch.rand(total, generator=generator) < share)
        yield from _try(watched, inputs, layers, wiring, nodes)


def _try(
    watched: nn.Module,
    inputs: tuple[Any, ...],
    layers: Mapping[str, nn.Module],
    wiring: Wiring,
    nodes: Tensor,
) -> set[str]:
    shown: set[str] = set()

    def look(name: str, layer: nn.Module) -> Any:
        closed = ~wiring.alive(name, nodes)

        def hook(module: nn.Module, arguments: Any, named: Any) -> None:
            input = [*arguments, *named.values()][0]
            if input.is_floating_point():
                features = input.movedim(node_dim(layer), -1)
                if bool((features[..., closed.to(input.device)] != 0).any()):
                    shown.add(name)

        return layer.register_forward_pre_hook(hook, with_kwargs=True)

    def close(name: str, layer: nn.Module) -> Any:
        shape = (-1,) + (1,) * (-1 - node_dim(layer))
        closed = ~nodes[wiring.topology.nodes(name)].view(shape)
        return layer.register_forward_hook(
            lambda module, arguments, output: output.masked_fill(closed.to(output.device), 0)
        )

    handles = [hook(*item) for item in layers.items() for hook in (look, close)]
    with torch.no_grad():
        watched.eval()(*inputs)
    for handle in handles:
        handle.remove()
    return shown


@torch.no_grad()
def _draw_parameters(model: nn.Module, generator: torch.Generator) -> None:
    """Other weights: a shift that starts at 0 learns, and a layer that starts at 0 hides others."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            bound = math.sqrt(3 / max(parameter[0].numel(), 1)) if parameter.dim() else 1.0
            drawn = torch.rand(parameter.shape, generator=generator) * (2 * bound) - bound
            parameter.copy_(drawn)
