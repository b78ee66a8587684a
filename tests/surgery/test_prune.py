"""Whole nodes go; the rest computes what the whole network does with constants in their place."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.surgery.networks import NETWORKS, answers, build
from uclearn.errors import SettingError, UnsupportedLayerError
from uclearn.live.export import parameters
from uclearn.surgery.anatomy import examine, widths
from uclearn.surgery.prune import Surgeon, largest, mean_scores, prune
from uclearn.surgery.reliance import arriving, feature_shares, scores
from uclearn.tasks import Data
from uclearn.topology import node_dim


def labelled(net: nn.Module, x: Tensor) -> Data:
    """Inputs with the labels that the network gives them: it is right about all of them."""
    return Data(x, answers(net, x)[0].argmax(1))


def read_nothing_of(net: nn.Module, example: Tensor, name: str, node: int) -> None:
    """All weights that read one node (and what is tied to it) become 0."""
    anatomy = examine(net, example)
    group = int(anatomy.ties.of_nodes[anatomy.topology.offsets[name] + node])
    for layer, module in anatomy.layers.items():
        features = anatomy.ties.of_features[layer] == group
        with torch.no_grad():
            weight = module.weight
            assert isinstance(weight, Tensor)
            weight[:, features] = 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_nodes_that_nobody_reads_go_and_nothing_changes(name: str) -> None:
    """One in each layer that can lose any, where not even 1e-5 may be lost (and with them nodes
    that were constant on the few examples)."""
    net, x = build(name)
    free = [n for n in widths(net) if n not in examine(net, x).obstacles]
    for layer in free:
        read_nothing_of(net, x, layer, 1)
    head = answers(net, x)[0]
    pruned = prune(
        net, Data(x, head), 1e-5, score=lambda outputs, exact: -(outputs - exact).abs().amax(1)
    )
    assert pruned.removed.keys() == set(free)
    for before, after in zip(answers(net, x), answers(pruned.network, x), strict=True):
        torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)
    assert parameters(pruned.network) < parameters(net)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("count", [1, 3])
def test_what_is_left_computes_what_the_whole_does_with_constants_there(
    name: str, count: int
) -> None:
    """Against hooks on the whole network, on inputs that were not used to measure anything."""
    net, x = build(name)
    surgeon = Surgeon(net, x, [x], {}, ())
    smaller = surgeon.without(surgeon.order[:count])
    anatomy = examine(net, x)
    gone = torch.zeros(anatomy.ties.count, dtype=torch.bool)
    gone[surgeon.order[:count]] = True
    means = {n: reading.constant for n, reading in arriving(net, anatomy, [x]).items()}

    def replace(layer: nn.Module, features: Tensor, constant: Tensor) -> Any:
        def hook(module: nn.Module, arguments: Any) -> Any:
            moved = arguments[0].movedim(node_dim(layer), -1).clone()
            moved[..., features] = constant[features]
            return (moved.movedim(-1, node_dim(layer)),)

        return hook

    for layer, module in anatomy.layers.items():
        groups = anatomy.ties.of_features[layer]
        features = (groups >= 0) & gone[groups.clamp_min(0)]
        module.register_forward_pre_hook(replace(module, features, means[layer]))
    other = torch.randn_like(x)
    for expected, found in zip(answers(net, other), answers(smaller, other), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_a_constant_node_is_folded_into_the_bias_exactly(bias: bool) -> None:
    """No weight comes into node 1, so it always puts out tanh(2): nothing changes without it."""
    torch.manual_seed(0)
    first, last = nn.Linear(4, 3), nn.Linear(3, 2, bias=bias)
    net = nn.Sequential(first, nn.Tanh(), last)
    with torch.no_grad():
        first.weight[1] = 0
        first.bias[1] = 2.0
    x, other = torch.randn(50, 4), torch.randn(50, 4)
    surgeon = Surgeon(net, x, [x], {}, ())
    assert surgeon.order[0] == 1
    smaller = surgeon.without(surgeon.order[:1])
    assert parameters(smaller) == 5 * 2 + 3 * 2
    torch.testing.assert_close(smaller(other), net(other))


def test_a_padded_convolution_cannot_have_a_constant_in_its_bias() -> None:
    """At the border it sees zeros beside the constant, so 0 takes the node's place there."""
    torch.manual_seed(0)
    x = torch.randn(20, 1, 5) + 3
    for padding in (0, 1):
        net = nn.Sequential(nn.Conv1d(1, 2, 1), nn.Conv1d(2, 1, 3, padding=padding))
        anatomy = examine(net, x)
        found = arriving(net, anatomy, [x])["1"]
        rows = net[0](x).detach().transpose(1, 2).flatten(0, 1)
        if padding:
            assert not found.constant.any()
            torch.testing.assert_close(found.lost, rows.square().mean(0))
        else:
            torch.testing.assert_close(found.constant, rows.mean(0))
            torch.testing.assert_close(found.lost, rows.var(0, correction=0))


