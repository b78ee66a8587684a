"""LwF: the distillation loss, the teacher, and what it costs."""

from __future__ import annotations

import math
from statistics import mean
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.functional import hessian

from tests.methods.small_tasks import accuracy, adam, digit_pairs, learn, mlp
from uclearn.errors import SettingError, TaskError
from uclearn.integrations.optimizers import attach
from uclearn.methods.baselines import FineTuning
from uclearn.methods.contract import Method, Step
from uclearn.methods.lwf import LwF, WithLwF, distillation, squared_distance
from uclearn.methods.registry import build
from uclearn.networks import MultiHead, run
from uclearn.tasks import Data, Task


def pairs(batch: int = 7, classes: int = 5) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, classes).double(), torch.randn(batch, classes).double()


def some_task(index: int, classes: int | None = 3) -> Task:
    data = Data(torch.randn(12, 4), torch.arange(12) % (classes or 3), task=index)
    return Task(f"task {index}", index, data, classes=classes)


def trunk() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU())


def move(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)


def three_old_tasks(**settings: Any) -> LwF:
    """A network with heads of 3, 2 and 3 classes that moved since, and a head for a fourth task."""
    method = LwF(MultiHead(trunk(), features=6), **{"strength": 1.0} | settings)
    for index, classes in enumerate((3, 2, 3)):
        method.begin_task(some_task(index, classes))
        method.end_task(some_task(index, classes))
    method.begin_task(some_task(3))
    move(method.model)
    return method


# -- the loss ----------------------------------------------------------------------------------


def test_it_is_the_papers_modified_cross_entropy() -> None:
    """Probabilities to the power 1/T, divided by their sum (eq. 2 and 3 of the paper)."""
    logits, taught = pairs()
    for temperature in (1.0, 2.0, 5.0):
        softened = logits.softmax(1) ** (1 / temperature)
        wanted = taught.softmax(1) ** (1 / temperature)
        softened, wanted = softened / softened.sum(1, True), wanted / wanted.sum(1, True)
        expected = -(wanted * softened.log()).sum(1).mean()
        torch.testing.assert_close(distillation(logits, taught, temperature), expected)


def test_by_rule_an_old_task_has_the_curvature_of_a_loss() -> None:
    """T^2 times that of the softened answers is that of the cross-entropy of a network that is as
    unsure as they are."""
    (logits, _), temperature = pairs(batch=1), 3.0
    method = LwF(trunk(), temperature=temperature)

    def softened(z: Tensor) -> Tensor:
        return method.pull * distillation(z, logits, temperature)

    def plain(z: Tensor) -> Tensor:
        return distillation(z, logits / temperature, 1.0)

    ours, theirs = (
        hessian(loss, at) for loss, at in ((softened, logits), (plain, logits / temperature))
    )
    torch.testing.assert_close(ours, theirs)


def test_the_rule_pulls_t_squared_times_as_much_as_published() -> None:
    x = torch.randn(5, 4)
    found = {}
    for strength in (1.0, "auto"):
        torch.manual_seed(0)
        found[strength] = three_old_tasks(strength=strength, temperature=3.0).penalty(inputs=x)
    torch.testing.assert_close(found["auto"], 9 * found[1.0])
    assert LwF(trunk(), outputs="numbers").pull == 1


