"""An update is whole or not at all, and learns with the loss and the weights it is given."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.live.months import PLAN, QUICK, learner, month, same, state
from uclearn.live.learner import Learner
from uclearn.networks import mlp


def test_a_rare_class_is_learned_with_balanced_weights() -> None:
    x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    rare = torch.arange(400) % 40 == 0
    x[rare] += 1.0  # it overlaps with the frequent one
    found = []
    for weights in (None, "balanced"):
        ours = Learner(mlp(2, (8,), None), "finetuning", plan=PLAN)
        ours.learn((x, rare.long()), "a", class_weights=weights)
        labels = ours.predict(x).labels
        found.append(int(labels[rare].sum()))
    assert found[1] >= found[0] + 4


def test_any_loss_serves() -> None:
    def hinge(outputs: Tensor, targets: Tensor) -> Tensor:
        return (1 - outputs[:, 0] * (2.0 * targets - 1)).clamp_min(0)

    ours = Learner(mlp(4, (12,), 1), "ucl", plan=PLAN, loss=hinge)
    x, y = month(0)
    ours.learn((x, y.float()), "january")
    answer = ours.predict(x)
    assert ((answer.outputs[:, 0] > 0) == y.bool()).float().mean() > 0.95


def test_an_update_that_fails_on_the_way_changes_nothing() -> None:
    ours = learner("ucl")
    ours.learn(month(0), "january")
    before, tasks, random = state(ours), dict(ours.tasks), torch.get_rng_state()

    def dying(outputs: Tensor, targets: Tensor) -> Tensor:
        dying.left -= 1  # type: ignore[attr-defined]
        if not dying.left:  # type: ignore[attr-defined]
            raise KeyboardInterrupt
        return nn.functional.cross_entropy(outputs, targets, reduction="none")

    dying.left = 20  # type: ignore[attr-defined]
    ours.loss = dying
    with pytest.raises(KeyboardInterrupt):
        ours.learn(month(1), "february")
    assert same(before, state(ours))
    assert ours.tasks == tasks
    assert len(ours.journal) == 1
    assert torch.equal(torch.get_rng_state(), random)


def test_dropout_follows_the_seed_of_the_plan_and_nothing_else() -> None:
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        ours = Learner(mlp(4, (12,), None, dropout=0.3), "finetuning", plan=QUICK)
        ours.learn(month(0), "january")
        states.append(state(ours))
    assert same(*states)
