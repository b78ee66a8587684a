"""The signs by which a network's own answers are followed."""

from __future__ import annotations

import torch

from uclearn.methods.parts.surprise import _signs_of_logits, _signs_of_numbers


def test_signs_of_logits_are_fair_and_those_of_an_example_in_whatever_batch() -> None:
    logits = 3 * torch.randn(4000, 10, generator=torch.Generator().manual_seed(1))
    slopes = _signs_of_logits(logits)
    assert torch.equal(_signs_of_logits(logits[1000:1010]), slopes[1000:1010])
    together = slopes.T @ slopes / len(slopes)  # independent signs: the identity
    assert float((together - torch.eye(10)).abs().max()) < 0.1
    two = _signs_of_logits(logits[:, :2])
    assert abs(float((two[:, 0] * two[:, 1]).mean())) < 0.1


def test_signs_of_numbers_are_fair_and_those_of_an_example_in_whatever_batch() -> None:
    numbers = 50 + torch.randn(4000, 2, 5, generator=torch.Generator().manual_seed(1))
    signs = _signs_of_numbers(numbers)
    assert torch.equal(_signs_of_numbers(numbers[1000:1010]), signs[1000:1010])
    together = signs.flatten(1).T @ signs.flatten(1) / len(signs)
    assert float((together - torch.eye(10)).abs().max()) < 0.1
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
