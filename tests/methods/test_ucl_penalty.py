"""UCL.penalty is the paper's loss, for whole networks, in every phase and under every ablation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypedDict

import pytest
import torch
from torch import nn

from tests.methods.ucl_oracle import MLP, NETS, Net, Past, State, Terms, snapshot, softplus
from tests.paper_ucl import paper_ucl
from uclearn import UCL, Step
from uclearn.networks import MultiHead
from uclearn.tasks import Data, Task

BATCH = 7


class Switches(TypedDict, total=False):
    """The settings of UCL that change what is penalised."""

    beta: float
    alpha: float
    noisy_bias: bool
    upper_freeze: bool
    freeze: bool
    inflate: bool
    ratio: float
    sigma: float


SETTINGS: dict[str, Switches] = {
    "paper": {},
    "noisy_bias": {"noisy_bias": True},
    "without_upper_freeze": {"upper_freeze": False},
    "without_eq_5": {"freeze": False},
    "without_eq_6": {"inflate": False},
    "constant_sigma": {"sigma": 0.06, "noisy_bias": True},
    "other_weights": {"beta": 0.7, "alpha": 3.0, "ratio": 0.2},
    "beta_0": {"beta": 0.0},
}


@dataclass
class History:
    """A method, and what the oracle has to know of its past."""

    net: Net
    method: UCL
    past: Past

    def move(self, size: float = 0.3) -> None:
        """As training would: every parameter ends up somewhere else."""
        with torch.no_grad():
            for parameter in self.method.model.parameters():
                parameter.add_(size * torch.randn_like(parameter))

    def end_task(self) -> None:
        batches = torch.randn(2, 5, *self.net.input_shape, dtype=torch.float64)
        self.method.end_task(inputs=batches)
        now, done = snapshot(self.method.model), self.past.tasks_done + 1
        self.past = replace(self.past, previous=now, tasks_done=done)

    def expected(self) -> tuple[float, State]:
        value, gradients = self.past.penalty(self.net, self.method.model)
        return value / BATCH, {name: g / BATCH for name, g in gradients.items()}


def history(net: Net, switches: Switches, tasks: int = 0, closed_form: bool = False) -> History:
    """A float64 method that has been through some tasks."""
    # this alpha is exact in single precision, in which the method keeps it
    settings: Switches = {"beta": 0.03, "alpha": 2**-6, **switches}
    example = torch.randn(1, *net.input_shape, dtype=torch.float64)
    method = paper_ucl(net.build().double(), example, closed_form=closed_form, **settings)
    terms = Terms(
        beta=settings["beta"],
        alpha=settings["alpha"],
        upper_freeze=settings.get("upper_freeze", True),
        freeze=settings.get("freeze", True),
        inflate=settings.get("inflate", True),
    )
    start = snapshot(method.model)
    run = History(net, method, Past(start, start, 0, terms))
    for _ in range(tasks):
        run.move()
        run.end_task()
    return run


def gradients(method: UCL) -> State:
    """What the parameters' gradients are; zero where there is none."""
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in method.model.named_parameters()
    }


def assert_same(found: State, expected: State, tolerance: float = 1e-10) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("tasks", [0, 1, 2])
@pytest.mark.parametrize("switches", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_value_and_gradient_are_the_oracles(net: Net, switches: Switches, tasks: int) -> None:
    run = history(net, switches, tasks)
    run.move()
    value, expected = run.expected()
    penalty = run.method.penalty(batch_size=BATCH)
    penalty.backward()
    assert value > 0
    assert penalty.item() == pytest.approx(value, rel=1e-10)
    assert_same(gradients(run.method), expected)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [0, 1, 2])
