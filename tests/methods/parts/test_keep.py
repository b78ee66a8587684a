"""Weights that must not move."""

from __future__ import annotations

import torch
from torch import nn

from uclearn.methods.parts.keep import keep, mask_gradients, put_back


@torch.no_grad()
def test_whatever_was_done_kept_values_come_back_exactly_and_others_stay_exactly() -> None:
    generator = torch.Generator().manual_seed(0)
    parameter = nn.Parameter(torch.randn(200, 50, generator=generator))
    before = parameter.clone()
    mask = torch.rand(200, 50, generator=generator) < 0.5
    kept = list(keep(parameter, mask))
    for size in (1e-8, 1.0, 1e8):
        parameter.copy_(before + size * torch.randn(200, 50, generator=generator))
        moved = parameter.clone()
        put_back(kept)
        assert torch.equal(parameter, torch.where(mask, before, moved))


def test_masked_gradients_are_exactly_zero_and_others_stay_exactly() -> None:
    parameter = nn.Parameter(torch.randn(30, 20))
    gradient = torch.randn(30, 20) * torch.logspace(-30, 30, 20)
    parameter.grad = gradient.clone()
    nodes = (torch.arange(30) % 3 == 0).unsqueeze(1)
    (exposed,) = mask_gradients(keep(parameter, nodes))
    assert exposed.parameter is parameter
    assert torch.equal(parameter.grad, torch.where(nodes, 0.0, gradient))


def test_without_a_gradient_there_is_nothing_to_mask() -> None:
    parameter = nn.Parameter(torch.randn(3))
    assert mask_gradients(keep(parameter, torch.tensor(True))) == []
    assert parameter.grad is None


def test_where_nothing_is_masked_nothing_is_kept() -> None:
    assert list(keep(nn.Parameter(torch.randn(3)), torch.zeros(3, dtype=torch.bool))) == []


def test_kept_values_do_not_follow_the_parameter() -> None:
    parameter = nn.Parameter(torch.zeros(3))
    (kept,) = keep(parameter, torch.tensor(True))
    with torch.no_grad():
        parameter.add_(1.0)
    assert kept.values.count_nonzero() == 0
