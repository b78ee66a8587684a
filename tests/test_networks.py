"""The networks of the paper: their sizes as in its tables, their weights as He draws them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from uclearn.networks import (
    MultiHead,
    cifar_network,
    mlp,
    omniglot_network,
    picture_network,
    torch_start,
)


def test_weights_are_uniform_with_variance_two_over_fan_in_and_biases_zero() -> None:
    layer = next(m for m in mlp(400, (300,), 10).modules() if isinstance(m, nn.Linear))
    assert layer.weight.var().item() == pytest.approx(2 / 400, rel=0.02)  # 120,000 draws
    assert layer.weight.abs().max() <= math.sqrt(6 / 400)
    assert not layer.bias.any()


def test_the_seed_alone_decides() -> None:
    one = mlp(3, (4,), 2, seed=0).state_dict()
    torch.rand(10)
    same, other = (mlp(3, (4,), 2, seed=seed).state_dict() for seed in (0, 1))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["0.weight"], other["0.weight"])


def test_dropout_lies_before_the_first_layer_and_after_each_hidden_one() -> None:
    net = mlp(3, (4, 5), 2, dropout=0.5, input_dropout=0.2)
    assert isinstance(net, nn.Sequential)
    assert [type(layer).__name__ for layer in net] == [
        *("Dropout", "Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear")
    ]
    assert [layer.p for layer in net if isinstance(layer, nn.Dropout)] == [0.2, 0.5, 0.5]


@pytest.mark.parametrize(
    ("network", "image", "features"),
    [(cifar_network(), (3, 32, 32), 256), (omniglot_network(), (1, 28, 28), 1024)],
    ids=["cifar", "omniglot"],
)
def test_pictures_end_in_the_features_that_heads_read(
    network: MultiHead, image: tuple[int, ...], features: int
) -> None:
    assert network.trunk(torch.zeros(2, *image)).shape == (2, features)
    assert network.features == features


@pytest.mark.parametrize("kind", ["conv", "resnet"])
@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 32, 32), (3, 9, 20)])
def test_pictures_of_any_shape_have_a_network(kind: str, shape: tuple[int, ...]) -> None:
    one = picture_network(kind, shape, 5, seed=1)
    assert one(torch.zeros(2, *shape)).shape == (2, 5)
    many = picture_network(kind, shape, None)
    assert isinstance(many, MultiHead)
    many.add_head(3)
    assert many(torch.zeros(2, *shape), task=0).shape == (2, 3)
    again = picture_network(kind, shape, 5, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), again.parameters(), strict=True))


def test_torchs_own_start_is_drawn_from_the_generator() -> None:
    """Within the bounds that torch's constructors use, and as widely."""
    network = torch_start(mlp(784, (400,), 10), torch.Generator().manual_seed(3))
    again = torch_start(mlp(784, (400,), 10, seed=1), torch.Generator().manual_seed(3))
    assert isinstance(network, nn.Sequential)
    layer, usual = network[0], nn.Linear(784, 400)
    assert isinstance(layer, nn.Linear)
    for ours, theirs in ((layer.weight, usual.weight), (layer.bias, usual.bias)):
        assert ours.abs().max() <= 1 / 28
        assert float(ours.detach().std()) == pytest.approx(float(theirs.detach().std()), rel=0.1)
    assert all(map(torch.equal, network.state_dict().values(), again.state_dict().values()))