@pytest.mark.parametrize("switches", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_the_closed_form_path_has_the_same_value_and_gradient(
    net: Net, switches: Switches, tasks: int
) -> None:
    run = history(net, switches, tasks, closed_form=True)
    run.move()
    x = torch.randn(3, *net.input_shape, dtype=torch.float64)
    run.method.model(x).square().mean().backward()
    of_the_task = gradients(run.method)
    value, expected = run.expected()
    assert run.method.penalty(batch_size=BATCH).item() == pytest.approx(value, rel=1e-10)
    run.method.adjust_gradients(batch_size=BATCH)
    both = {name: of_the_task[name] + expected[name] for name in expected}
    assert_same(gradients(run.method), both)


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_in_single_precision_both_paths_agree(net: Net) -> None:
    run = history(net, {"noisy_bias": True}, tasks=1)
    run.move()
    run.method.float()
    run.method.penalty(batch_size=BATCH).backward()
    through_the_loss = gradients(run.method)
    run.method.zero_grad()
    run.method.closed_form = True
    run.method.adjust_gradients(batch_size=BATCH)
    assert_same(gradients(run.method), through_the_loss, tolerance=1e-5)


def test_a_loop_that_adds_a_closed_form_penalty_to_its_loss_stays_right() -> None:
    run = history(MLP, {}, tasks=1, closed_form=True)
    run.move()
    _, expected = run.expected()
    x = torch.randn(3, 3, dtype=torch.float64)
    loss = 0 * run.method.model(x).sum() + run.method.penalty(batch_size=BATCH)
    loss.backward()
    run.method.adjust_gradients(batch_size=BATCH)
    assert_same(gradients(run.method), expected)


def test_without_closed_form_adjust_gradients_adds_nothing() -> None:
    run = history(MLP, {}, tasks=1)
    run.move()
    run.method.adjust_gradients(batch_size=BATCH)
    assert all(p.grad is None for p in run.method.model.parameters())


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_right_after_a_task_nothing_pulls_at_the_means(net: Net) -> None:
    """Terms 1 and 2 are zero with zero gradient; what is left is term 3 at sigma = sigma':
    beta/2 * sum (1 + sigma^2 - log sigma^2)."""
    run = history(net, {}, tasks=1)
    penalty = run.method.penalty(batch_size=1)
    penalty.backward()
    sigmas = [softplus(float(r)) for n, t in run.past.previous.items() if "rho" in n for r in t]
    left = 0.03 / 2 * sum(1 + s**2 - math.log(s**2) for s in sigmas)
    assert penalty.item() == pytest.approx(left, rel=1e-12)
    found = gradients(run.method)
    assert all(not found[name].any() for name in found if "rho" not in name)
    assert all(found[name].any() for name in found if "rho" in name)


@pytest.mark.parametrize("alpha", [0.01, 5.0])
def test_the_first_task_is_pulled_to_the_initial_means_with_weight_alpha(alpha: float) -> None:
    """All strengths are 1 then, so term 1 is alpha/2 times a squared distance; eq. (5) is off."""
    run = history(MLP, {"alpha": alpha, "beta": 0.0})
    run.move()
    now = snapshot(run.method.model)
    distance = sum(
        float((now[name] - run.past.initial[name]).square().sum())
        for name in now
        if "rho" not in name
    )
    assert run.method.penalty(batch_size=1).item() == pytest.approx(alpha / 2 * distance)
    run.end_task()
    assert run.method.drift_weight.item() == 1.0
    assert run.method.freeze_weight.item() == 1.0


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_alpha_matters_for_the_first_task_alone(alpha: float) -> None:
    run = history(MLP, {"alpha": alpha}, tasks=1)
    run.move()
    other = replace(run.past, terms=Terms(beta=0.03, alpha=123.0))
    value, _ = other.penalty(MLP, run.method.model)
    assert run.method.penalty(batch_size=1).item() == pytest.approx(value, rel=1e-10)


def test_the_penalty_is_divided_by_the_batch() -> None:
    run = history(MLP, {}, tasks=1)
    run.move()
    whole = run.method.penalty(batch_size=1).item()
    assert run.method.penalty(batch_size=256).item() == pytest.approx(whole / 256, rel=1e-12)


def test_a_step_and_a_keyword_say_the_same() -> None:
    run = history(MLP, {}, tasks=1)
    run.move()
    by_keyword = run.method.penalty(batch_size=8)
    assert torch.equal(run.method.penalty(Step(batch_size=8)), by_keyword)
    assert torch.equal(run.method.penalty(Step(batch_size=99), batch_size=8), by_keyword)


def test_strengths_and_sigmas_are_told_by_layer() -> None:
    run = history(MLP, {"sigma": 0.1}, tasks=1)
    sigmas = run.method.sigmas()
    assert list(sigmas) == ["0", "2", "4"]
    for name, strengths in run.method.strengths().items():
        torch.testing.assert_close(strengths, 0.1 / sigmas[name])


def test_backward_may_run_twice() -> None:
    run = history(MLP, {}, tasks=1)
    run.move()
    _, expected = run.expected()
    penalty = run.method.penalty(batch_size=BATCH)
    penalty.backward(retain_graph=True)
    penalty.backward()
    assert_same(gradients(run.method), {name: 2 * g for name, g in expected.items()})


def test_plain_and_frozen_modules_are_not_penalised() -> None:
    """A head named in `plain` may move freely; so may nothing that does not train."""
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    net[0].requires_grad_(False)
    method = paper_ucl(net, torch.zeros(1, 3), plain=["4"])
    method.end_task()
    still = method.penalty(batch_size=1)
    with torch.no_grad():
        for name in ("4.weight", "4.bias", "0.weight", "0.bias"):
            method.model.get_parameter(name).add_(1.0)
    assert torch.equal(method.penalty(batch_size=1), still)
    with torch.no_grad():
        method.model.get_parameter("2.weight").add_(1.0)
    assert method.penalty(batch_size=1) > still


def test_heads_are_not_penalised_but_trained() -> None:
    """Each task has a head of its own, so none of them is in another task's way."""
    method = paper_ucl(MultiHead(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), 4), torch.zeros(1, 3))
    data = Data(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64))
    for index in range(2):
        method.begin_task(Task("one", index, data, classes=2))
        method.end_task()
    assert list(method.strengths()) == ["trunk.0"]
    still = method.penalty(batch_size=1)
    with torch.no_grad():
        method.model.get_parameter("heads.0.weight").add_(1.0)
    assert torch.equal(method.penalty(batch_size=1), still)
    trained = {id(p) for group in method.parameter_groups(lr=0.1) for p in group["params"]}
    assert trained == {id(p) for p in method.model.parameters()}


@pytest.mark.parametrize("closed_form", [False, True])
def test_a_parameter_frozen_later_gets_no_gradient(closed_form: bool) -> None:
    run = history(MLP, {}, tasks=1, closed_form=closed_form)
    run.move()
    _, expected = run.expected()
    frozen = run.method.model.get_submodule("2")
    frozen.requires_grad_(False)
    penalty = run.method.penalty(batch_size=BATCH)
    if not closed_form:
        penalty.backward()
    run.method.adjust_gradients(batch_size=BATCH)
    assert all(parameter.grad is None for parameter in frozen.parameters())
    found = gradients(run.method)
    for name in ("0.weight", "0.rho", "4.weight", "4.bias", "4.rho"):
        torch.testing.assert_close(found[name], expected[name])
