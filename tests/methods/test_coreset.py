"""Coresets around any method: withheld, refitted on, forgotten again."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.methods.small_tasks import (
    accuracy,
    adam,
    digit_pairs,
    forgetting,
    learn,
    mlp,
    permuted_digits,
    predict,
)
from tests.paper_ucl import paper_ucl
from uclearn.errors import SettingError, TaskError
from uclearn.methods.baselines import FineTuning
from uclearn.methods.contract import Method
from uclearn.methods.coreset import CHOICES, WithCoreset, Withheld, k_center
from uclearn.methods.hat import HAT
from uclearn.methods.parts.fit import fit
from uclearn.methods.vcl import VCL
from uclearn.networks import run
from uclearn.tasks import Data, FromLoader, Task, join


def plain(heads: bool = True, **settings: Any) -> WithCoreset:
    net = mlp(16) if heads else mlp(16, heads=False, outputs=10)
    settings = {"size": 20, "refit_epochs": 3, "refit_lr": 0.01, **settings}
    return WithCoreset(FineTuning(net), **settings)


def state_of(method: Method) -> dict[str, Tensor]:
    return copy.deepcopy(method.state_dict())


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in found.items())


# -- withholding -------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["random", "k-center"])
def test_the_coreset_and_what_is_trained_on_make_up_the_task(choice: str) -> None:
    task = digit_pairs(1)[0]
    method = plain(choice=choice)
    begun = method.begin_task(task)
    core = method.coresets.data(0)
    assert len(task.train) == 240  # the argument is left alone
    assert (len(begun.train), len(core)) == (220, 20)
    parts = [*begun.train.batch(torch.arange(220)).inputs, *core.inputs]
    whole = task.train.batch(torch.arange(240)).inputs
    ordered = sorted(map(tuple, torch.stack(parts).tolist()))
    assert ordered == sorted(map(tuple, whole.tolist()))


def test_beginning_a_task_again_chooses_the_same() -> None:
    task = digit_pairs(1)[0]
    method = plain()
    method.begin_task(task)
    before = state_of(method)
    method.begin_task(task)
    assert_same(state_of(method), before)


def test_a_loader_is_read_into_memory() -> None:
    batches = [(torch.rand(10, 64), torch.zeros(10, dtype=torch.int64)) for _ in range(5)]
    method = plain()
    begun = method.begin_task(Task("loader", 0, FromLoader(batches), classes=2))
    assert (len(begun.train), len(method.coresets.data(0))) == (30, 20)


# -- refitting ---------------------------------------------------------------------------------


def test_with_heads_a_task_is_predicted_by_a_copy_refitted_on_its_own_coreset() -> None:
    tasks = digit_pairs(2)
    method = plain()
    for task in tasks:
        learn(method, task, epochs=1)
    for task in tasks:
        by_hand = copy.deepcopy(method.method)
        core = method.coresets.data(task.index)
        fit(by_hand, core, task=task.index, epochs=3, lr=0.01, batch_size=256)
        assert torch.equal(predict(method, task), predict(by_hand, task))
        assert not torch.equal(predict(method, task), predict(method.method, task))


def test_with_one_head_all_tasks_are_predicted_by_one_copy_refitted_on_all() -> None:
    tasks = permuted_digits(3)
    method = plain(heads=False)
    for task in tasks:
        learn(method, task, epochs=1)
    by_hand = copy.deepcopy(method.method)
    cores = join(method.coresets.data(index) for index in range(3))
    fit(by_hand, cores, task=2, epochs=3, lr=0.01, batch_size=256)
    lent = []
    for task in tasks:
        assert torch.equal(predict(method, task), predict(by_hand, task))
        with method.inference(task.index) as network:
            lent.append(network)
    assert lent[0] is lent[1] is lent[2]


def test_the_refit_has_the_method_s_own_penalty() -> None:
    """VCL is held to the posterior that the last task left, whose divergence is divided by the
    size of the coreset: the same words as in training."""
    tasks = digit_pairs(2)
    method = WithCoreset(VCL(mlp(16), samples=2, start_epochs=1), size=20, refit_epochs=2)
    for task in tasks:
        learn(method, task, epochs=1, lr=0.01, optimizer=adam)
    by_hand = copy.deepcopy(method.method)
    assert isinstance(by_hand, VCL)
    fit(by_hand, method.coresets.data(0), task=0, epochs=2)
    assert torch.equal(predict(method, tasks[0]), predict(by_hand, tasks[0]))
    assert by_hand.penalty(examples=20) > 0


@pytest.mark.parametrize("heads", [True, False])
def test_inference_leaves_no_trace(heads: bool) -> None:
    task = digit_pairs(1)[0] if heads else permuted_digits(1)[0]
    method = plain(heads)
    learn(method, task, epochs=1)
    before, modes = state_of(method), [m.training for m in method.modules()]
    random, gradients = torch.get_rng_state(), [p.grad for p in method.parameters()]
    predict(method, task)
    assert_same(state_of(method), before)
    assert [m.training for m in method.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random)
    for parameter, gradient in zip(method.parameters(), gradients, strict=True):
        assert parameter.grad is gradient


def test_looking_again_costs_nothing_until_something_changes() -> None:
    tasks = digit_pairs(2)
    method = plain()
    learn(method, tasks[0], epochs=1)

    def lent() -> Any:
        with method.inference(0) as network:
            return network

    first = lent()
    assert first is not method.model
    assert lent() is first
    with torch.no_grad():
        next(method.model.parameters()).add_(0.01)  # behind its back
    second = lent()
    assert second is not first
    method.load_state_dict(state_of(method))
    assert lent() is not second
    third = lent()
    learn(method, tasks[1], epochs=1)
    assert lent() is not third


def test_while_a_task_is_learned_the_network_is_lent_as_it_is() -> None:
    """Refitting before every look at the validation data would cost more than the training."""
    tasks = digit_pairs(2)
    method = plain()
    learn(method, tasks[0], epochs=1)
    learn(method, tasks[1], epochs=1, end=False)
    with method.inference(0) as network:
        assert network is method.model
    method.end_task()
    with method.inference(0) as network:
        assert network is not method.model


def test_evaluation_without_gradients_refits_all_the_same() -> None:
    task = digit_pairs(1)[0]
    method = plain()
    learn(method, task, epochs=1)
    x = torch.rand(4, 64)
    with method.inference(0) as network:
        expected = run(network, x, 0).detach()
    for guard in (torch.no_grad, torch.inference_mode):
        method._refits.clear()
        with guard(), method.inference(0) as network:
            assert torch.equal(run(network, x, 0), expected)


def test_a_task_without_coreset_is_predicted_by_the_network_itself() -> None:
    method = plain()
    with method.inference(None) as network:
        assert network is method.model


# -- in the house ------------------------------------------------------------------------------


def test_it_passes_on_every_word() -> None:
    """Around UCL: its groups, its penalty, its way to lend."""
    inner = paper_ucl(mlp(16, heads=False, outputs=10), torch.zeros(1, 64), closed_form=True)
    method = WithCoreset(inner, size=5)
    assert method.model is inner.model
    assert method.closed_form
    assert len(method.parameter_groups(0.1)) == len(inner.parameter_groups(0.1)) == 2
    assert torch.equal(method.penalty(batch_size=7), inner.penalty(batch_size=7))
    ids = [id(p) for group in method.parameter_groups(0.1) for p in group["params"]]
    assert sorted(ids) == sorted(id(p) for p in method.parameters())


def test_saved_and_loaded_it_predicts_the_same_bit_for_bit() -> None:
    tasks = digit_pairs(3)
    inner = VCL(mlp(16), samples=2, start_epochs=1)
    method = WithCoreset(inner, size=20, choice="k-center", refit_epochs=2)
    for task in tasks[:2]:
        learn(method, task, epochs=1, lr=0.01, optimizer=adam)
    fresh = WithCoreset(VCL(mlp(16), samples=2, start_epochs=1), size=20, refit_epochs=2)
    fresh.load_state_dict(state_of(method))
    for task in tasks[:2]:
        assert torch.equal(predict(method, task), predict(fresh, task))
    for one in (method, fresh):
        one.choice = "random"
        learn(one, tasks[2], epochs=1, lr=0.01, optimizer=adam)
    assert_same(state_of(fresh), state_of(method))


def test_around_hat_earlier_tasks_still_stay_bit_for_bit() -> None:
    tasks = digit_pairs(2)
    method = WithCoreset(HAT(mlp(16), torch.zeros(1, 64), tasks=2), size=20, refit_epochs=0)
    learn(method, tasks[0], epochs=2)
    before = predict(method, tasks[0])
    learn(method, tasks[1], epochs=2)
    assert torch.equal(predict(method, tasks[0]), before)


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["random", "k-center"])
@pytest.mark.parametrize("seed", range(2))
def test_a_coreset_brings_back_what_fine_tuning_forgot(choice: Any, seed: int) -> None:
    tasks = permuted_digits(3)
    settings: dict[str, Any] = {"epochs": 10, "lr": 0.003, "optimizer": adam, "seed": seed}
    net = mlp(50, heads=False, outputs=10, seed=seed)
    _, forgotten = forgetting(FineTuning(net), tasks, **settings)
    method = WithCoreset(
        FineTuning(net), size=60, choice=choice, refit_epochs=40, refit_lr=0.003, seed=seed
    )
    _, left = forgetting(method, tasks, **settings)
    assert left > forgotten + 0.15
    assert accuracy(method.method, tasks[0]) < accuracy(method, tasks[0])


@pytest.mark.slow
def test_a_coreset_helps_vcl() -> None:
    """On the average of two seeds."""
    tasks = permuted_digits(2)
    settings: dict[str, Any] = {"epochs": 20, "lr": 0.02, "batch": 100, "optimizer": adam}
    start: dict[str, Any] = {"start_epochs": 10, "start_lr": 0.005, "start_batch_size": 32}
    gained = 0.0
    for seed in range(2):
        net = mlp(40, heads=False, outputs=10, seed=seed)
        vcl = VCL(net, samples=2, seed=seed, **start)
        method = WithCoreset(copy.deepcopy(vcl), size=60, refit_epochs=40, refit_lr=0.01)
        gained -= forgetting(vcl, tasks, **settings, seed=seed)[1] / 2
        gained += forgetting(method, tasks, **settings, seed=seed)[1] / 2
    assert gained > 0.01


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "`size` must be at least 1, got 0. It is the examples withheld"),
        ({"choice": "best"}, "`choice` must be one of random, k-center, got 'best'."),
        ({"refit_lr": -1.0}, "`refit_lr` must be positive, got -1.0."),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        plain(**settings)
    assert message in str(error.value)


def test_a_task_smaller_than_its_coreset_is_refused() -> None:
    small = Task("small", 0, Data(torch.rand(20, 64), torch.zeros(20).long()), classes=2)
    message = (
        r"`size` must be smaller than the number of training examples, got 20; task 'small' has 20"
    )
    with pytest.raises(TaskError, match=message):
        plain().begin_task(small)


def by_brute_force(points: Tensor, count: int, first: int) -> list[int]:
    """Each time the point whose nearest chosen one is furthest, all distances anew."""
    chosen = [first]
    while len(chosen) < count:
        gaps = {
            candidate: min(float((points[candidate] - points[c]).norm()) for c in chosen)
            for candidate in range(len(points))
            if candidate not in chosen
        }
        chosen.append(max(gaps, key=lambda candidate: gaps[candidate]))
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_k_center_is_the_greedy_choice(seed: int) -> None:
    points = torch.randn(40, 2, 3, generator=torch.Generator().manual_seed(seed)).double()
    found = k_center(points, 12, first=seed)
    assert found.tolist() == by_brute_force(points, 12, seed)


@pytest.mark.parametrize("seed", range(3))
def test_k_center_covers_at_most_twice_as_widely_as_the_best_choice(seed: int) -> None:
    points = torch.randn(12, 2, generator=torch.Generator().manual_seed(seed))
    distances = torch.cdist(points, points)

    def radius(chosen: Tensor) -> float:
        return distances[:, chosen].amin(1).amax().item()

    best = min(radius(torch.tensor(c)) for c in itertools.combinations(range(12), 4))
    assert radius(k_center(points, 4)) <= 2 * best + 1e-6


def test_twins_are_chosen_at_most_once_each() -> None:
    points = torch.ones(6, 2)
    assert sorted(k_center(points, 6).tolist()) == list(range(6))


@pytest.mark.parametrize("choice", CHOICES)
def test_choices_follow_their_generator(choice: str) -> None:
    data = Data(torch.randn(50, 3), torch.zeros(50))

    def chosen(seed: int) -> Tensor:
        return CHOICES[choice](data, 7, torch.Generator().manual_seed(seed))

    assert torch.equal(chosen(1), chosen(1))
    assert not torch.equal(chosen(1), chosen(2))
    assert len(set(chosen(1).tolist())) == 7


def test_k_center_sees_prepared_inputs() -> None:
    """Stored as bytes, spread out only by what prepares them."""
    stored = torch.arange(5, dtype=torch.uint8)[:, None]
    data = Data(stored, torch.zeros(5), prepare=lambda x: x.float() ** 4)
    found = CHOICES["k-center"](data, 2, torch.Generator().manual_seed(0)).tolist()
    assert found in ([0, 4], [1, 4], [2, 4], [3, 4], [4, 0])


def test_what_is_kept_is_a_copy_and_comes_back_as_it_was() -> None:
    inputs, targets = torch.randn(9, 2), torch.arange(9) % 3
    kept = Withheld()
    task = Task("t", 4, Data(inputs, targets, task=4), classes=3)
    kept.put(task, task.train.subset(torch.tensor([7, 2])))
    inputs.zero_()
    assert kept.tasks() == [4]
    found = kept.data(4)
    assert found.targets.tolist() == [1, 2]
    assert found.task == 4
    assert found.inputs.abs().min() > 0
    assert kept.as_task(4, [4]).classes == 3


def test_a_state_makes_room_for_its_own_tasks_and_only_those() -> None:
    saved, fresh = Withheld(), Withheld()
    for index in (0, 1):
        data = Data(torch.randn(3 + index, 2), torch.zeros(3 + index))
        saved.put(Task("t", index, data), data)
    other = Data(torch.randn(2, 2), torch.zeros(2))
    fresh.put(Task("t", 5, other), other)
    fresh.load_state_dict(saved.state_dict())
    assert fresh.tasks() == [0, 1]
    assert torch.equal(fresh.data(1).inputs, saved.data(1).inputs)
    assert fresh.as_task(1, [0, 1]).classes is None
    assert len(fresh.as_task(1, [0, 1]).train) == 7
