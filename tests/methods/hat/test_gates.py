"""Gates: the formulas of the HAT paper, and what a gate does to a layer."""

from __future__ import annotations

import copy
from typing import TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from uclearn.methods.hat.gates import (
    NodeGates,
    add_gate,
    anneal,
    compensation,
    keep,
    mask_gradients,
    put_back,
    sparsity,
)

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


@pytest.mark.parametrize("batches", [2, 7, 100])
def test_the_scale_is_annealed_as_in_the_paper(batches: int) -> None:
    """Eq. (3): s = 1/smax + (smax - 1/smax) (b - 1)/(B - 1) for batch b = 1 ... B."""
    smax = 400.0
    for b in range(1, batches + 1):
        expected = 1 / smax + (smax - 1 / smax) * (b - 1) / (batches - 1)
        assert anneal((b - 1) / (batches - 1), smax) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scale", [1 / 400, 0.1, 1.0, 3.0, 8.0])
def test_compensated_gradients_are_those_of_a_gate_that_is_never_steep(scale: float) -> None:
    """Eq. (5) divides the slope of sigmoid(s e) out and puts that of smax * sigmoid(e) in."""
    e = torch.linspace(-3, 3, 25, dtype=torch.float64, requires_grad=True)
    s = torch.tensor(scale, dtype=torch.float64)
    (steep,) = torch.autograd.grad(torch.sigmoid(s * e).sum(), e)
    (even,) = torch.autograd.grad(400.0 * torch.sigmoid(e).sum(), e)
    found = steep * compensation(e.detach(), s, 400.0)
    torch.testing.assert_close(found, even, rtol=1e-5, atol=0)


def test_compensation_is_finite_at_any_scale() -> None:
    """s e is limited to +-50, or cosh(400 * 6) would overflow."""
    e = torch.linspace(-6, 6, 25)
    factor = compensation(e, torch.tensor(400.0), 400.0)
    assert bool(factor.isfinite().all())
    expected = (torch.tensor(50.0).cosh() + 1) / (torch.tensor(6.0).cosh() + 1)
    torch.testing.assert_close(factor[-1], expected)


def test_sparsity_counts_free_nodes_only() -> None:
    gates, used = torch.rand(8), torch.tensor([1.0, 0, 0, 1, 0, 0, 1, 0])
    pairs = zip(gates.tolist(), used.tolist(), strict=True)
    opened = sum(gate * (1 - taken) for gate, taken in pairs)
    assert sparsity(gates, 1 - used).item() == pytest.approx(opened / 5)


def test_where_nothing_is_free_nothing_is_charged() -> None:
    assert sparsity(torch.ones(3), torch.zeros(3)).item() == 0.0


def gated(layer: Layer, task: int = 0) -> tuple[Layer, NodeGates]:
    gate = add_gate(layer, 3, 2.0, torch.Generator().manual_seed(0))
    gate.task = task
    return layer, gate


def test_a_gate_multiplies_nodes_while_training() -> None:
    (layer, gate), (channels, _) = gated(nn.Linear(4, 5), 1), gated(nn.Conv2d(2, 5, 3), 1)
    a = torch.sigmoid(2 * gate.embedding[1])
    x, pictures = torch.randn(7, 4), torch.randn(7, 2, 5, 5)
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias) * a)
    plain = F.conv2d(pictures, channels.weight, channels.bias)
    torch.testing.assert_close(channels(pictures), plain * a[:, None, None])


def test_a_gate_is_open_or_shut_in_evaluation() -> None:
    layer, gate = gated(nn.Linear(4, 5))
    x = torch.randn(7, 4)
    plain = F.linear(x, layer.weight, layer.bias)
    assert torch.equal(layer.eval()(x), torch.where(gate.embedding[0] > 0, plain, 0.0))


@torch.no_grad()
def test_a_shut_gate_lets_nothing_through_not_even_infinity() -> None:
    layer, gate = gated(nn.Linear(4, 5))
    layer.weight.fill_(torch.inf)
    gate.embedding.fill_(-1.0)
    assert torch.equal(layer.eval()(torch.ones(2, 4)), torch.zeros(2, 5))


@torch.no_grad()
def test_a_finished_task_keeps_its_gates_whatever_becomes_of_the_embedding() -> None:
    _, gate = gated(nn.Linear(4, 50))
    before = gate.hard()
    gate.finish()
    gate.embedding.neg_()
    assert torch.equal(gate.hard(), before)
    assert torch.equal(gate.used(), before)
    gate.finish()
    assert torch.equal(gate.hard(), before)


@torch.no_grad()
def test_a_copied_layer_has_the_gate_of_the_copy() -> None:
    layer, gate = gated(nn.Linear(4, 5))
    twin, x = copy.deepcopy(layer), torch.randn(2, 4)
    expected = layer(x)
    gate.embedding.fill_(-6.0)
    assert torch.equal(twin(x), expected)
    assert not torch.equal(layer(x), expected)


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
