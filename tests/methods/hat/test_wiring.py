"""What is alive while some nodes are closed: by the rules, against trying every node and weight."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from tests.methods.gated_networks import NETWORKS, Residual, SkipsFirst, inputs_for
from tests.oracles import joins
from uclearn.gaussian import survey
from uclearn.methods.hat.gates import join_mask
from uclearn.methods.hat.wiring import Wiring, wire
from uclearn.topology import node_dim


def wired(model: nn.Module, example: Tensor, heads: bool = True) -> Wiring:
    return wire(model, example, survey(model), heads=heads)


# -- which layers make the output --------------------------------------------------------------


def test_the_last_layer_makes_the_output_unless_heads_follow() -> None:
    net, x = Residual(), torch.randn(1, 1, 8, 8)
    assert wired(net, x, heads=False).outputs == {"last"}
    assert wired(net, x, heads=True).outputs == frozenset()


def test_all_layers_of_a_summed_output_make_it() -> None:
    class Summed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = nn.Linear(4, 6)
            self.output = nn.Linear(6, 3)  # a name of the user's own
            self.around = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.hidden(x).relu()
            return self.output(h) + self.around(x), h.sum()

    found = wired(Summed(), torch.randn(2, 4), heads=False)
    assert found.outputs == {"output", "around", "hidden"}


# -- where zeros do not last -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "leaky"),
    [
        ("plain", set()),
        ("residual", set()),
        ("skip from the input", set()),  # followed as an input, no need to try
        ("words", set()),
        ("transposed", set()),
        ("layer norm", {"3"}),
        ("group norm", {"3"}),
        ("sigmoid", {"2", "4"}),
    ],
)
def test_layers_behind_what_turns_zeros_into_numbers_are_found(name: str, leaky: set[str]) -> None:
    net = NETWORKS[name]()
    assert wired(net, inputs_for(name, 2)).leaky == leaky


def test_a_shift_that_starts_at_zero_is_expected_to_learn() -> None:
    """An instance norm shifts each channel by a bias, which is 0 in a new network."""
    net = nn.Sequential(
        nn.Conv1d(1, 3, 3), nn.InstanceNorm1d(3, affine=True), nn.Conv1d(3, 2, 3), nn.ReLU()
    )
    assert wired(net, torch.randn(2, 1, 9)).leaky == {"2"}


def test_weights_that_start_at_zero_hide_nothing() -> None:
    net = NETWORKS["layer norm"]()
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    assert wired(net, torch.randn(2, 64)).leaky == {"3"}


def test_the_model_is_left_as_it_was() -> None:
    net = NETWORKS["layer norm"]().train()
    before = {name: p.clone() for name, p in net.named_parameters()}
    wired(net, torch.randn(2, 64))
    assert all(torch.equal(p, before[name]) for name, p in net.named_parameters())
    assert all(module.training for module in net.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


# -- which features and weights are alive ------------------------------------------------------


def closing(layers: dict[str, nn.Module], wiring: Wiring, nodes: Tensor) -> None:
    """Close the nodes that are not in `nodes`, for good."""
    for name, layer in layers.items():
        shape = (-1,) + (1,) * (-1 - node_dim(layer))
        own = nodes[wiring.topology.nodes(name)].view(shape)
        layer.register_forward_hook(lambda m, a, y, own=own: y.masked_fill(~own, 0))


def some_open(wiring: Wiring, layers: dict[str, nn.Module], seed: int) -> Tensor:
    """About half of the nodes of each layer, at least one."""
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.zeros(wiring.topology.total, dtype=torch.bool)
    nodes[wiring.inputs] = True
    for name in layers:
        own = nodes[wiring.topology.nodes(name)]
        own |= torch.rand(own.shape, generator=generator) < 0.5
        own[int(torch.randint(len(own), (), generator=generator))] = True
    return nodes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_weight_matters_if_its_node_is_open_and_its_feature_alive(seed: int) -> None:
    """The oracle changes the weights one by one and looks whether anything comes out differently:
    convolution, pooling, residual sum, groups and flatten. (Every open node can be seen: tanh is
    never flat, and each layer has an open node.)"""
    torch.manual_seed(seed)
    net = Residual(nn.Tanh)
    layers = survey(net).layers
    x = inputs_for("residual", 40, seed)
    wiring = wired(net, x[:1])
    nodes = some_open(wiring, layers, seed)
    closing(layers, wiring, nodes)
    with torch.no_grad():
        before = net(x)
        for name, layer in layers.items():
            own = nodes[wiring.topology.nodes(name)]
            weight = layer.weight
            assert isinstance(weight, Tensor)
            matters = torch.zeros_like(weight, dtype=torch.bool)
            for index in itertools.product(*map(range, weight.shape)):
                value = weight[index].item()
                weight[index] = value + 1.0
                matters[index] = not torch.equal(net(x), before)
                weight[index] = value
            rule = join_mask(layer, own, wiring.alive(name, nodes)).expand_as(weight)
            assert torch.equal(matters, rule), name


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("seed", range(2))
def test_no_weight_outside_of_the_rule_matters(name: str, seed: int) -> None:
    """All of them changed at once: bit for bit the same comes out."""
    torch.manual_seed(seed)
    net = NETWORKS[name]()
    layers = survey(net).layers
    x = inputs_for(name, 50, seed)
    wiring = wired(net, x[:1])
    nodes = some_open(wiring, layers, seed)
    closing(layers, wiring, nodes)
    changed = 0
    with torch.no_grad():
        before = net(x)
        for layer_name, layer in layers.items():
            own = nodes[wiring.topology.nodes(layer_name)]
            rule = join_mask(layer, own, wiring.alive(layer_name, nodes))
            for which, parameter in layer.named_parameters():
                free = ~(rule if which == "weight" else own)
                changed += int(free.sum())
                parameter.add_(free * torch.randn_like(parameter))
        assert torch.equal(net(x), before)
    assert changed > 0


def test_an_input_beside_closed_nodes_is_alive() -> None:
    net = SkipsFirst()
    wiring = wired(net, torch.randn(1, 64))
    nodes = torch.zeros(wiring.topology.total, dtype=torch.bool)
    nodes[wiring.inputs] = True
    assert bool(wiring.alive("second", nodes).all())


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(6, 4),
        nn.Conv1d(6, 4, 3, groups=2),
        nn.Conv2d(6, 4, (2, 3)),
        nn.Conv2d(4, 4, 1, groups=4),
        nn.Conv3d(6, 4, 2, groups=2),
        nn.ConvTranspose2d(6, 4, 3, groups=2),
        nn.ConvTranspose2d(6, 4, 3),
        nn.Embedding(6, 4),
    ],
    ids=str,
)
def test_the_mask_joins_the_ends_of_each_weight(layer: nn.Module) -> None:
    assert isinstance(layer.weight, Tensor)
    sources = 1 + max(join.source for join in joins(layer))
    for nodes, features in itertools.product(_halves(4), _halves(sources)):
        mask = join_mask(layer, nodes, features).expand_as(layer.weight)
        for index, node, source in joins(layer):
            assert bool(mask[index]) == (bool(nodes[node]) and bool(features[source]))


def _halves(size: int) -> list[Tensor]:
    even = torch.arange(size) % 2 == 0
    return [even, ~even, torch.arange(size) < size // 2]
