"""PPO's loss by hand, its gradient by calculus, and the order in which a method is spoken to."""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any, Unpack

import pytest
import torch
from torch import Tensor, nn

from tests.rl.small import WIDTH, small_method, small_plan
from uclearn.errors import TaskError
from uclearn.methods.contract import Method, Step, StepFields
from uclearn.rl.policy import ActorCritic, log_probability, view
from uclearn.rl.ppo import decay, losses, make_optimizer, minibatches, update
from uclearn.rl.rollout import RolloutBatch, action_losses

PLAN = small_plan(minibatch=48, epochs=2)
"""256 examples: five mini-batches of 48 and one of 16."""


def some(count: int = 256, actions: int = 1, seed: int = 0) -> RolloutBatch:
    chance = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=chance)

    return RolloutBatch(
        normal(count, WIDTH),
        normal(count, actions),
        normal(count) * 0.1 - 1.4,
        normal(count) * 0.2,
        normal(count),
        normal(count),
    )


def order() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def test_the_loss_by_hand() -> None:
    """Standard deviation 1, mean 0; the actions' log probabilities are c = -log(2 pi)/2 - a^2/2.

    1: a = 0, before c - log 1.5: ratio 1.5, A = 2: min(3, 1.2 * 2) = 2.4
    2: a = 1, before c - log 0.5: ratio 0.5, A = 2: min(1, 0.8 * 2) = 1
    3: a = 0, before c - log 0.5: ratio 0.5, A = -1: min(-0.5, -0.8) = -0.8
    policy = -(2.4 + 1 - 0.8) / 3
    values 1, 1, 1, before 0, 0.9, 1.1, returns 2, 0, 1: (1, 1, 0), moved at most 0.2 from before
    0.2, 1, 1: (3.24, 1, 0), so the larger ones add up to 4.24
    """
    c = -math.log(2 * math.pi) / 2
    outputs = torch.tensor([[0.0, 0.0, 1.0]] * 3)
    batch = RolloutBatch(
        torch.zeros(3, 1),
        torch.tensor([[0.0], [1.0], [0.0]]),
        torch.tensor([c - math.log(1.5), c - 0.5 - math.log(0.5), c - math.log(0.5)]),
        torch.tensor([0.0, 0.9, 1.1]),
        torch.tensor([2.0, 2.0, -1.0]),
        torch.tensor([2.0, 0.0, 1.0]),
    )
    found = losses(outputs, batch, clip=0.2)
    assert found.ratio.tolist() == pytest.approx([1.5, 0.5, 0.5])
    assert float(found.policy) == pytest.approx(-2.6 / 3)
    assert float(found.value) == pytest.approx(4.24 / 3 / 2)
    assert float(found.entropy) == pytest.approx(0.5 + math.log(2 * math.pi) / 2)
    plain = losses(outputs, batch, clip=0.2, clip_value=False)
    assert float(plain.value) == pytest.approx(2 / 3 / 2)


def test_the_first_gradient_is_the_policy_gradient() -> None:
    """Where the ratio is 1, d policy = - mean of A d log pi."""
    outputs = torch.randn(64, 3, dtype=torch.float64, requires_grad=True)
    mean, log_std, _ = view(outputs)
    batch = RolloutBatch(*(column.double() for column in some(64)))
    batch = batch._replace(log_probabilities=log_probability(mean, log_std, batch.actions).detach())
    (found,) = torch.autograd.grad(losses(outputs, batch, 0.2).policy, outputs)
    score = log_probability(*view(outputs)[:2], batch.actions)
    (expected,) = torch.autograd.grad(-(score * batch.advantages).mean(), outputs)
    torch.testing.assert_close(found, expected)


def test_what_has_gone_far_enough_pulls_no_further() -> None:
    outputs = torch.zeros(4, 3, requires_grad=True)
    c = -math.log(2 * math.pi) / 2 - 0.5
    batch = some(4)._replace(
        actions=torch.ones(4, 1),
        log_probabilities=c - torch.tensor([1.5, 1.5, 0.5, 0.5]).log(),
        advantages=torch.tensor([1.0, -1.0, 1.0, -1.0]),
    )
    (found,) = torch.autograd.grad(losses(outputs, batch, 0.2).policy, outputs)
    assert found[:, 0].bool().tolist() == [False, True, True, False]


