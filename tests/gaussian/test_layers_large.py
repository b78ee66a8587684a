"""Of a large embedding only the rows that are looked up are drawn, as if all had been."""

from __future__ import annotations

import copy

import pytest
import torch

from uclearn.gaussian.layers import GaussianEmbedding
from uclearn.gaussian.noise import Noise, NoiseKind


def table(words: int, width: int, kind: NoiseKind) -> GaussianEmbedding:
    torch.manual_seed(0)
    layer = GaussianEmbedding(words, width, padding_idx=1)
    layer.become_gaussian(0.5, "weight", noise=Noise(3, kind=kind))
    layer.rho.data += torch.linspace(0, 1, width)
    return layer


@pytest.mark.parametrize("kind", ["table", "fresh"])
@pytest.mark.parametrize(("words", "width"), [(30, 4), (70_000, 31)])  # one read, and several
def test_rows_are_those_of_a_draw_of_the_whole_table(
    words: int, width: int, kind: NoiseKind
) -> None:
    ours = table(words, width, kind)
    theirs = copy.deepcopy(ours)
    seen = torch.tensor([[1, 5, words - 1, 5], [words // 2, 2, 1, 3]])
    said = ours(seen)
    drawn = theirs._sampled_weight()
    wanted = torch.nn.functional.embedding(seen, drawn, padding_idx=1)
    torch.testing.assert_close(said, wanted)
    assert ours.noise.state == theirs.noise.state
    assert torch.equal(said[0, 1], said[0, 3])  # one draw of the table serves all places
    weights = torch.linspace(-1, 1, said.numel()).view_as(said)
    (said * weights).sum().backward()
    (wanted * weights).sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.rho.grad, theirs.rho.grad, rtol=1e-4, atol=1e-4)