def test_at_temperature_one_it_is_the_cross_entropy_of_the_probabilities() -> None:
    logits, taught = pairs()
    expected = -(taught.softmax(1) * logits.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(distillation(logits, taught, 1.0), expected)


def test_its_gradient_is_zero_where_network_and_teacher_agree() -> None:
    _, taught = pairs()
    logits = taught.clone().requires_grad_()
    distillation(logits, taught, 2.0).backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-15


def test_at_high_temperature_it_is_the_squared_difference_of_logits() -> None:
    """T^2 (cross-entropy - entropy) -> 1/(2n) sum (d_k - mean d)^2 with d = z - z'."""
    logits, taught = pairs()
    temperature = 1e4
    above = distillation(logits, taught, temperature) - distillation(taught, taught, temperature)
    difference = logits - taught
    centred = difference - difference.mean(1, keepdim=True)
    expected = centred.square().mean(1).mean() / 2
    torch.testing.assert_close(above * temperature**2, expected, rtol=1e-3, atol=0)


# -- the penalty -------------------------------------------------------------------------------


def test_the_penalty_sums_over_old_heads_on_the_new_inputs() -> None:
    method = three_old_tasks()
    x = torch.randn(5, 4)
    model, (teacher,) = method.model, method.teachers
    expected = sum(distillation(model(x, task=t), teacher(x, task=t), 2.0) for t in range(3))
    torch.testing.assert_close(method.penalty(inputs=x), torch.as_tensor(expected))


def test_it_grows_with_its_strength_and_starts_at_zero() -> None:
    x = torch.randn(5, 4)
    method = LwF(nn.Linear(4, 3), strength=3.0)
    assert method.penalty(inputs=x) == 0
    assert method.penalty() == 0  # no inputs needed either
    method.end_task()
    move(method.model)
    torch.testing.assert_close(
        method.penalty(inputs=x), 3 * distillation(method.model(x), method.teachers[0](x), 2.0)
    )


def test_heads_made_beforehand_are_not_taught_before_their_task() -> None:
    network = MultiHead(trunk(), features=6)
    for _ in range(4):
        network.add_head(3)
    method = LwF(network)
    for task in (None, some_task(1)):  # the second says its number
        method.end_task(task)
    (teacher,) = method.teachers
    assert isinstance(teacher, MultiHead)
    assert len(teacher.heads) == 2
    method.end_task(some_task(0))  # an early task once more: nothing learned later is lost
    assert len(method.teachers[0].heads) == 2  # type: ignore[arg-type]


def test_numbers_are_compared_by_their_squared_distance() -> None:
    method = LwF(nn.Linear(4, 1), outputs="numbers")
    method.begin_task(some_task(0, classes=None))
    method.end_task()
    move(method.model)
    x = torch.randn(5, 4)
    expected = squared_distance(method.model(x), method.teachers[0](x))
    torch.testing.assert_close(method.penalty(inputs=x), expected)
    assert expected > 0


# -- what it costs -----------------------------------------------------------------------------


def test_numbers_of_several_heads_add_up() -> None:
    method = LwF(MultiHead(trunk(), 6), outputs="numbers")
    for index in range(3):
        method.begin_task(some_task(index))
        method.end_task(some_task(index))
    (teacher,) = method.teachers
    move(method.model)
    x = torch.randn(5, 4)
    each = [squared_distance(run(method.model, x, t), run(teacher, x, t)) for t in range(3)]
    torch.testing.assert_close(method.penalty(inputs=x), torch.stack(each).sum())


def count_passes(module: nn.Module) -> list[int]:
    passes: list[int] = []
    module.register_forward_hook(lambda *_: passes.append(1))
    return passes


@pytest.mark.parametrize("heads", [False, True])
def test_within_a_step_the_students_trunk_runs_once_and_the_gradient_is_the_same(
    heads: bool,
) -> None:
    method = three_old_tasks() if heads else LwF(nn.Sequential(trunk(), nn.Linear(6, 3)))
    if not heads:
        method.end_task()
        move(method.model)
    shared = method.model.trunk if isinstance(method.model, MultiHead) else method.model
    assert isinstance(shared, nn.Module)
    x = torch.randn(5, 4)
    gradients, counts = [], []
    for watched in (True, False):
        passes = count_passes(shared)
        if watched:
            method.begin_step(inputs=x)
        outputs = method.model(x, task=3) if heads else method.model(x)
        (outputs.square().sum() + method.penalty(inputs=x)).backward()
        method.end_step()
        gradients.append([p.grad.clone() for p in method.model.parameters() if p.grad is not None])
        method.zero_grad()
        counts.append(len(passes))
    assert counts == [1, 2]
    torch.testing.assert_close(*gradients)


def test_what_was_seen_in_a_step_does_not_serve_another_batch_or_a_later_moment() -> None:
    method = LwF(nn.Linear(4, 3), strength=1.0)
    method.end_task()
    x, other = torch.randn(5, 4), torch.randn(5, 4)
    method.begin_step()
    method.model(other)
    move(method.model)
    now = distillation(method.model(x), method.teachers[0](x), 2.0)
    method.model(other)
    torch.testing.assert_close(method.penalty(inputs=x), now)
    method.model(x)
    method.end_step()
    move(method.model)
    later = distillation(method.model(x), method.teachers[0](x), 2.0)
    torch.testing.assert_close(method.penalty(inputs=x), later)


def test_who_only_looks_moves_no_statistics_and_draws_no_dropout() -> None:
    method = LwF(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.Linear(6, 3)))
    method.end_task()
    state = {name: value.clone() for name, value in method.state_dict().items()}
    drawn = torch.get_rng_state()
    with torch.no_grad():
        method.penalty(inputs=torch.randn(5, 4, generator=torch.Generator()))
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(value, state[name]) for name, value in method.state_dict().items())


# -- the teacher -------------------------------------------------------------------------------


def test_the_teacher_is_frozen_in_evaluation_and_not_the_optimisers_affair() -> None:
    method = LwF(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.Linear(6, 3)))
    method.end_task()
    method.train()
    (teacher,) = method.teachers
    assert not any(module.training for module in teacher.modules())
    assert method.model.training
    given = [p for group in method.parameter_groups(lr=0.1) for p in group["params"]]
    assert {id(p) for p in given} == {id(p) for p in method.model.parameters()}
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    method.penalty(inputs=torch.randn(5, 4)).backward()
    assert all(p.grad is None for p in teacher.parameters())
    assert all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items())