class Diary(Method):
    """Writes down what it is told."""

    def __init__(self, model: nn.Module, closed_form: bool) -> None:
        super().__init__(model)
        self.closed_form = closed_form
        self.told: list[tuple[str, Step]] = []
        self.model.register_forward_hook(lambda *_: self.told.append(("forward", Step())))

    def _tell(self, word: str, step: Step | None) -> None:
        assert step is not None
        self.told.append((word, step))

    def begin_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        self._tell("begin_step", step)
        assert self.model.training

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        self._tell("penalty", step)
        return 100 * sum((p.sum() for p in self.model.parameters()), torch.zeros(()))

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        self._tell("adjust_gradients", step)
        norm = float(torch.stack([p.grad.norm() for p in self._moved()]).norm())  # type: ignore[union-attr]
        assert (norm > 50) == (not self.closed_form)  # the penalty counts, nothing is clipped yet
        self.before = [p.detach().clone() for p in self._moved()]

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        self._tell("end_step", step)
        assert all(not torch.equal(p, b) for p, b in zip(self._moved(), self.before, strict=True))
        norm = float(torch.stack([p.grad.norm() for p in self._moved()]).norm())  # type: ignore[union-attr]
        assert norm <= 0.5 + 1e-5

    def _moved(self) -> list[nn.Parameter]:
        return [p for p in self.model.parameters() if p.grad is not None]


@pytest.mark.parametrize("closed_form", [False, True])
def test_the_order_of_the_words(closed_form: bool) -> None:
    policy = ActorCritic(WIDTH, (8, 8))
    policy.add_head(1)
    method = Diary(policy, closed_form)
    plan = small_plan(minibatch=48, epochs=1)
    update(method, some(), 0, plan, make_optimizer(method, plan), order())
    words = ["begin_step", "forward", "penalty", "adjust_gradients", "end_step"]
    if closed_form:
        words.remove("penalty")
    assert [word for word, _ in method.told] == words * 6


@pytest.mark.parametrize(
    ("divisor", "sizes"), [("size", [48, 48, 48, 48, 48, 16]), ("count", [6] * 6)]
)
def test_what_a_step_says(divisor: Any, sizes: list[int]) -> None:
    policy = ActorCritic(WIDTH, (8, 8))
    policy.add_head(1)
    method = Diary(policy, closed_form=True)
    plan = small_plan(minibatch=48, epochs=1, penalty_divisor=divisor)
    update(method, some(), 0, plan, make_optimizer(method, plan), order())
    steps = [step for word, step in method.told if word == "begin_step"]
    assert [step.batch_size for step in steps] == sizes
    assert [step.progress for step in steps] == [i / 6 for i in range(6)]
    assert {step.examples for step in steps} == {6 * 256}
    assert {step.task for step in steps} == {0}
    assert sum(len(step.inputs) for step in steps) == 256


def test_an_epoch_shows_every_example_once() -> None:
    rollout = some()
    parts = list(minibatches(rollout, 48, order()))
    assert [len(part.actions) for part in parts] == [48] * 5 + [16]
    for column, shuffled in zip(rollout, zip(*parts, strict=True), strict=True):
        whole = torch.cat(shuffled)
        assert not torch.equal(whole, column)
        assert torch.equal(whole.flatten().sort().values, column.flatten().sort().values)
    lost = torch.stack([part.actions[0, 0] * part.returns[0] for part in parts])
    together = (rollout.actions[:, 0] * rollout.returns).tolist()
    assert all(float(product) in together for product in lost)  # columns stay together


def test_learning_rates_fall_on_a_line_each_from_its_own() -> None:
    method = small_method("ucl", begun=1, lr_sigma=0.01)
    optimizer = make_optimizer(method, PLAN)
    seen = []
    for iteration in range(4):
        decay(optimizer, iteration, 4)
        seen.append([group["lr"] for group in optimizer.param_groups])
    assert [pair[0] for pair in seen] == pytest.approx([3e-4, 2.25e-4, 1.5e-4, 0.75e-4])
    assert [pair[1] for pair in seen] == pytest.approx([0.01, 0.0075, 0.005, 0.0025])


@pytest.mark.parametrize("name", ["ewc", "si", "ucl"])
def test_the_gradient_only_path_learns_the_same(name: str) -> None:
    """On a second task, where penalties pull: the loss with the penalty in it, or its gradient
    added in place."""
    pair = [small_method(name, begun=1, closed_form=closed) for closed in (False, True)]
    pair[1].load_state_dict(copy.deepcopy(pair[0].state_dict()))
    plan = small_plan(minibatch=48, epochs=2, clip_norm=None)
    for method in pair:
        optimizer = make_optimizer(method, plan)
        update(method, some(), 0, plan, optimizer, order())
        fresh = some(seed=3)
        method.end_task(losses=partial(action_losses, method.model, fresh, 0))
        update(method, some(seed=1), 0, plan, optimizer, order())
        assert float(method.penalty(batch_size=48).detach()) > 0
    for (key, one), other in zip(
        pair[0].model.state_dict().items(), pair[1].model.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=key)


def test_a_broken_loss_is_reported() -> None:
    method = small_method("finetuning", begun=1)
    broken = some()._replace(returns=torch.full((256,), math.inf))
    with pytest.raises(TaskError, match=r"The policy loss became nan\. Lower `lr` \(now 0\.0003\)"):
        update(method, broken, 0, PLAN, make_optimizer(method, PLAN), order())
