"""RWalk: a running Fisher and a score along the path, against a loop that says it plainly."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.permuted_digits import check_it_forgets_less, network
from uclearn.errors import SettingError, TaskError
from uclearn.methods.rwalk import RWalk
from uclearn.networks import MultiHead

INTERVAL = 4


def problem(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(24, 6, generator=generator, dtype=torch.double)
    return x, torch.randint(3, (24,), generator=generator)


def take_steps(method: RWalk, seed: int, steps: int) -> None:
    x, y = problem(seed)
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    for _ in range(steps):
        optimizer.zero_grad()
        (F.cross_entropy(method.model(x), y) + method.penalty()).backward()
        method.adjust_gradients()
        optimizer.step()
        method.end_step()


def built(normalise: bool = True, closed_form: bool = False, seed: int = 0) -> RWalk:
    return RWalk(
        network(seed, 6, 5, 3).double(),
        strength=2.0,
        alpha=0.7,
        interval=INTERVAL,
        damping=0.02,
        normalise=normalise,
        closed_form=closed_form,
    )


class ByLoop:
    """The same for one flat vector of weights, with the task's gradient by autograd alone."""

    def __init__(self, net: nn.Module, normalise: bool) -> None:
        self.net, self.normalise = net, normalise
        self.fisher = torch.zeros_like(self.weights())
        self.score = torch.zeros_like(self.fisher)
        self.importance = torch.zeros_like(self.fisher)
        self.anchor = self.weights()
        self.tasks = 0

    def weights(self) -> Tensor:
        return torch.cat([p.detach().flatten() for p in self.net.parameters()])

    def slope(self, seed: int) -> Tensor:
        x, y = problem(seed)
        loss = F.cross_entropy(self.net(x), y)
        return torch.cat(
            [g.flatten() for g in torch.autograd.grad(loss, list(self.net.parameters()))]
        )

    def task(self, seed: int, steps: int) -> None:
        gained = torch.zeros_like(self.fisher)
        fall, begin = torch.zeros_like(self.fisher), self.weights()
        for step in range(1, steps + 1):
            slope, before = self.slope(seed), self.weights()
            pull = 2 * 2.0 * self.importance * (before - self.anchor)
            self.set(before - 0.1 * (slope + pull))
            fall = fall - slope * (self.weights() - before)
            self.fisher = 0.7 * slope**2 + 0.3 * self.fisher
            if step % INTERVAL == 0 or step == steps:
                distance = self.fisher * (self.weights() - begin) ** 2 / 2
                gained = gained + (fall / (distance + 0.02)).clamp(min=0)
                fall, begin = torch.zeros_like(fall), self.weights()
        self.score = gained if self.tasks == 0 else (self.score + gained) / 2
        self.importance = self.scaled(self.fisher) + self.scaled(self.score)
        self.anchor = self.weights()
        self.tasks += 1

    def set(self, flat: Tensor) -> None:
        with torch.no_grad():
            for p, new in zip(
                self.net.parameters(),
                flat.split([p.numel() for p in self.net.parameters()]),
                strict=True,
            ):
                p.copy_(new.view_as(p))

    def scaled(self, values: Tensor) -> Tensor:
        if not self.normalise:
            return values
        return (values - values.min()) / (values.max() - values.min())


def flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("closed_form", [False, True])
def test_three_tasks_are_those_of_the_loop(normalise: bool, closed_form: bool) -> None:
    """Lengths that the interval does and does not divide; the penalty pulls from the second on."""
    method = built(normalise, closed_form)
    loop = ByLoop(network(0, 6, 5, 3).double(), normalise)
    for task, steps in enumerate([10, 8, 3]):
        take_steps(method, task, steps)
        method.end_task()
        loop.task(task, steps)
        torch.testing.assert_close(flat(list(method.model.parameters())).detach(), loop.weights())
        torch.testing.assert_close(flat(method.fisher.tensors()), loop.fisher)
        torch.testing.assert_close(flat(method.score.tensors()), loop.score)
        torch.testing.assert_close(flat(method.memory.importance.tensors()), loop.importance)


def test_importance_lies_between_0_and_2() -> None:
    method = built()
    take_steps(method, 0, 10)
    method.end_task()
    importance = flat(method.memory.importance.tensors())
    assert 0 <= float(importance.min()) <= float(importance.max()) <= 2


def test_the_penalty_is_lambda_importance_distance_squared() -> None:
    method = built()
    take_steps(method, 0, 10)
    method.end_task()
    take_steps(method, 1, 5)
    weights = list(method.model.parameters())
    expected = 2.0 * sum(
        (importance * (weight - anchor).square()).sum()
        for importance, weight, anchor in zip(
            method.memory.importance.tensors(), weights, method.memory.anchor.tensors(), strict=True
        )
    )
    assert isinstance(expected, Tensor)
    torch.testing.assert_close(method.penalty(), expected)
    slopes = torch.autograd.grad(method.penalty(), weights)
    torch.testing.assert_close(slopes, torch.autograd.grad(expected, weights))


def test_right_after_a_task_nothing_pulls_and_the_anchor_stays() -> None:
    method = built()
    take_steps(method, 0, 10)
    assert method.penalty() == 0
    method.end_task()
    assert method.penalty() == 0
    slopes = torch.autograd.grad(method.penalty(), list(method.model.parameters()))
    assert not any(slope.any() for slope in slopes)
    take_steps(method, 1, 1)
    assert method.penalty() > 0


def test_saved_within_an_interval_it_goes_on_bit_for_bit() -> None:
    method, other = built(), built(seed=7)
    take_steps(method, 0, 10)
    method.end_task()
    take_steps(method, 1, 6)
    other.load_state_dict(method.state_dict())
    assert torch.equal(other.penalty(), method.penalty())
    for m in (method, other):
        take_steps(m, 1, 5)
        m.end_task()
        take_steps(m, 2, 5)
    states = method.state_dict(), other.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_heads_are_not_held() -> None:
    net = MultiHead(nn.Linear(6, 5), features=5)
    net.add_head(3)
    assert RWalk(net).memory.names == ("trunk.weight", "trunk.bias")


@pytest.mark.slow
def test_it_forgets_less_than_fine_tuning() -> None:
    check_it_forgets_less(lambda net: RWalk(net, strength=0.5))


def test_a_loop_that_leaves_out_the_calls_is_told_so() -> None:
    method = built()
    with torch.no_grad():
        method.model.get_parameter("0.weight").add_(1)
    with pytest.raises(TaskError, match="The weights moved, but no step was recorded"):
        method.end_task()
    with pytest.raises(
        TaskError, match=re.escape("Call `method.adjust_gradients()` after backward")
    ):
        method.end_step()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strength": -1.0}, "`strength` must be 0 or greater and finite, got -1.0."),
        ({"alpha": 0.0}, "`alpha` must be greater than 0 and at most 1, got 0.0."),
        ({"interval": 0}, "`interval` must be at least 1, got 0."),
        ({"damping": 0.0}, "`damping` must be greater than 0 and finite, got 0.0."),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        RWalk(network(0, 6, 3), **settings)  # type: ignore[arg-type]
