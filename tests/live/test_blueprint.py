"""A network written down and rebuilt computes the same once its weights are loaded."""

from __future__ import annotations

import inspect
import json

import pytest
import torch
from torch import nn

from uclearn.errors import CheckpointError
from uclearn.live.blueprint import KINDS, describe, rebuild, resize_to, sizes
from uclearn.networks import MultiHead, cifar_network, mlp, omniglot_network

IMAGES = nn.Sequential(
    nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False, padding_mode="reflect"),
    nn.BatchNorm2d(8, eps=0.1, momentum=0.3),
    nn.LeakyReLU(0.3),
    nn.Dropout2d(0.1),
    nn.Conv2d(8, 8, 3, groups=2, dilation=2, padding="same"),
    nn.GroupNorm(2, 8),
    nn.GELU(approximate="tanh"),
    nn.MaxPool2d(3, stride=1, ceil_mode=True),
    nn.AdaptiveAvgPool2d((2, 1)),
    nn.Flatten(),
    nn.LayerNorm(16, eps=0.2, bias=False),
    nn.Linear(16, 4, bias=False),
    nn.ELU(0.7),
)
SIGNALS = nn.Sequential(
    nn.Conv1d(2, 4, 5), nn.BatchNorm1d(4, affine=False), nn.SiLU(), nn.AvgPool1d(2), nn.Tanh()
)
WORDS = nn.Sequential(
    nn.Embedding(9, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 2), nn.Sigmoid()
)


@pytest.mark.parametrize(
    ("network", "x"),
    [
        (mlp(5, (7, 6), 3, dropout=0.2, input_dropout=0.1), torch.randn(4, 5)),
        (mlp(5, (7, 6), None), torch.randn(4, 5)),
        (cifar_network(), torch.randn(2, 3, 32, 32)),
        (omniglot_network(), torch.randn(2, 1, 28, 28)),
        (IMAGES, torch.randn(2, 3, 16, 16)),
        (SIGNALS, torch.randn(2, 2, 20)),
        (WORDS, torch.randint(9, (4, 3))),
    ],
    ids=["mlp", "mlp with heads", "cifar", "omniglot", "images", "signals", "words"],
)
def test_a_rebuilt_network_computes_the_same(network: nn.Module, x: torch.Tensor) -> None:
    if isinstance(network, MultiHead):
        network.add_head(3)
    random = torch.get_rng_state()
    again = rebuild(json.loads(json.dumps(describe(network))))
    assert torch.equal(torch.get_rng_state(), random)
    again.load_state_dict(network.state_dict())
    for mode in (network.eval, network.train):
        mode()
        again.train(network.training)
        torch.manual_seed(0)
        expected = network(x)
        torch.manual_seed(0)
        assert torch.equal(again(x), expected)


def test_every_kind_that_can_be_rebuilt_says_all_its_settings() -> None:
    needed = {
        "num_embeddings": 3,
        **dict.fromkeys(["in_features", "out_features", "num_features", "features"], 4),
        "embedding_dim": 4,
        **dict.fromkeys(["in_channels", "out_channels", "num_channels", "normalized_shape"], 4),
        **dict.fromkeys(["kernel_size", "output_size", "num_groups"], 2),
    }
    for kind in KINDS.values():
        parameters = inspect.signature(kind).parameters.values()
        asked = [
            p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        module = kind(**{p.name: needed[p.name] for p in asked})
        described = describe(module)
        assert described is not None, kind
        assert repr(rebuild(described)) == repr(module)


def test_what_cannot_be_rebuilt_says_so() -> None:
    class Own(nn.Linear):
        pass

    assert describe(Own(2, 2)) is None
    assert describe(nn.Sequential(nn.Linear(2, 2), Own(2, 2))) is None
    assert describe(nn.LSTM(2, 2)) is None


@pytest.mark.parametrize(
    "description", [{}, {"kind": "system"}, {"kind": "Linear", "settings": {"in_features": 2}}]
)
def test_a_senseless_description_is_refused(description: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match="The description of the network makes no sense"):
        rebuild(description)


def test_resizing_keeps_what_was_there() -> None:
    network = mlp(3, (4,), 2)
    wanted = sizes(mlp(3, (6,), 2))
    before = [p.detach().clone() for p in network.parameters()]
    resize_to(network, wanted)
    assert sizes(network) == wanted
    assert network[0].out_features == 6  # type: ignore[index]
    assert network[2].in_features == 6  # type: ignore[index]
    for old, new in zip(before, network.parameters(), strict=True):
        assert torch.equal(new[tuple(slice(n) for n in old.shape)], old)
        assert float(new.detach().sum()) == pytest.approx(float(old.sum()), abs=1e-6)
