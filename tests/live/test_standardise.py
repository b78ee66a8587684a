"""Features on one scale inside the network: learned, widened, exported, saved with it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from tests.live.months import PLAN, accuracy, month
from uclearn.live.gate import Gate
from uclearn.live.learner import Learner
from uclearn.live.standardise import Standardise
from uclearn.networks import MultiHead


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
