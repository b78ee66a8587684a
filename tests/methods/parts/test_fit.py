"""The few lines of optimisation, against the same lines written out."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.small_tasks import digit_pairs, mlp
from uclearn.errors import SettingError
from uclearn.methods.contract import Method
from uclearn.methods.parts.fit import fit, fit_settings, mean_loss
from uclearn.tasks.data import generator


def test_it_is_adam_on_shuffled_batches() -> None:
    net, data = mlp(heads=False), digit_pairs(1)[0].train
    method, by_hand = Method(net), copy.deepcopy(net)
    fit(method, data, epochs=2, lr=0.01, batch_size=100, seed=3)
    optimizer, order = torch.optim.Adam(by_hand.parameters(), lr=0.01), generator(3, "fit")
    for _ in range(2):
        for positions in torch.randperm(len(data), generator=order).split(100):
            x, y, _ = data.batch(positions)
            optimizer.zero_grad()
            F.cross_entropy(by_hand(x), y).backward()
            optimizer.step()
    for found, expected in zip(method.model.parameters(), by_hand.parameters(), strict=True):
        assert torch.equal(found, expected)
        assert found.grad is None


def test_every_step_says_where_it_stands_in_the_order_of_the_contract() -> None:
    said: list[tuple[str, Any]] = []

    class Telling(Method):
        def begin_step(self, step: Any = None, **given: Any) -> None:
            said.append(("begin", step))

        def penalty(self, step: Any = None, **given: Any) -> Tensor:
            said.append(("penalty", step))
            return next(self.model.parameters()).sum()

        def adjust_gradients(self, step: Any = None, **given: Any) -> None:
            said.append(("adjust", step))

        def end_step(self, step: Any = None, **given: Any) -> None:
            said.append(("end", step))

    task = digit_pairs(1)[0]
    method = Telling(mlp())
    method.begin_task(task)
    fit(method, task.train, task=4, epochs=1, batch_size=100)
    assert [word for word, _ in said] == ["begin", "penalty", "adjust", "end"] * 3
    steps = [step for word, step in said if word == "begin"]
    assert [step.batch_size for step in steps] == [100, 100, 40]
    assert [step.progress for step in steps] == [0.0, 0.5, 1.0]
    assert {(step.task, step.examples) for step in steps} == {(4, 240)}


def test_it_draws_from_its_seed_and_leaves_torch_alone() -> None:
    net = nn.Sequential(nn.Linear(64, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    data, results = digit_pairs(1)[0].train, []
    for noise in range(2):
        torch.manual_seed(noise)
        method = Method(net)
        before = torch.get_rng_state()
        fit(method, data, epochs=1, seed=1)
        assert torch.equal(torch.get_rng_state(), before)
        results.append(method.model.state_dict())
    assert all(torch.equal(v, results[1][k]) for k, v in results[0].items())


def test_draws_in_front_are_averaged_over() -> None:
    labels, values = torch.tensor([0, 2]), torch.randn(2, 3)
    outputs = torch.randn(5, 2, 3)
    expected = torch.stack([F.cross_entropy(draw, labels) for draw in outputs]).mean()
    torch.testing.assert_close(mean_loss(outputs, labels), expected)
    expected = (outputs - values).square().sum(2).mean()  # as `squared_error` in any loop
    torch.testing.assert_close(mean_loss(outputs, values), expected)
    torch.testing.assert_close(mean_loss(outputs[0], labels), F.cross_entropy(outputs[0], labels))
    torch.testing.assert_close(
        mean_loss(outputs[0], values), (outputs[0] - values).square().sum(1).mean()
    )
    torch.testing.assert_close(
        mean_loss(outputs, values, partial(F.l1_loss, reduction="none")),
        (outputs - values).abs().mean(),
    )


@pytest.mark.parametrize(
    ("epochs", "lr", "batch_size", "message"),
    [
        (-1, 0.1, 1, "`start_epochs` must be 0 or greater, got -1. It is how many times"),
        (1, 0.0, 1, "`start_lr` must be positive, got 0.0. It is a learning rate."),
        (1, 0.1, 0, "`start_batch_size` must be at least 1, got 0. It is the examples per step."),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    epochs: int, lr: float, batch_size: int, message: str
) -> None:
    with pytest.raises(SettingError) as error:
        fit_settings("start", epochs, lr, batch_size, seed=0)
    assert message in str(error.value)
