"""Per-example losses and draws stacked in front."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from uclearn.errors import TaskError
from uclearn.training.losses import cross_entropy, example_losses, squared_error, weighted


def test_draws_are_averaged_over() -> None:
    outputs, targets = torch.randn(5, 7, 3), torch.randint(3, (7,))
    each = [F.cross_entropy(draw, targets, reduction="none") for draw in outputs]
    expected = torch.stack(each).mean(0)
    assert torch.allclose(example_losses(cross_entropy, outputs, targets), expected)


def test_draws_of_a_regression_are_averaged_over() -> None:
    outputs, targets = torch.randn(5, 7, 2), torch.randn(7, 2)
    expected = (outputs - targets).square().sum(2).mean(0)
    assert torch.allclose(example_losses(squared_error, outputs, targets), expected)


def test_as_many_draws_as_examples_are_no_riddle() -> None:
    outputs, targets = torch.randn(3, 3, 3), torch.randint(3, (3,))
    expected = torch.stack([cross_entropy(draw, targets) for draw in outputs]).mean(0)
    assert torch.allclose(example_losses(cross_entropy, outputs, targets), expected)


def test_losses_of_sequences_are_averaged_per_example() -> None:
    outputs, targets = torch.randn(4, 3, 6), torch.randint(3, (4, 6))  # (batch, classes, length)
    losses = example_losses(cross_entropy, outputs, targets)
    assert losses.shape == (4,)
    assert torch.allclose(losses.mean(), F.cross_entropy(outputs, targets))


def test_a_loss_that_averages_by_itself_is_told_how_to_stop() -> None:
    with pytest.raises(TaskError, match=r"one number per example.*reduction='none'"):
        example_losses(F.cross_entropy, torch.randn(4, 3), torch.randint(3, (4,)))


def test_class_weights_multiply_the_loss_and_average_to_one() -> None:
    """Twice the weight is twice the gradient: the same as showing the class twice, by the mean."""
    labels = torch.tensor([0, 0, 0, 1])
    outputs = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    loss = weighted(cross_entropy, "balanced", labels, 2)
    plain, balanced = cross_entropy(outputs, labels), loss(outputs, labels)
    torch.testing.assert_close(balanced, plain * torch.tensor([2 / 3, 2 / 3, 2 / 3, 2.0]))
    double = weighted(cross_entropy, [1.0, 2.0], labels, 2)
    torch.testing.assert_close(double(outputs, labels).mean() * 5 / 4, (plain.sum() + plain[3]) / 4)
