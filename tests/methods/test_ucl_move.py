"""The penalty inside the optimiser's pass is the penalty that was added beforehand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.native.alone import threads, torch_alone, with_library
from uclearn import UCL, Adam, Method
from uclearn.methods.coreset import WithCoreset
from uclearn.native.calls import kernels

pytestmark = with_library

X = torch.randn(7, 2, 8, 8, generator=torch.Generator().manual_seed(0))
KINDS: dict[str, dict[str, Any]] = {
    "weights": {"hold": "weights", "beta": 0.03, "sigma": 0.06},
    "weights, drawn": {"hold": "weights", "sampling": "weight"},
    "weights, noisy biases": {"hold": "weights", "noisy_bias": True},
    "weights, no freeze": {"hold": "weights", "freeze": False},
    "weights, not by sources": {"hold": "weights", "upper_freeze": False},
    "weights, never released": {"hold": "weights", "inflate": False},
    "outputs": {"hold": "outputs"},
}


def held(**settings: Any) -> UCL:
    """In its second task."""
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3, groups=2), nn.GroupNorm(2, 4)),
        *(nn.Flatten(), nn.Linear(64, 150), nn.ReLU(), nn.Linear(150, 130)),
    )
    settings = {"sigma": 0.06, **settings}  # not by rule: rounding must not decide a sign for Adam
    method = UCL(network, X[:1], closed_form=True, **settings)
    moved = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=moved))
    method.end_task(inputs=[X])
    return method


def learn(method: Method, optimizer: torch.optim.Optimizer, at_once: bool) -> list[Tensor]:
    for _ in range(6):
        optimizer.zero_grad()
        method.model(X).square().mean().backward()
        if at_once:
            method.move(optimizer, batch_size=7)
        else:
            method.adjust_gradients(batch_size=7)
            optimizer.step()
    return [parameter.detach().clone() for parameter in method.model.parameters()]


def optimizer_of(method: Method, kind: type[torch.optim.Adam] = Adam) -> Any:
    return kind(method.parameter_groups(lr=0.01), weight_decay=0.01, fused=True)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which of the two functions of the library was called."""
    calls: list[str] = []

    def listened(name: str) -> None:
        call = getattr(kernels, name)

        def telling(*given: Any) -> Any:
            calls.append(name)
            return call(*given)

        monkeypatch.setattr(kernels, name, telling)

    listened("adam")
    listened("hold_gradient")
    return calls


@pytest.mark.parametrize("name", KINDS)
def test_inside_and_beforehand_end_alike(name: str, passes: list[str]) -> None:
    once, twice, torchs = (held(**KINDS[name]) for _ in range(3))
    found = learn(once, optimizer_of(once), at_once=True)
    assert passes == ["adam"] * 6
    expected = learn(twice, optimizer_of(twice), at_once=False)
    assert passes[6:] == ["hold_gradient", "adam"] * 6
    with torch_alone():
        torchs._tighten()
        by_torch = learn(torchs, optimizer_of(torchs, torch.optim.Adam), at_once=True)
    for mine, others, theirs in zip(found, expected, by_torch, strict=True):
        torch.testing.assert_close(mine, others, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    free = held(**KINDS[name])
    free.closed_form = False
    unheld = learn(free, optimizer_of(free), at_once=True)
    assert max(float((a - b).abs().max()) for a, b in zip(found, unheld, strict=True)) > 1e-3


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    outcomes = []
    for count in (1, 2):
        with threads(count):
            torch.manual_seed(0)
            linear = nn.Linear(400, 300)
            method = UCL(linear, torch.zeros(1, 400), hold="weights", closed_form=True)
            method.end_task()
            optimizer = optimizer_of(method)
            for number in range(3):
                chance = torch.Generator().manual_seed(number)
                optimizer.zero_grad()
                for parameter in method.model.parameters():
                    parameter.grad = torch.randn(parameter.shape, generator=chance)
                method.move(optimizer, batch_size=7)
            outcomes.append([parameter.detach() for parameter in method.model.parameters()])
    assert all(map(torch.equal, *outcomes))


def test_whoever_looks_at_gradients_finds_the_penalty_there(passes: list[str]) -> None:
    """Hooks, a hook of the method that was overridden or replaced, other optimisers."""
    expected = held(hold="weights")
    whole = learn(expected, optimizer_of(expected), at_once=False)

    class Looking(UCL):
        def adjust_gradients(self, *args: Any, **given: Any) -> None:
            super().adjust_gradients(*args, **given)
            gradient = self.model.get_parameter("0.weight").grad
            assert gradient is not None
            seen.append(gradient.clone())

    seen: list[Tensor] = []

    def overridden(method: UCL, optimizer: Adam) -> None:
        method.__class__ = Looking

    def replaced(method: UCL, optimizer: Adam) -> None:
        own = method.adjust_gradients
        object.__setattr__(method, "adjust_gradients", lambda *a, **given: own(*a, **given))

    def before(method: UCL, optimizer: Adam) -> None:
        optimizer.register_step_pre_hook(lambda *_: None)

    def after(method: UCL, optimizer: Adam) -> None:
        optimizer.register_step_post_hook(lambda *_: None)

    for change in (overridden, replaced, before, after):
        passes.clear()
        method = held(hold="weights")
        optimizer = optimizer_of(method)
        change(method, optimizer)
        assert all(map(torch.equal, learn(method, optimizer, at_once=True), whole))
        assert passes == ["hold_gradient", "adam"] * 6
    assert len(seen) == 6


def test_a_wrapper_hands_it_on(passes: list[str]) -> None:
    plain = held(hold="weights")
    expected = learn(plain, optimizer_of(plain), at_once=True)
    wrapped = WithCoreset(held(hold="weights"), size=4)
    passes.clear()
    found = learn(wrapped, optimizer_of(wrapped), at_once=True)
    assert passes == ["adam"] * 6
    assert all(map(torch.equal, found, expected))


def test_parameters_that_the_optimiser_does_not_move_are_no_obstacle(passes: list[str]) -> None:
    """What is held is then added beforehand: all of it, or nothing, is read on the way."""
    for leave_out in (1, 3):
        outcomes = []
        for at_once in (True, False):
            method = held(hold="weights")
            means = method.parameter_groups(0.01)[0]["params"]
            outcomes.append(learn(method, Adam(means[leave_out:], fused=True), at_once))
        assert all(map(torch.equal, *outcomes))
    assert passes == ["hold_gradient", "adam"] * 24


def test_a_group_that_is_left_to_torch_takes_all_to_it() -> None:
    outcomes = []
    for at_once in (True, False):
        method = held(hold="weights")
        groups = method.parameter_groups(0.01)
        groups[1]["amsgrad"] = True
        outcomes.append(learn(method, Adam(groups), at_once))
    assert all(map(torch.equal, *outcomes))


def test_what_was_taken_in_goes_with_the_gradient() -> None:
    """A step that is not taken leaves nothing for the next."""
    method, other = held(hold="weights"), held(hold="weights")
    optimizer = optimizer_of(method)
    method.model(X).square().mean().backward()
    method._penalty.add_gradients(1.0, method.beta, True, optimizer)
    other.model(X).square().mean().backward()  # the same draws
    found = learn(method, optimizer, at_once=False)
    assert all(map(torch.equal, found, learn(other, optimizer_of(other), at_once=False)))
