"""Per-example losses and draws stacked in front."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from uclearn import Learner
from uclearn.errors import TaskError
from uclearn.methods.checks import problem
from uclearn.methods.contract import Method
from uclearn.methods.losses import cross_entropy, example_losses, squared_error, weighted
from uclearn.methods.registry import build
from uclearn.methods.vcl import VCL
from uclearn.tasks import Data, TaskSequence
from uclearn.training.plan import Plan
from uclearn.training.session import learn


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


# -- one meaning: the loop's loss is that of methods which also train by themselves ------------


def label_smoothing(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none", label_smoothing=0.3)


PLAN = Plan(epochs=1, batch_size=8, lr=0.01)


def told_and_built_with(name: str, part: str, **settings: Any) -> list[Method]:
    """The method whose loop has a loss, and the same one built with that loss."""
    found = []
    for own in ({}, {"loss": label_smoothing}):
        network = problem.network(heads=False)
        method = build(name, network, torch.zeros(1, problem.FEATURES), {part: settings | own})
        learn(
            method, TaskSequence("small", problem.tasks(2), heads=False), PLAN, loss=label_smoothing
        )
        found.append(method)
    return found


def test_the_loss_of_the_trainer_is_that_of_the_start_of_vcl() -> None:
    told, built = told_and_built_with("vcl", "vcl", start_epochs=2)
    expected = built.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in told.state_dict().items())


def test_the_loss_of_the_trainer_is_that_of_the_refits_of_a_coreset() -> None:
    told, built = told_and_built_with("finetuning+coreset", "coreset", size=5)
    task = problem.tasks(2)[1]
    expected = problem.predict(built, task)
    assert torch.equal(problem.predict(told, task), expected)
    told.use_loss(None)
    told.end_step()  # what was refitted is out of date
    assert not torch.equal(problem.predict(told, task), expected)


def test_the_loss_of_a_learner_is_that_of_the_start_of_vcl() -> None:
    seen = []

    def noted(outputs: Tensor, targets: Tensor) -> Tensor:
        seen.append(outputs.shape)
        return cross_entropy(outputs, targets)

    network = problem.network(heads=False)
    learner = Learner(network, "vcl", plan=PLAN, loss=noted, start_epochs=1, start_batch_size=7)
    data = problem.tasks(1)[0].train
    assert isinstance(data, Data)
    learner.learn((data.inputs, data.targets), name="first")
    # 24 examples in batches of 7, before the first batch of training
    assert [len(shape) and shape[0] for shape in seen[:4]] == [7, 7, 7, 3]


def test_a_mean_over_the_batch_is_refused_in_the_start_of_vcl() -> None:
    method = VCL(problem.network(heads=False), start_epochs=1, loss=F.cross_entropy)
    method.begin_task(problem.tasks(1)[0])
    with pytest.raises(TaskError, match="must return one number per example"):
        method.begin_step()
