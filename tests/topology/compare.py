"""Put the library and the oracle side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from tests.topology.oracle import Oracle, SetTensor, inputs
from uclearn.topology import Topology, trace

Mirror = Callable[[Oracle, SetTensor], object]

LAYERS = (nn.Linear, _ConvNd, nn.Embedding)


class Net(nn.Module):
    """A network written as one function of (the network, its inputs)."""

    def __init__(self, forward: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def __getattr__(self, name: str) -> Any:  # so that its modules may be called
        return super().__getattr__(name)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def trace_all(
    model: nn.Module, example: Any, opaque: Iterable[str] = (), call: Any = None
) -> Topology:
    """Trace every layer and every normalisation with parameters, but those named as opaque."""
    closed = {name: model.get_submodule(name) for name in opaque}
    below = {id(module) for top in closed.values() for module in top.modules()}
    found = {name: m for name, m in model.named_modules() if id(m) not in below}
    layers = {name: m for name, m in found.items() if isinstance(m, LAYERS)}
    norms = {
        name: m
        for name, m in found.items()
        if "Norm" in type(m).__name__ and list(m.parameters(recurse=False))
    }
    return trace(model, example, layers, followed=norms, opaque=closed, call=call)


def sources(topology: Topology) -> dict[str, list[set[int]]]:
    """The table of each layer, as sets."""
    return {
        name: [set(row) - {topology.total} for row in table.tolist()]
        for name, table in topology.sources.items()
    }


def agree(
    model: nn.Module,
    example: Any,
    mirror: Callable[[Oracle], object],
    opaque: Iterable[str] = (),
    call: Any = None,
) -> None:
    """The same sets of nodes, and for random strengths the same strength, at every feature."""
    topology = trace_all(model, example, opaque, call)
    oracle = Oracle()
    mirror(oracle)
    expected = {
        name: [{topology.offsets[layer] + i for layer, i in cell} for cell in features]
        for name, features in oracle.arrived.items()
    }
    assert sources(topology) == expected

    strengths = torch.rand(topology.total)
    for name, features in expected.items():
        strongest = [max((float(strengths[n]) for n in nodes), default=0.0) for nodes in features]
        assert topology.arriving(name, strengths).tolist() == strongest, name


def agree_on(model: nn.Module, shape: Iterable[int], mirror: Mirror, **settings: Any) -> None:
    """`agree` for a batch of one and for a batch of two."""
    for batch in (1, 2):
        size = (batch, *shape)
        x = inputs(*size)
        agree(model, torch.randn(size), lambda oracle, x=x: mirror(oracle, x), **settings)  # type: ignore[misc]


def agree_by_element(
    shape: Iterable[int],
    function: Callable[[Tensor], Tensor],
    mirror: Callable[[SetTensor], SetTensor],
    whole: bool = True,
) -> None:
    """`function` of a tensor in which every element is a node of its own: each element of the
    result comes from the same nodes for both. If the rule names the `whole` of what matters (one
    that passes on feature by feature does not), then whatever changes the result is among them."""
    shape = tuple(shape)
    count = int(torch.Size(shape).numel())
    size = function(torch.randn(shape)).numel()
    net = Net(
        lambda m, x: m.read(function(m.make(x).reshape(shape)).reshape(1, size)),
        make=nn.Linear(1, count),
        read=nn.Linear(size, 1),
    )

    def twice(oracle: Oracle) -> None:
        made = oracle.linear("make", inputs(1, 1), count).reshape(*shape)
        oracle.linear("read", mirror(made).reshape(1, -1), 1)

    example = torch.randn(1, 1)
    agree(net, example, twice)
    if whole:
        named = sources(trace_all(net, example))["read"]
        for node, changed in enumerate(changes(function, torch.randn(shape))):
            assert all(node in named[element] for element in changed), node


def changes(function: Callable[[Tensor], Tensor], x: Tensor) -> Iterable[list[int]]:
    """For each element of `x` the elements of the result that change with it."""

    def result(nudge: Tensor) -> Tensor:
        torch.manual_seed(0)
        return function(x + nudge.view(x.shape)).reshape(-1).nan_to_num()

    nudges = 0.1 * torch.eye(x.numel())
    before = result(0 * nudges[0])
    return [(result(nudge) != before).nonzero().flatten().tolist() for nudge in nudges]