def test_a_state_brings_its_teacher_along_or_its_absence() -> None:
    method = three_old_tasks()
    fresh = LwF(MultiHead(trunk(), features=6), strength=1.0)
    for index, classes in enumerate((3, 2, 3, 3)):
        fresh.begin_task(some_task(index, classes))
    early = {name: value.clone() for name, value in fresh.state_dict().items()}
    fresh.load_state_dict(method.state_dict())
    x = torch.randn(5, 4)
    assert torch.equal(fresh.penalty(inputs=x), method.penalty(inputs=x))
    assert not any(p.requires_grad for p in fresh.teachers.parameters())
    fresh.load_state_dict(early)
    assert fresh.penalty(inputs=x) == 0


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strength": -1.0}, r"`strength` must be 0 or greater and finite, got -1\.0\. It weighs"),
        ({"strength": math.inf}, "`strength` must be 0 or greater and finite, got inf"),
        ({"temperature": 0.0}, r"`temperature` must be positive and finite, got 0\.0\. It softens"),
        ({"outputs": "words"}, "`outputs` must be one of classes, numbers, got 'words'"),
    ],
)
def test_settings_without_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        LwF(nn.Linear(4, 3), **settings)


def test_regression_and_missing_inputs_are_refused_with_the_remedy() -> None:
    method = LwF(nn.Linear(4, 3))
    with pytest.raises(TaskError, match=r"'task 0' has no classes.*outputs='numbers'"):
        method.begin_task(some_task(0, classes=None))
    method.end_task()
    with pytest.raises(TaskError, match="`inputs` is needed here: the answers of teacher and"):
        method.penalty(Step(batch_size=5))


# -- it acts -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_forgets_less_than_fine_tuning() -> None:
    def first_task(make: type[LwF] | type[FineTuning], seed: int) -> float:
        method: Method = make(mlp(width=30, seed=seed))
        tasks = digit_pairs(3)
        for task in tasks:
            learn(method, task, epochs=8, lr=5e-3, optimizer=adam, seed=seed)
        return mean(accuracy(method, task) for task in tasks[:2])

    kept = [first_task(LwF, seed) for seed in range(4)]
    lost = [first_task(FineTuning, seed) for seed in range(4)]
    assert mean(kept) > mean(lost) + 0.02


# -- around other methods ----------------------------------------------------------------------


def pulled(name: str, **settings: Any) -> Method:
    """After a task, in the middle of the next."""
    torch.manual_seed(0)
    method = build(name, MultiHead(trunk(), features=6), torch.zeros(1, 4), settings)
    x = torch.randn(12, 4, generator=torch.Generator().manual_seed(1))
    for index in range(2):
        task = Task(str(index), index, Data(x, torch.arange(12) % 2, task=index), classes=2)
        begun = method.begin_task(task)
        optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
        for _ in range(3):
            step = Step(index, x, 12, 0.5, 12)
            method.begin_step(step)
            loss = F.cross_entropy(method.model(x, task=index), torch.arange(12) % 2)
            optimizer.zero_grad()
            (loss + method.penalty(step)).backward()
            method.adjust_gradients(step)
            optimizer.step()
            method.end_step(step)
        if index == 0:
            method.end_task(begun)
    return method


def test_around_fine_tuning_it_is_lwf() -> None:
    alone, around = pulled("lwf"), pulled("finetuning+lwf")
    for ours, theirs in zip(around.model.parameters(), alone.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_penalty_is_the_sum_of_both_and_the_teacher_is_the_mean_network() -> None:
    method = pulled("ucl+lwf", lwf={"strength": 3.0})
    assert isinstance(method, WithLwF)
    x = torch.randn(5, 4)
    step = Step(1, x, 5, 0.5, 12)
    with torch.no_grad():
        inner = method.method.penalty(step)
        with method.inference() as network:
            ours, theirs = network(x, task=0), method.teachers[0](x, task=0)
        wanted = inner + 3 * distillation(ours, theirs, 2.0)
        torch.testing.assert_close(method.penalty(step), wanted)
    assert all(not p.requires_grad for p in method.teachers.parameters())
    assert not any(module.training for module in method.teachers.modules())
    kept = {key.partition(".")[0] for key in method.state_dict()}
    assert {"method", "teachers"} <= kept


def test_a_closed_form_inside_leaves_the_pull_in_the_loss() -> None:
    by_loss, closed = pulled("ucl+lwf"), pulled("ucl+lwf", ucl={"closed_form": True})
    assert not closed.closed_form
    for ours, theirs in zip(closed.model.parameters(), by_loss.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(SettingError, match="must have a penalty in closed form, and WithLwF has"):
        attach(closed, torch.optim.SGD(closed.parameter_groups(lr=0.1)), 12)


@pytest.mark.parametrize("name", ["hat+lwf", "vcl+lwf", "lwf+lwf", "ucl+lwf+lwf"])
def test_methods_that_it_does_not_suit_are_refused(name: str) -> None:
    needed = {"hat": {"tasks": 2}} if name.startswith("hat") else {}
    with pytest.raises(SettingError, match=r"LwF cannot be put around .*: its network must answer"):
        build(name, MultiHead(trunk(), features=6), torch.zeros(1, 4), needed)
