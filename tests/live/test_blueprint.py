"""A network written down and rebuilt computes the same once its weights are loaded."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.live.months import PLAN, accuracy, month
from uclearn.errors import CheckpointError
from uclearn.live.blueprint import KINDS, Standardise, describe, rebuild
from uclearn.live.gate import Gate
from uclearn.live.learner import Learner
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


def test_mean_and_spread_of_the_first_data_become_0_and_1() -> None:
    x = 1000 * torch.rand(50, 3, generator=torch.Generator().manual_seed(0)) + 7
    x[:, 2] = 4.0
    scaled = Standardise.of(x)(x)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]))


def test_it_goes_wherever_the_network_goes(tmp_path: Path) -> None:
    x, y = month(0)
    x = x * 1000 + 500
    trunk = nn.Sequential(Standardise.of(x), nn.Linear(4, 12), nn.ReLU())
    ours = Learner(MultiHead(trunk, 12), "ucl", plan=PLAN)
    ours.learn((x, y), "january", gate=Gate(canary=30))
    assert accuracy(ours, x, y, "january") > 0.95
    expected = ours.predict(x).probabilities
    ours.widen(2.0)
    ours.save(tmp_path)
    network = Learner.load(tmp_path).export(task="january").network
    torch.testing.assert_close(network(x).softmax(1), expected)
