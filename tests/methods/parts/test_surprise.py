"""The signs by which a network's own answers are followed."""

from __future__ import annotations

import torch

from uclearn.methods.parts.surprise import _own_signs


def test_own_signs_are_fair_and_those_of_an_example_in_whatever_batch() -> None:
    logits = 3 * torch.randn(4000, 10, generator=torch.Generator().manual_seed(1))
    slopes = _own_signs(logits)
    assert torch.equal(_own_signs(logits[1000:1010]), slopes[1000:1010])
    together = slopes.T @ slopes / len(slopes)  # independent signs: the identity
    assert float((together - torch.eye(10)).abs().max()) < 0.1
    two = _own_signs(logits[:, :2])
    assert abs(float((two[:, 0] * two[:, 1]).mean())) < 0.1
