"""Eq. (4) and eq. (5) against a loop over the weights, and against autograd; term (b) and eq. (6)
against the loop over nodes, autograd, and where they are least."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.oracles import hold_by_loop, spread_by_loop
from tests.penalties.shapes import Scene, pieces, scenes
from uclearn.penalties import (
    add_hold_gradient,
    drift,
    freeze,
    hold,
    spread,
    spread_and_gradient,
    spread_gradient,
    ucl,
)
from uclearn.sizes import WEIGHT_PIECE

weights = st.floats(0.0, 2.0)


def by_loop(scene: Scene, drift: float, freeze: float) -> tuple[float, Tensor]:
    source = None if scene.source is None else scene.source.tolist()
    return hold_by_loop(
        scene.mean, scene.anchor, scene.ends, scene.node.tolist(), source, drift, freeze
    )


@settings(max_examples=150)
@given(scene=scenes(), piece=pieces, alpha=weights, pressed=st.one_of(st.none(), weights))
def test_hold_is_the_loop_over_weights(
    scene: Scene, piece: int, alpha: float, pressed: float | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ucl, "WEIGHT_PIECE", piece)
        value, gradient = hold(
            scene.blocks(scene.mean), scene.blocks(scene.anchor), scene.grip(alpha, pressed), 0.5
        )
    expected, slope = by_loop(scene, alpha, pressed or 0.0)
    torch.testing.assert_close(value.item(), 0.5 * expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradient.view_as(slope), 0.5 * slope, rtol=1e-10, atol=1e-12)


@settings(max_examples=100)
@given(scene=scenes(), piece=pieces, alpha=weights, pressed=st.one_of(st.none(), weights))
def test_the_gradient_only_path_adds_the_same_gradient_in_place(
    scene: Scene, piece: int, alpha: float, pressed: float | None
) -> None:
    given_gradient = torch.randn_like(scene.mean)
    gradient = given_gradient.clone()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ucl, "WEIGHT_PIECE", piece)
        add_hold_gradient(
            scene.blocks(gradient),
            scene.blocks(scene.mean),
            scene.blocks(scene.anchor),
            scene.grip(alpha, pressed),
            scale=0.25,
        )
    _, slope = by_loop(scene, alpha, pressed or 0.0)
    torch.testing.assert_close(gradient, given_gradient + 0.25 * slope, rtol=1e-10, atol=1e-12)


@settings(max_examples=60)
@given(scene=scenes(), piece=pieces)
def test_drift_and_freeze_are_the_loop_over_weights(scene: Scene, piece: int) -> None:
    mean, anchor = scene.blocks(scene.mean), scene.blocks(scene.anchor)
    node = scene.layer.over_nodes(scene.node)
    source = None if scene.source is None else scene.layer.over_sources(scene.source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ucl, "WEIGHT_PIECE", piece)
        drifted, pressed = drift(mean, anchor, node, source), freeze(mean, anchor, node)
    torch.testing.assert_close(drifted.item(), by_loop(scene, 1.0, 0.0)[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(pressed.item(), by_loop(scene, 0.0, 1.0)[0], rtol=1e-10, atol=1e-12)


@settings(max_examples=60)
@given(scene=scenes(), factor=st.sampled_from([1.0, 2.0**16, 0.1, -3.0]))
def test_the_gradients_are_those_of_autograd_on_the_formula(scene: Scene, factor: float) -> None:
    """Whatever the loss is multiplied with, as a gradient scaler multiplies it."""
    node = scene.layer.over_nodes(scene.node)
    source = None if scene.source is None else scene.layer.over_sources(scene.source)
    stiffest = node if source is None else torch.maximum(node, source)
    anchor = scene.blocks(scene.anchor)

    formula_mean = scene.mean.clone().requires_grad_()
    moved = scene.blocks(formula_mean) - anchor
    formula = 0.5 * (stiffest * moved).square().sum() + ((node * anchor) ** 2 * moved.abs()).sum()
    (factor * formula).backward()

    mean = scene.mean.clone().requires_grad_()
    closed = drift(scene.blocks(mean), anchor, node, source) + freeze(
        scene.blocks(mean), anchor, node
    )
    (factor * closed).backward()
    torch.testing.assert_close(closed, formula)
    torch.testing.assert_close(mean.grad, formula_mean.grad)


@settings(max_examples=20)
@given(scene=scenes())
def test_gradcheck_of_hold(scene: Scene) -> None:
    """Away from the kink of eq. (5) at the anchor."""
    anchor, node = scene.blocks(scene.anchor), scene.layer.over_nodes(scene.node)
    source = None if scene.source is None else scene.layer.over_sources(scene.source)
    distance = 0.1 + torch.rand_like(scene.mean)
    mean = (scene.anchor + torch.where(scene.mean > 0, distance, -distance)).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: drift(scene.blocks(m), anchor, node, source), mean)
    assert torch.autograd.gradcheck(lambda m: freeze(scene.blocks(m), anchor, node), mean)


@pytest.mark.parametrize("shape", [(), (3,), (1, 3), (4, 1), (4, 3)])
@pytest.mark.parametrize("piece", [1, 3, 1 << 17])
def test_strengths_broadcast_as_torch_broadcasts(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], piece: int
) -> None:
    monkeypatch.setattr(ucl, "WEIGHT_PIECE", piece)
    mean, anchor, node = torch.randn(4, 3), torch.randn(4, 3), torch.rand(shape)
    moved = mean - anchor
    torch.testing.assert_close(drift(mean, anchor, node), (node * moved).square().sum() / 2)
    expected = ((node * anchor) ** 2 * moved.abs()).sum()
    torch.testing.assert_close(freeze(mean, anchor, node), expected)


def test_a_large_weight_is_worked_on_in_pieces_and_gives_the_same() -> None:
    """Without any patch: 2100 x 1600 weights are four pieces, the last one smaller."""
    mean, anchor = torch.randn(2100, 1600).double(), torch.randn(2100, 1600).double()
    node, source = torch.rand(2100, 1).double(), torch.rand(1, 1600).double()
    assert mean.numel() > 3 * WEIGHT_PIECE
    moved, stiffest = mean - anchor, torch.maximum(node, source)
    expected = (stiffest * moved).square().sum() / 2
    torch.testing.assert_close(drift(mean, anchor, node, source), expected)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_a_layer_without_weights_is_held_by_nothing(shape: tuple[int, int]) -> None:
    empty = torch.zeros(shape)
    assert drift(empty, empty, torch.ones(shape[0], 1), torch.ones(1, shape[1])) == 0


@settings(max_examples=30)
@given(scene=scenes())
def test_at_the_anchor_value_and_gradient_are_exactly_zero(scene: Scene) -> None:
    anchor = scene.blocks(scene.anchor)
    value, gradient = hold(anchor.clone(), anchor, scene.grip())
    assert value == 0
    assert not gradient.any()


@settings(max_examples=30)
@given(scene=scenes())
def test_nothing_given_is_written_to(scene: Scene) -> None:
    before = [t.clone() for t in (scene.mean, scene.anchor, scene.node)]
    grip = scene.grip()
    kept = [None if t is None else t.clone() for t in grip]
    hold(scene.blocks(scene.mean), scene.blocks(scene.anchor), grip)
    add_hold_gradient(
        scene.blocks(torch.zeros_like(scene.mean)),
        scene.blocks(scene.mean),
        scene.blocks(scene.anchor),
        grip,
        1.0,
    )
    assert all(map(torch.equal, before, (scene.mean, scene.anchor, scene.node)))
    for now, then in zip(grip, kept, strict=True):
        assert (now is None and then is None) or torch.equal(now, then)  # type: ignore[arg-type]


sigmas = st.floats(1e-3, 10.0)
pairs = st.lists(st.tuples(sigmas, sigmas), min_size=1, max_size=6)


def columns(nodes: list[tuple[float, float]]) -> tuple[Tensor, Tensor]:
    sigma, previous = torch.tensor(nodes, dtype=torch.float64).unbind(1)
    return sigma, previous


@settings(max_examples=100)
@given(nodes=pairs, inflate=st.booleans())
def test_value_and_gradient_are_the_loop_over_nodes(
    nodes: list[tuple[float, float]], inflate: bool
) -> None:
    sigma, previous = columns(nodes)
    expected, slope = spread_by_loop(sigma.tolist(), previous.tolist(), inflate)
    value, gradient = spread_and_gradient(sigma, previous, inflate=inflate)
    torch.testing.assert_close(value.item(), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradient, torch.tensor(slope).double(), rtol=1e-6, atol=1e-6)
    assert torch.equal(spread_gradient(sigma, previous, inflate=inflate), gradient)
    assert torch.equal(spread(sigma, previous, inflate=inflate), value)


@settings(max_examples=50)
@given(nodes=pairs, inflate=st.booleans(), factor=st.sampled_from([1.0, 65536.0, 0.03]), rho=sigmas)
def test_the_gradient_is_that_of_autograd_on_the_formula(
    nodes: list[tuple[float, float]], inflate: bool, factor: float, rho: float
) -> None:
    """Through softplus too, as a layer's rho sees it."""
    start, previous = columns(nodes)
    gradients = []
    for closed in (True, False):
        free = (start.log() - rho).requires_grad_()
        sigma = torch.nn.functional.softplus(free)
        if closed:
            value = spread(sigma, previous, inflate=inflate)
        else:
            ratio = (sigma / previous) ** 2
            value = (ratio - ratio.log()).sum() / 2
            if inflate:
                value = value + (sigma**2 - (sigma**2).log()).sum() / 2
        (factor * value).backward()
        gradients.append(free.grad)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-8, atol=1e-8 * factor)


