"""SI: its path integral is the fall of the task's loss, whatever the loop does on the way."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.permuted_digits import check_it_forgets_less, network
from uclearn.errors import SettingError, TaskError
from uclearn.methods.si import SI
from uclearn.networks import MultiHead


def problem(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(24, 6, generator=generator, dtype=torch.double)
    return x, torch.randint(3, (24,), generator=generator)


def smooth(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def take_steps(
    method: SI, x: Tensor, y: Tensor, steps: int, lr: float, make: type[torch.optim.Optimizer]
) -> None:
    optimizer = make(method.parameter_groups(lr=lr))  # type: ignore[call-arg]
    for _ in range(steps):
        optimizer.zero_grad()
        (F.cross_entropy(method.model(x), y) + method.penalty()).backward()
        method.adjust_gradients()
        optimizer.step()
        method.end_step()


def after_one_task(closed_form: bool = False, strength: float = 2.0) -> SI:
    """Importance is there, and the weights have left the anchor since."""
    method = SI(smooth(0), strength=strength, closed_form=closed_form)
    take_steps(method, *problem(0), 30, 0.05, torch.optim.Adam)
    method.end_task()
    take_steps(method, *problem(1), 5, 0.01, torch.optim.Adam)
    method.path.restart()
    return method


def total(method: SI) -> float:
    return sum(float(tensor.sum()) for tensor in method.path.integral.tensors())


def loss(method: SI, seed: int) -> float:
    x, y = problem(seed)
    return F.cross_entropy(method.model(x), y).item()


@pytest.mark.slow
@pytest.mark.parametrize("closed_form", [False, True])
def test_the_path_integral_tends_to_the_fall_of_the_task_s_loss(closed_form: bool) -> None:
    """Over the same stretch of time in ever smaller steps the error falls in proportion (order 1),
    while a penalty pulls: it is the task's own loss that is accounted for."""
    errors = []
    for halvings in range(5):
        method = after_one_task(closed_form)
        assert method.penalty().item() > 1e-3
        before = loss(method, 1)
        lr = 0.2 / 2**halvings
        take_steps(method, *problem(1), 20 * 2**halvings, lr, torch.optim.SGD)
        fall = before - loss(method, 1)
        errors.append(abs(total(method) - fall) / abs(fall))
    orders = [torch.tensor(a / b).log2().item() for a, b in pairwise(errors)]
    assert errors[-1] < 0.01
    assert all(0.9 < order < 1.1 for order in orders[1:]), orders


@pytest.mark.parametrize("closed_form", [False, True])
@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("accumulate", ["no", "each", "once"])
def test_the_gradient_that_counts_is_the_task_s_alone(
    closed_form: bool, clip: float | None, accumulate: str
) -> None:
    """Against autograd on the two losses apart, under Adam, clipping and accumulation."""
    method = after_one_task(closed_form)
    x, y = problem(1)
    named = dict(method.model.named_parameters())
    expected = {name: torch.zeros_like(p) for name, p in named.items()}
    optimizer = torch.optim.Adam(method.parameter_groups(lr=0.02))
    batches = (
        [(x, y)] if accumulate == "no" else [(x[:8], y[:8]), (x[8:16], y[8:16]), (x[16:], y[16:])]
    )
    for _ in range(6):
        task_loss = sum(F.cross_entropy(method.model(a), b) for a, b in batches) / len(batches)
        assert isinstance(task_loss, Tensor)
        slopes = torch.autograd.grad(task_loss, list(named.values()))
        before = [p.detach().clone() for p in named.values()]

        optimizer.zero_grad()
        if accumulate == "once" and not closed_form:
            method.penalty().backward()
        for a, b in batches:
            part = F.cross_entropy(method.model(a), b)
            if accumulate != "once":
                part = part + method.penalty()
            (part / len(batches)).backward()
        method.adjust_gradients()
        if clip is not None:
            nn.utils.clip_grad_norm_(method.model.parameters(), clip)
        optimizer.step()
        method.end_step()

        for name, slope, old in zip(named, slopes, before, strict=True):
            expected[name] -= slope * (named[name].detach() - old)
    found = dict(zip(method.memory.names, method.path.integral.tensors(), strict=True))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("nonnegative", [True, False])
def test_importance_is_the_integral_over_the_squared_way(nonnegative: bool) -> None:
    method = SI(smooth(0), strength=2.0, damping=0.03, nonnegative=nonnegative)
    omega = [torch.zeros_like(p) for p in method.model.parameters()]
    for task in range(3):
        start = [p.detach().clone() for p in method.model.parameters()]
        take_steps(method, *problem(task), 10, 0.4, torch.optim.Adam)  # too far: some harm
        for i, (p, integral) in enumerate(
            zip(method.model.parameters(), method.path.integral.tensors(), strict=True)
        ):
            omega[i] = omega[i] + integral / ((p.detach() - start[i]) ** 2 + 0.03)
            if nonnegative:
                omega[i] = omega[i].clamp(min=0)
        method.end_task()
        assert not any(integral.any() for integral in method.path.integral.tensors())
    torch.testing.assert_close(method.memory.importance.tensors(), omega)
    assert nonnegative == all(bool((tensor >= 0).all()) for tensor in omega)


