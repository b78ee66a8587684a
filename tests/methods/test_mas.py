"""MAS: importance is how much the outputs depend on a weight, without any label."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

from tests.methods.permuted_digits import check_it_forgets_less, network
from uclearn.errors import SettingError, TaskError
from uclearn.methods.mas import MAS
from uclearn.networks import MultiHead
from uclearn.tasks import Data, Task
from uclearn.tasks.data import join


def inputs(seed: int, examples: int = 20) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(examples, 6, generator=generator, dtype=torch.double)


def by_loop(net: nn.Module, x: Tensor, size: int = 1, **task: int) -> dict[str, Tensor]:
    """Sum of |gradient of the summed squared outputs| over batches, divided by the examples."""
    named = dict(net.named_parameters())
    total = {name: torch.zeros_like(p) for name, p in named.items()}
    for batch in x.split(size):
        squares = net(batch, **task).square().sum()
        gradients = torch.autograd.grad(squares, list(named.values()), materialize_grads=True)
        for name, gradient in zip(named, gradients, strict=True):
            total[name] += gradient.abs() / len(x)
    return total


def found(method: MAS) -> dict[str, Tensor]:
    return dict(zip(method.memory.names, method.memory.importance.tensors(), strict=True))


def wander(method: MAS) -> None:
    with torch.no_grad():
        for weight in method.model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)


def conv() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)
    )


@pytest.mark.parametrize("make", [lambda: network(0, 6, 5, 3), conv])
def test_importance_is_the_mean_absolute_gradient_of_each_example(make: type[nn.Module]) -> None:
    method = MAS(make().double())
    method.end_task(inputs=inputs(0).split(7))
    torch.testing.assert_close(found(method), by_loop(method.model, inputs(0)))


def test_the_authors_form_takes_each_batch_as_one() -> None:
    method = MAS(network(0, 6, 5, 3).double(), per_sample=False)
    method.end_task(inputs=inputs(0).split(7))
    torch.testing.assert_close(found(method), by_loop(method.model, inputs(0), size=7))


def test_tasks_add_up() -> None:
    method = MAS(network(0, 6, 5, 3).double())
    expected = {name: torch.zeros_like(p) for name, p in method.model.named_parameters()}
    for task in range(3):
        wander(method)
        for name, value in by_loop(method.model, inputs(task)).items():
            expected[name] += value
        method.end_task(inputs=[inputs(task)])
    torch.testing.assert_close(found(method), expected)


def test_no_label_is_looked_at() -> None:
    data = [Data(inputs(0), targets) for targets in (torch.zeros(20), torch.arange(20.0))]
    methods = [MAS(network(0, 6, 5, 3).double()) for _ in data]
    for method, part in zip(methods, data, strict=True):
        method.end_task(Task("any", 0, part))
    torch.testing.assert_close(found(methods[0]), found(methods[1]), rtol=0, atol=0)
    torch.testing.assert_close(found(methods[0]), by_loop(methods[0].model, inputs(0)))


def test_the_penalty_is_lambda_omega_distance_squared() -> None:
    method = MAS(network(0, 6, 5, 3).double(), strength=0.7)
    method.end_task(inputs=[inputs(0)])
    omega = found(method)
    old = {name: p.detach().clone() for name, p in method.model.named_parameters()}
    wander(method)
    named = dict(method.model.named_parameters())
    expected = 0.7 * sum((omega[n] * (p - old[n]).square()).sum() for n, p in named.items())
    assert isinstance(expected, Tensor)
    torch.testing.assert_close(method.penalty(), expected)
    slopes = torch.autograd.grad(method.penalty(), list(named.values()))
    torch.testing.assert_close(slopes, torch.autograd.grad(expected, list(named.values())))

    closed = MAS(network(0, 6, 5, 3).double(), strength=0.7, closed_form=True)
    closed.load_state_dict(method.state_dict())
    torch.testing.assert_close(closed.penalty(), expected.detach())
    closed.adjust_gradients()
    torch.testing.assert_close([p.grad for p in closed.model.parameters()], list(slopes))


def with_heads() -> MultiHead:
    net = MultiHead(nn.Sequential(nn.Linear(6, 5), nn.Tanh()), features=5).double()
    net.add_head(3), net.add_head(2)
    return net


def test_the_finished_task_s_head_is_asked() -> None:
    """Named by the task, or else the one after those that are done."""
    net = with_heads()
    by_task, by_order = MAS(net), MAS(net)
    for index in range(2):
        expected = by_loop(by_task.model, inputs(index), task=index)
        before = found(by_task)["trunk.0.weight"].clone()
        by_task.end_task(Task("this", index, Data(inputs(index), torch.zeros(20), task=index)))
        by_order.end_task(inputs=[inputs(index)])
        new = found(by_task)["trunk.0.weight"] - before
        torch.testing.assert_close(new, expected["trunk.0.weight"])
        torch.testing.assert_close(found(by_order), found(by_task))
    assert set(found(by_task)) == {"trunk.0.weight", "trunk.0.bias"}


def test_heads_of_different_sizes_in_one_batch() -> None:
    """Where a task has fewer classes, the missing outputs count for nothing."""
    method = MAS(with_heads())
    parts = [Data(inputs(i), torch.zeros(20), task=i) for i in range(2)]
    expected = [by_loop(method.model, inputs(i), task=i)["trunk.0.weight"] for i in range(2)]
    method.end_task(Task("both", 1, join(parts)))
    torch.testing.assert_close(found(method)["trunk.0.weight"], (expected[0] + expected[1]) / 2)


def test_right_after_a_task_nothing_pulls_and_the_anchor_stays() -> None:
    method = MAS(network(0, 6, 5, 3).double())
    assert method.penalty() == 0
    method.end_task(inputs=[inputs(0)])
    assert method.penalty() == 0
    slopes = torch.autograd.grad(method.penalty(), list(method.model.parameters()))
    assert not any(slope.any() for slope in slopes)
    wander(method)
    assert method.penalty() > 0


def test_modes_come_back_and_dropout_is_off() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3)).double()
    method = MAS(net)
    method.end_task(inputs=[inputs(0)])
    assert all(module.training for module in method.model.modules())
    torch.testing.assert_close(found(method), by_loop(net.eval(), inputs(0)))


def test_save_and_load_restore_everything_bit_for_bit() -> None:
    method, other = MAS(network(0, 6, 5, 3).double()), MAS(network(7, 6, 5, 3).double())
    method.end_task(inputs=[inputs(0)])
    wander(method)
    other.load_state_dict(method.state_dict())
    assert torch.equal(other.penalty(), method.penalty())
    for m in (method, other):
        m.end_task(inputs=[inputs(1)])
    states = method.state_dict(), other.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.slow
def test_it_forgets_less_than_fine_tuning() -> None:
    check_it_forgets_less(lambda net: MAS(net, strength=0.05))


def test_without_inputs_the_task_cannot_end() -> None:
    message = "MAS measures importance by the network's outputs, but neither `task` nor `inputs`"
    with pytest.raises(TaskError, match=re.escape(message)):
        MAS(network(0, 6, 3)).end_task()


def test_inputs_that_are_not_finite_change_nothing() -> None:
    method = MAS(network(0, 6, 5, 3).double())
    method.end_task(inputs=[inputs(0)])
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    with pytest.raises(TaskError, match="the outputs' dependence gave an importance that is not"):
        method.end_task(inputs=[inputs(1) * torch.inf])
    assert all(torch.equal(before[name], t) for name, t in method.state_dict().items())


def test_a_strength_that_makes_no_sense() -> None:
    with pytest.raises(SettingError, match=re.escape("`strength` must be 0 or greater and finite")):
        MAS(network(0, 6, 3), strength=-0.1)
