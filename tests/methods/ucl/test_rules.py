"""What `"auto"` comes to, and that it means the same for every network and every length of task."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from uclearn import UCL
from uclearn.methods.replay import WithReplay
from uclearn.methods.ucl import rules
from uclearn.methods.ucl.outputs import OutputAnchor

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))


def network(scale: float = 1.0) -> nn.Sequential:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 3))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(scale)
    return net


def a_task(method: UCL, steps: int) -> None:
    for _ in range(steps):
        (method.model(X).square().mean() + method.penalty(batch_size=8)).backward()
        method.zero_grad()
    method.end_task()


def test_sigma_is_a_share_of_the_size_of_a_layers_weights() -> None:
    net = network()
    for name, sigma in UCL(net, X).sigmas().items():
        weight = net.get_submodule(name).get_parameter("weight").detach()
        size = float(weight.square().mean().sqrt())
        torch.testing.assert_close(sigma, torch.full_like(sigma, math.sqrt(rules.NOISE) * size))


def test_noise_grows_with_the_weights_that_it_disturbs() -> None:
    small, large = UCL(network(), X).sigmas(), UCL(network(3.0), X).sigmas()
    for name, sigma in small.items():
        torch.testing.assert_close(large[name], 3 * sigma)


def test_weights_that_are_all_zero_have_the_noise_that_he_would_leave_room_for() -> None:
    sigma = UCL(network(0.0), X).sigmas()["0"]
    torch.testing.assert_close(sigma, torch.full_like(sigma, math.sqrt(rules.NOISE * 2 / 6)))


def test_all_layers_have_the_same_factor() -> None:
    """spread / beta * even = CAUTION: the curvature that eq. (4) stands for, times that."""
    method = UCL(network(), X)
    for held in method.held:
        assert isinstance(held, OutputAnchor)
        spread = held.start().sigma ** 2 * held.start().inputs / 2
        assert held.even * spread / method.beta == pytest.approx(rules.CAUTION)


def test_beta_is_the_geometric_mean_over_layers() -> None:
    method = UCL(network(), X)
    first, second = (float(sigma[0]) for sigma in method.sigmas().values())
    expected = math.sqrt(first**2 * 6 / 2 * second**2 * 10 / 2) / rules.CAUTION
    assert method.beta == pytest.approx(expected, rel=1e-5)


def test_beta_does_not_follow_weights_that_have_moved() -> None:
    """Nor a state that was loaded: it belongs to where layers started."""
    method = UCL(network(), X)
    beta = method.beta
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.mul_(2)
    method.end_task(inputs=[X])
    assert method.beta == beta
    other = UCL(network(5.0), X)
    other.load_state_dict(method.state_dict())
    assert other.beta == pytest.approx(beta)


def test_numbers_by_hand_are_taken_as_they_are() -> None:
    method = UCL(network(), X, beta=0.3, sigma=0.06, lr_sigma=0.02)
    assert method.beta == 0.3
    assert all(held.even == 1 for held in method.held if isinstance(held, OutputAnchor))
    assert all(bool((sigma - 0.06).abs().max() < 1e-6) for sigma in method.sigmas().values())
    assert [group["lr"] for group in method.parameter_groups(0.001)] == [0.001, 0.02]


@pytest.mark.parametrize("steps", [2000, 5000, 100_000])
def test_uncertainties_have_the_same_way_to_go_in_every_long_task(steps: int) -> None:
    method = UCL(network(), X)
    method.task_steps = steps
    assert method.parameter_groups(0.001)[1]["lr"] * steps == pytest.approx(rules.REACH)


@pytest.mark.parametrize("steps", [1, 30, 900])
def test_in_a_short_task_chance_takes_them_no_further_than_in_any_other(steps: int) -> None:
    method = UCL(network(), X)
    method.task_steps = steps
    assert method.parameter_groups(0.001)[1]["lr"] * steps**0.5 == pytest.approx(rules.WANDER)


def test_a_loop_that_does_not_say_its_steps_has_those_of_the_task_before() -> None:
    method = UCL(network(), X)

    def steps() -> float:
        return (rules.WANDER / float(method.parameter_groups(0.001)[1]["lr"])) ** 2

    assert steps() == pytest.approx(rules.STEPS)
    a_task(method, 4)
    assert steps() == pytest.approx(4)
    a_task(method, 7)
    assert steps() == pytest.approx(7)
    method.end_task(inputs=[X])  # a task without a step says nothing
    assert steps() == pytest.approx(7)
    twin = UCL(network(), X)
    twin.load_state_dict(method.state_dict())
    method = twin
    assert steps() == pytest.approx(7)


def test_looking_at_the_penalty_is_no_step() -> None:
    method = UCL(network(), X)
    with torch.no_grad():
        method.penalty(batch_size=8)
    assert method.steps_taken.tolist() == [0, 0]


def test_the_closed_form_counts_each_step_once() -> None:
    method = UCL(network(), X, closed_form=True)
    method.penalty(batch_size=8)
    method.adjust_gradients(batch_size=8)
    assert method.steps_taken.tolist() == [0, 1]


def test_wrappers_pass_the_steps_on() -> None:
    inner = UCL(network(), X)
    wrapped = WithReplay(inner, size=4)
    wrapped.task_steps = 20
    assert inner.task_steps == wrapped.task_steps == 20


def steepest_of_the_penalty(method: UCL, batch_size: int) -> float:
    """The largest eigenvalue of its second derivative by the means, from gradients alone: it is
    quadratic in how far they have moved, so that powers of it find the steepest way."""
    means = [p for n, p in method.model.named_parameters() if "rho" not in n]
    kept = [p.detach().clone() for p in means]
    way = [
        torch.randn(p.shape, generator=torch.Generator().manual_seed(k))
        for k, p in enumerate(means)
    ]
    length = 0.0
    for _ in range(200):
        length = math.sqrt(sum(float(w.square().sum()) for w in way))
        for parameter, anchor, w in zip(means, kept, way, strict=True):
            parameter.data.copy_(anchor + w / length)
        way = list(torch.autograd.grad(method.penalty(batch_size=batch_size), means))
    for parameter, anchor in zip(means, kept, strict=True):
        parameter.data.copy_(anchor)
    return math.sqrt(sum(float(w.square().sum()) for w in way))


@pytest.mark.parametrize("tasks", [1, 5])
def test_plain_gradient_steps_bear_what_is_held(tasks: int) -> None:
    """lr times the curvature of the penalty stays below 2, with however much to hold; where steps
    are said to be tiny it is far above."""
    found = {}
    for lr in (0.5, 1e-9):
        method = UCL(network(3.0), X, lr_sigma=1e-9)
        for _ in range(tasks):
            method.parameter_groups(lr=lr)
            a_task(method, steps=1)
        found[lr] = 0.5 * steepest_of_the_penalty(method, batch_size=8)
    assert 0.05 < found[0.5] < 2
    assert found[1e-9] > 4
    unsaid = UCL(network(3.0), X, lr_sigma=1e-9)
    a_task(unsaid, steps=1)
    assert rules.LR * steepest_of_the_penalty(unsaid, batch_size=8) < 2