def test_shares_by_hand() -> None:
    """Weights (1, 2) and (3, 0), lost energies (4, 1): 4 and 4 of 8; 36 and 0 of 36."""
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 0.0]]))
    found = feature_shares(layer, torch.tensor([4.0, 1.0]))
    torch.testing.assert_close(found, torch.tensor([0.75, 0.25]))


def test_of_two_nodes_alike_the_uncertain_one_goes_first() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        for key in ("0.weight", "0.bias"):
            net.get_parameter(key)[1] = net.get_parameter(key)[0]
        weight = net.get_parameter("2.weight")
        weight[:, 1] = weight[:, 0]
    x = torch.randn(60, 3)
    anatomy = examine(net, x)
    found = arriving(net, anatomy, [x])
    strength = torch.tensor([2.0, 0.5, 1.0, 1.0])
    with_it, without = (scores(anatomy, found, s) for s in ({"0": strength}, {}))
    assert float(without[0]) == pytest.approx(float(without[1]))
    torch.testing.assert_close(with_it[:4], without[:4] * strength)


def test_channels_in_a_sum_go_together_and_no_layer_is_emptied() -> None:
    net, x = build("residual")
    pruned = prune(net, labelled(net, x), 0.9)
    assert set(widths(pruned.network).values()) == {1, 3, 2}  # heads keep all their outputs
    assert widths(pruned.network)["heads.0"] == 3
    assert pruned.removed["trunk.0"] == pruned.removed["trunk.3.second"] == 3
    assert pruned.removed["trunk.5.second"] == pruned.removed["trunk.5.skip"] == 5


def test_the_tolerance_is_kept_on_every_data_set() -> None:
    net, _ = build("mlp with heads")
    torch.manual_seed(5)
    sets = []
    for task in (0, 1):
        inputs = torch.randn(200, 6)
        labels = answers(net, inputs)[task].argmax(1)
        sets.append(Data(inputs, labels, task=task))
    for tolerance in (0.0, 0.05, 0.2):
        pruned = prune(net, sets, tolerance)
        assert pruned.before == (1.0, 1.0)
        assert min(pruned.after) >= 1 - tolerance - 1e-9
        assert pruned.after == mean_scores(pruned.network, sets)
    assert pruned.removed


def test_the_network_that_was_given_is_left_alone() -> None:
    net, x = build("residual")
    before = copy.deepcopy(net.state_dict())
    prune(net, labelled(net, x), 0.5)
    after = net.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_layers_to_keep_keep_all_their_nodes() -> None:
    net, x = build("mlp")
    pruned = prune(net, labelled(net, x), 0.9, keep=["0"])
    assert pruned.removed.keys() == {"2"}


def test_what_cannot_lose_nodes_keeps_them() -> None:
    """A grouped convolution and what feeds it; the layer before is free."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv1d(1, 4, 1), nn.Conv1d(4, 4, 1), nn.Conv1d(4, 4, 1, groups=2), nn.Flatten()
    )
    net.append(nn.Linear(12, 2))
    x = torch.randn(9, 1, 3)
    pruned = prune(net, labelled(net, x), 0.9)
    assert pruned.removed == {"0": 3}


class Attention(nn.Module):
    """Two heads of attention, with a layer before them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.query, self.key, self.value = (nn.Linear(5, 4) for _ in range(3))
        self.out = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        query, key, values = (
            m(h).unflatten(-1, (2, -1)).transpose(1, 2) for m in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, values)
        output: Tensor = self.out(mixed.transpose(1, 2).flatten(2)).mean(1)
        return output


def test_heads_of_attention_are_refused_by_name_and_can_be_kept() -> None:
    torch.manual_seed(0)
    net, x = Attention(), torch.randn(8, 6, 3)
    with pytest.raises(UnsupportedLayerError, match=r"The network cannot be resized: with .*value"):
        prune(net, labelled(net, x), 0.9)
    pruned = prune(net, labelled(net, x), 0.9, keep=["value"])
    assert pruned.removed == {"first": 4}


def test_the_largest_good_count() -> None:
    for most in (0, 1, 2, 15, 16, 17, 100):
        for limit in range(most + 1):
            assert largest(lambda count, limit=limit: count <= limit, most) == limit  # type: ignore[misc]


@pytest.mark.parametrize(
    ("tolerance", "keep", "words"),
    [
        (1.0, (), "`prune` must lie between 0 and 1, got 1.0"),
        (-0.1, (), "`prune` must lie between 0 and 1, got -0.1"),
        (0.1, ("nowhere",), "`keep` must name layers of the network, got 'nowhere'"),
    ],
)
def test_senseless_settings(tolerance: float, keep: tuple[str, ...], words: str) -> None:
    net, x = build("mlp")
    with pytest.raises(SettingError) as refusal:
        prune(net, labelled(net, x), tolerance, keep=keep)
    assert words in str(refusal.value)


def test_no_data() -> None:
    net, x = build("mlp")
    for none in ([], [Data(x[:0], torch.zeros(0, dtype=torch.int64))]):
        with pytest.raises(SettingError, match="`data` must hold at least one example"):
            prune(net, none, 0.1)