@pytest.mark.parametrize("inflate", [True, False])
def test_gradcheck_of_spread(inflate: bool) -> None:
    sigma = (0.1 + torch.rand(5, dtype=torch.float64)).requires_grad_()
    previous = 0.1 + torch.rand(5, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda s: spread(s, previous, inflate=inflate), sigma)


@given(before=sigmas)
def test_least_at_the_root_of_two_over_one_plus_the_inverse_variance(before: float) -> None:
    """argmin = sqrt(2 / (1/sigma'^2 + 1)): the slope is 0 there and the value larger elsewhere."""
    previous = torch.tensor([before], dtype=torch.float64)
    least = (2 / (1 / previous**2 + 1)).sqrt()
    slope = spread_gradient(least, previous)
    assert abs(slope.item()) <= 1e-12 * (2 / least.item())
    lowest = spread(least, previous)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        assert spread(factor * least, previous) > lowest


@given(before=st.floats(1e-4, 0.05))
def test_for_small_sigma_the_minimiser_is_near_root_two_times_the_previous(before: float) -> None:
    least = math.sqrt(2 / (1 / before**2 + 1))
    assert least == pytest.approx(math.sqrt(2) * before, rel=before**2)


@given(before=sigmas)
def test_without_inflation_a_node_is_best_left_as_certain_as_it_was(before: float) -> None:
    previous = torch.tensor([before], dtype=torch.float64)
    assert abs(spread_gradient(previous, previous, inflate=False).item()) <= 1e-12 / before
    lowest = spread(previous, previous, inflate=False)
    assert lowest.item() == pytest.approx(0.5)
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert spread(factor * previous, previous, inflate=False) > lowest
