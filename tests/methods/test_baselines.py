"""Joint training: all data at once, each example through its own head."""

from __future__ import annotations

import copy
from dataclasses import replace
from statistics import mean

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.small_tasks import accuracy, adam, learn, mlp, permuted_digits
from uclearn.errors import SettingError, TaskError
from uclearn.methods.baselines import FineTuning, Joint
from uclearn.methods.contract import Method
from uclearn.networks import MultiHead, run
from uclearn.tasks import Batch, Data, FromLoader, Task, iterate


def some_task(index: int, examples: int = 4, classes: int = 2, valid: int = 0) -> Task:
    def part(count: int, first: float) -> Data:
        inputs = torch.arange(first, first + count)[:, None].repeat(1, 3) + 100 * index
        return Data(inputs, torch.arange(count) % classes, task=index)

    own = part(valid, 50.0) if valid else None
    return Task(f"task {index}", index, part(examples, 0.0), own, classes=classes)


def with_heads() -> MultiHead:
    return MultiHead(nn.Sequential(nn.Linear(3, 5), nn.ReLU()), features=5)


def whole(task: Task) -> Batch:
    return next(iter(iterate(task.train, len(task.train))))


def test_the_data_are_those_of_all_tasks_so_far_in_order() -> None:
    method = Joint(nn.Linear(3, 2))
    tasks = [some_task(index, examples) for index, examples in enumerate((4, 1, 3))]
    for known in (1, 2, 3):
        begun = whole(method.begin_task(tasks[known - 1]))
        expected = [whole(task) for task in tasks[:known]]
        assert torch.equal(begun.inputs, torch.cat([batch.inputs for batch in expected]))
        assert torch.equal(begun.targets, torch.cat([batch.targets for batch in expected]))
        if known > 1:  # a single task's number stands for all examples
            owners = torch.cat(
                [torch.full((len(task.train),), task.index) for task in tasks[:known]]
            )
            assert torch.equal(torch.as_tensor(begun.task), owners)


def test_a_mixed_batch_has_the_gradient_of_all_heads_together() -> None:
    """Oracle: every task alone through its head, losses summed and divided by all examples."""
    tasks = [some_task(0, 4, classes=2), some_task(1, 5, classes=4), some_task(2, 3, classes=3)]
    method = Joint(with_heads())
    for task in tasks:
        begun = method.begin_task(task)
    batch = whole(begun)
    F.cross_entropy(run(method.model, batch.inputs, batch.task), batch.targets).backward()
    mixed = [parameter.grad for parameter in method.model.parameters()]
    alone = [
        F.cross_entropy(
            method.model(whole(task).inputs, task=task.index),
            whole(task).targets,
            reduction="sum",
        )
        for task in tasks
    ]
    total = torch.stack(alone).sum() / 12
    expected = torch.autograd.grad(total, list(method.model.parameters()))
    torch.testing.assert_close(mixed, list(expected))


def test_classes_are_those_of_the_largest_task() -> None:
    method = Joint(with_heads())
    method.begin_task(some_task(0, examples=6, classes=5))
    assert method.begin_task(some_task(1, classes=2)).classes == 5
    assert isinstance(method.model, MultiHead)
    assert [head.out_features for head in method.model.heads] == [5, 2]


def test_validation_data_are_joined_and_training_data_stand_in() -> None:
    method = Joint(nn.Linear(3, 2))
    assert method.begin_task(some_task(0)).valid is None
    begun = method.begin_task(some_task(1, valid=2))
    assert begun.valid is not None
    first, second = some_task(0).train.batch(torch.arange(4)), torch.tensor([[150.0], [151.0]])
    valid = begun.valid.batch(torch.arange(6)).inputs
    assert torch.equal(valid, torch.cat([first.inputs, second.expand(2, 3)]))


def test_no_data_are_in_the_state_and_beginning_again_brings_them_back() -> None:
    tasks = [some_task(0), some_task(1)]
    method, resumed = Joint(nn.Linear(3, 2)), Joint(nn.Linear(3, 2))
    for each in (method, resumed):
        for task in tasks:
            begun = each.begin_task(task)
        assert len(begun.train) == 8
    assert list(method.state_dict()) == ["model.weight", "model.bias"]
    again = method.begin_task(tasks[0])  # an earlier task once more: only what had come by then
    assert len(again.train) == 4


def test_at_once_there_is_nothing_to_train_on_until_the_last_task_brings_all() -> None:
    waiting, eager = Joint(nn.Linear(3, 2), once=True, tasks=3), Joint(nn.Linear(3, 2))
    tasks = [some_task(index, examples, valid=2) for index, examples in enumerate((4, 1, 3))]
    begun = [waiting.begin_task(task) for task in tasks]
    assert [len(task.train) for task in begun] == [0, 0, 8]
    for task in tasks:
        expected = eager.begin_task(task)
    assert torch.equal(whole(begun[-1]).inputs, whole(expected).inputs)


def test_at_once_without_a_number_of_tasks_is_refused() -> None:
    with pytest.raises(SettingError, match="`tasks` must be given with `once`, got None"):
        Joint(nn.Linear(3, 2), once=True)


def test_missing_earlier_tasks_are_refused() -> None:
    method = Joint(nn.Linear(3, 2))
    method.begin_task(some_task(0))
    with pytest.raises(TaskError, match=r"'task 3'.*missing: 1, 2\. Call `begin_task` for them"):
        method.begin_task(some_task(3))


def test_a_copy_of_the_method_refers_to_the_same_data() -> None:
    method = Joint(nn.Linear(3, 2))
    task = some_task(0)
    method.begin_task(task)
    twin = copy.deepcopy(method).begin_task(some_task(1)).train
    assert isinstance(task.train, Data)
    assert any(part.inputs is task.train.inputs for part in getattr(twin, "parts", ()))


def test_loaders_are_read_into_memory() -> None:
    batches: list[tuple[Tensor, Tensor]] = [(torch.ones(2, 3), torch.tensor([0, 1]))] * 3
    method = Joint(nn.Linear(3, 2))
    method.begin_task(replace(some_task(0), train=FromLoader(batches)))
    assert whole(method.begin_task(some_task(1))).inputs[:6].eq(1).all()


@pytest.mark.slow
@pytest.mark.parametrize("heads", [False, True])
def test_it_forgets_nothing_and_fine_tuning_does(heads: bool) -> None:
    def first_task(make: type[Joint] | type[FineTuning], seed: int) -> float:
        method: Method = make(mlp(heads=heads, outputs=10, seed=seed))
        tasks = permuted_digits(2, train=400)
        for task in tasks:
            learn(method, task, epochs=6, lr=3e-3, optimizer=adam, seed=seed)
        return accuracy(method, tasks[0])

    joint = mean(first_task(Joint, seed) for seed in range(3))
    forgetful = mean(first_task(FineTuning, seed) for seed in range(3))
    assert joint > 0.8
    assert joint > forgetful + 0.1
