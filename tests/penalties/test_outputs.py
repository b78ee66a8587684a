"""Eq. (4) measured by what nodes say: against what they do say, example by example, and against
autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from uclearn.penalties import Given, Moved, output_drift

GROUPS, NODES, INPUTS = 2, 3, 5


def distribution(rows: Tensor, width: int, one: float = 1.0) -> Given:
    """Mean and covariance of `rows`, (groups, rows, inputs), in blocks of so many inputs."""
    mean = rows.mean(1)
    centred = rows - mean[:, None]
    whole = centred.mT @ centred / rows.shape[1]
    count = -(-rows.shape[2] // width)
    blocks = rows.new_zeros(len(rows), count, width, width)
    for number in range(count):
        part = slice(number * width, min((number + 1) * width, rows.shape[2]))
        wide = part.stop - part.start
        blocks[:, number, :wide, :wide] = whole[:, part, part]
    return Given(mean, blocks, torch.tensor(one, dtype=rows.dtype))


def scene() -> tuple[Moved, Tensor, Tensor]:
    """How a layer moved, what it was given, and the squared strength of its nodes."""
    draw = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    moved = Moved(normal(GROUPS, NODES, INPUTS), normal(GROUPS, NODES))
    return moved, normal(GROUPS, 7, INPUTS) + 0.5, normal(GROUPS, NODES).square()


def test_it_is_half_the_mean_squared_change_of_what_nodes_say() -> None:
    moved, rows, node = scene()
    assert moved.bias is not None
    value, _ = output_drift(moved, distribution(rows, INPUTS), node)
    said = torch.einsum("gni,gri->grn", moved.weight, rows) + moved.bias[:, None]
    expected = (node * said.square().mean(1)).sum() / 2
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_blocks_are_the_whole_with_zeros_between_them(width: int) -> None:
    moved, rows, node = scene()
    blocks = distribution(rows, width)
    whole = torch.stack([torch.block_diag(*each)[:INPUTS, :INPUTS] for each in blocks.covariance])
    value, gradient = output_drift(moved, blocks, node)
    expected, slope = output_drift(moved, blocks._replace(covariance=whole[:, None]), node)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient.weight, slope.weight, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", [2, 5])
@pytest.mark.parametrize("with_bias", [True, False], ids=["bias", "no bias"])
def test_the_gradient_is_autograds(width: int, with_bias: bool) -> None:
    moved, rows, node = scene()
    given = distribution(rows, width, one=0.7)
    weight = moved.weight.clone().requires_grad_()
    bias = moved.bias.clone().requires_grad_() if with_bias and moved.bias is not None else None
    covariance = torch.stack(
        [torch.block_diag(*each)[:INPUTS, :INPUTS] for each in given.covariance]
    )
    steady = torch.einsum("gni,gi->gn", weight, given.mean)
    steady = steady if bias is None else steady + bias * given.one
    varied = torch.einsum("gni,gij,gnj->gn", weight, covariance, weight)
    expected = (node * (steady.square() + varied)).sum() / 2
    expected.backward()
    with torch.no_grad():
        found, gradient = output_drift(Moved(weight, bias), given, node)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient.weight, weight.grad, rtol=1e-12, atol=1e-12)
    if bias is None:
        assert gradient.bias is None
    else:
        torch.testing.assert_close(gradient.bias, bias.grad, rtol=1e-12, atol=1e-12)


def test_words_do_not_covary() -> None:
    """One-hot inputs: each word's change counts as often as the word was seen."""
    moved, _, _ = scene()
    often = torch.tensor([[0.5, 0.3, 0.2, 0.0, 0.0]], dtype=torch.float64)
    given = Given(torch.zeros_like(often), often, torch.tensor(1.0, dtype=torch.float64))
    node = torch.ones(1, NODES, dtype=torch.float64)
    value, gradient = output_drift(Moved(moved.weight[:1], None), given, node)
    squares = moved.weight[0].square()
    torch.testing.assert_close(value, (squares * often).sum() / 2)
    assert gradient.weight[..., 3:].abs().max() == 0  # what was never seen is free


def test_nothing_is_written_to() -> None:
    moved, rows, node = scene()
    given = distribution(rows, 2)
    before = [each.clone() for each in (moved.weight, *given, node)]
    output_drift(moved, given, node)
    assert all(map(torch.equal, before, (moved.weight, *given, node)))
