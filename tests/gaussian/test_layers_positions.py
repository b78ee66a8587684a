"""What `sampling="local"` leaves out of a convolution: the noise of its positions goes together."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from uclearn.gaussian import Noise, convert


@pytest.mark.parametrize(("sampling", "share"), [("weight", 1.0), ("local", 1 / 8)])
def test_pooling_averages_away_what_is_drawn_apart(sampling: str, share: float) -> None:
    """64 positions that look alike: drawn weights shift them all alike, noise of their own is eight
    times smaller in the mean."""
    net = nn.Sequential(nn.Conv2d(3, 256, 1, bias=False), nn.AdaptiveAvgPool2d(1))
    noise = Noise(0, kind="fresh")
    noisy = convert(net, sigma=0.1, sampling=sampling, noise=noise).train()  # type: ignore[arg-type]
    x = torch.full((1, 3, 8, 8), 2.0)
    with torch.no_grad():
        clean = noisy.eval()(x)
        drawn = torch.cat([noisy.train()(x) - clean for _ in range(20)])
    one_position = 0.1 * (3 * 2.0**2) ** 0.5  # sigma |x|
    assert float(drawn.std()) == pytest.approx(share * one_position, rel=0.06)