def test_the_penalty_is_c_omega_distance_squared() -> None:
    method = after_one_task()
    named = method.memory.named_weights()
    expected = 2.0 * sum(
        (omega * (p - anchor).square()).sum()
        for omega, p, anchor in zip(
            method.memory.importance.tensors(),
            named.values(),
            method.memory.anchor.tensors(),
            strict=True,
        )
    )
    assert isinstance(expected, Tensor)
    torch.testing.assert_close(method.penalty(), expected)
    weights = list(named.values())
    slopes = torch.autograd.grad(method.penalty(), weights)
    torch.testing.assert_close(slopes, torch.autograd.grad(expected, weights))


def test_both_forms_move_the_weights_alike() -> None:
    plain, closed = after_one_task(closed_form=False), after_one_task(closed_form=True)
    for method in (plain, closed):
        take_steps(method, *problem(2), 10, 0.05, torch.optim.Adam)
    torch.testing.assert_close(
        dict(closed.state_dict()),
        dict(plain.state_dict()),
    )
    assert not closed.penalty().requires_grad


def test_right_after_a_task_nothing_pulls() -> None:
    method = after_one_task()
    take_steps(method, *problem(1), 5, 0.05, torch.optim.Adam)
    method.end_task()
    weights = list(method.model.parameters())
    assert method.penalty() == 0
    assert not any(slope.any() for slope in torch.autograd.grad(method.penalty(), weights))
    take_steps(method, *problem(1), 1, 0.05, torch.optim.Adam)
    assert method.penalty() > 0  # the anchor did not follow


def test_saved_in_the_middle_of_a_task_it_goes_on_bit_for_bit() -> None:
    method = after_one_task()
    take_steps(method, *problem(1), 5, 0.05, torch.optim.SGD)
    other = SI(smooth(7), strength=2.0)
    other.load_state_dict(method.state_dict())
    assert torch.equal(other.penalty(), method.penalty())
    for m in (method, other):
        take_steps(m, *problem(1), 5, 0.05, torch.optim.SGD)
        m.end_task()
        take_steps(m, *problem(2), 5, 0.05, torch.optim.SGD)
    states = method.state_dict(), other.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_the_integral_goes_back_with_the_best_weights() -> None:
    method = after_one_task()
    take_steps(method, *problem(1), 5, 0.05, torch.optim.SGD)
    best = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    then = total(method)
    take_steps(method, *problem(1), 5, 0.05, torch.optim.SGD)
    assert total(method) != then
    method.load_state_dict(best)
    assert total(method) == then


def test_heads_are_not_held() -> None:
    net = MultiHead(nn.Linear(6, 5), features=5)
    net.add_head(3)
    assert SI(net).memory.names == ("trunk.weight", "trunk.bias")


def test_a_weight_without_a_gradient_counts_for_nothing() -> None:
    net = nn.ModuleDict({"used": nn.Linear(6, 3), "idle": nn.Linear(6, 3)}).double()
    method = SI(net, closed_form=True)
    x, y = problem(0)
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    F.cross_entropy(method.model.get_submodule("used")(x), y).backward()
    method.adjust_gradients()
    optimizer.step()
    method.end_step()
    found = dict(zip(method.memory.names, method.path.integral.tensors(), strict=True))
    assert {name: bool(value.any()) for name, value in found.items()} == {
        "used.weight": True,
        "used.bias": True,
        "idle.weight": False,
        "idle.bias": False,
    }


@pytest.mark.parametrize("closed_form", [False, True])
def test_a_step_that_a_gradient_scaler_skips_counts_for_nothing(closed_form: bool) -> None:
    method = after_one_task(closed_form)
    take_steps(method, *problem(1), 5, 0.05, torch.optim.SGD)
    before = [tensor.clone() for tensor in method.path.integral.tensors()]
    for weight in method.model.parameters():
        weight.grad = torch.full_like(weight, torch.inf)
    method.adjust_gradients()
    method.end_step()  # the optimiser did not move
    after = method.path.integral.tensors()
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))


@pytest.mark.slow
def test_it_forgets_less_than_fine_tuning() -> None:
    check_it_forgets_less(lambda net: SI(net, strength=1.0))


# -- what is refused ---------------------------------------------------------------------------


def test_a_step_whose_gradient_was_not_recorded() -> None:
    with pytest.raises(
        TaskError, match=re.escape("Call `method.adjust_gradients()` after backward")
    ):
        SI(smooth(0)).end_step()


def test_a_loop_that_leaves_out_the_calls_is_told_so() -> None:
    method = SI(smooth(0))
    with torch.no_grad():
        method.model.get_parameter("0.weight").add_(1)
    with pytest.raises(TaskError, match="The weights moved, but no step was recorded"):
        method.end_task()


def test_a_task_without_a_step_changes_nothing() -> None:
    method = after_one_task()
    method.memory.remember()
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    method.end_task()
    assert all(torch.equal(before[name], t) for name, t in method.state_dict().items())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"strength": float("nan")},
            "`strength` must be 0 or greater and finite, got nan. It is c",
        ),
        ({"damping": 0.0}, "`damping` must be greater than 0 and finite, got 0.0. It keeps"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        SI(network(0, 6, 3), **settings)  # type: ignore[arg-type]
