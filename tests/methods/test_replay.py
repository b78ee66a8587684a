"""Replay: what an epoch holds, that the wrapper is the method it wraps, and that it helps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from statistics import mean
from typing import Any, Unpack

import pytest
import torch
from torch import Tensor, nn

from tests.methods.small_tasks import accuracy, adam, learn, mlp, permuted_digits
from tests.paper_ucl import BY_HAND
from uclearn.errors import DataError, SettingError, TaskError
from uclearn.methods.baselines import FineTuning
from uclearn.methods.checks import problem
from uclearn.methods.contract import Losses, Method, Step, StepFields
from uclearn.methods.registry import build
from uclearn.methods.replay import Replayed, Reservoir, WithReplay
from uclearn.networks import MultiHead, run
from uclearn.tasks import Batch, Data, FromLoader, Task, iterate, join
from uclearn.tasks.data import generator


def numbered_task(index: int, examples: int = 40) -> Task:
    """The inputs say which task and which example they are."""
    numbers = torch.arange(examples)
    inputs = torch.stack([torch.full((examples,), index), numbers], dim=1).float()
    return Task(f"task {index}", index, Data(inputs, numbers % 2, task=index), classes=2)


def remembering(tasks: int, **settings: Any) -> WithReplay:
    """After some tasks."""
    method = WithReplay(FineTuning(nn.Linear(2, 2)), **settings)
    for index in range(tasks):
        method.end_task(method.begin_task(numbered_task(index)))
    return method


def epoch(train: Replayed | Any, seed: int = 0, **others: Any) -> list[Batch]:
    return list(iterate(train, 16, torch.Generator().manual_seed(seed), **others))


def owners(batches: Iterable[Batch]) -> Tensor:
    return torch.cat([torch.as_tensor(b.task).expand(len(b.targets)) for b in batches])


# -- what an epoch holds -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "old_tasks", "expected"),
    [
        (0.5, 1, 40),  # 40 new ones, as many old ones
        (0.5, 5, 40),  # whatever the number of tasks
        (0.2, 3, 10),
        (0.75, 1, 40),  # one old task: not more than the new one
        (0.75, 2, 80),
        (0.75, 6, 120),  # at most 3/4
    ],
)
def test_an_epoch_holds_all_new_examples_once_and_its_share_of_old_ones(
    share: float, old_tasks: int, expected: int
) -> None:
    method = remembering(old_tasks, size=25, share=share)
    train = method.begin_task(numbered_task(old_tasks)).train
    batches = epoch(train)
    whose = owners(batches)
    assert len(train) == len(whose) == 40 + expected
    assert sum(whose == old_tasks) == 40
    inputs = torch.cat([batch.inputs for batch in batches])
    fresh = inputs[whose == old_tasks, 1]
    assert fresh.sort().values.tolist() == list(range(40))
    assert torch.equal(inputs[:, 0].long(), whose)
    assert torch.equal(inputs[:, 1].long() % 2, torch.cat([b.targets for b in batches]))


@pytest.mark.parametrize("size", [7, 40, 100])
def test_every_remembered_example_comes_as_often_as_any_other(size: int) -> None:
    method = remembering(3, size=size)
    kept = len(method.memory)
    train = method.begin_task(numbered_task(3)).train
    counts = torch.zeros(kept)
    for seed in range(30):
        inputs = torch.cat([batch.inputs for batch in epoch(train, seed)])
        old = inputs[inputs[:, 0] < 3]
        same = (old[:, None] == method.memory.inputs[None]).all(2)  # (old, kept)
        once = same.sum(0)
        assert once.max() - once.min() <= 1
        counts += once
    assert counts.min() > 0  # over some epochs, all of them
    assert counts.sum() == 30 * 40


def test_the_order_follows_the_generator_and_an_epoch_can_be_resumed_anywhere() -> None:
    train = remembering(2, size=20).begin_task(numbered_task(2)).train
    whole, again, resumed = epoch(train), epoch(train), epoch(train, start=3)
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(whole, again, strict=True))
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(whole[3:], resumed, strict=True))
    other = epoch(train, seed=1)
    assert not torch.equal(whole[0].inputs, other[0].inputs)
    assert len(epoch(train, drop_last=True)) == 5
    assert {len(batch.targets) for batch in epoch(train, drop_last=True)} == {16}


def test_old_examples_stand_in_every_part_of_an_epoch() -> None:
    train = remembering(2, size=20).begin_task(numbered_task(2)).train
    shares = torch.stack([(owners([b]) < 2).float().mean() for b in epoch(train)])
    assert shares.min() > 0.1
    assert shares.max() < 0.9


@pytest.mark.parametrize("size", [10, 60])
def test_examples_can_be_picked_by_position(size: int) -> None:
    """Positions, subsets, targets and an epoch without a generator tell the same story."""
    train = remembering(2, size=size).begin_task(numbered_task(2)).train
    in_order = list(iterate(train, 16))
    inputs = torch.cat([batch.inputs for batch in in_order])
    targets = torch.cat([batch.targets for batch in in_order])
    assert torch.equal(train.all_targets(), targets)
    some = torch.tensor([79, 3, 41, 40, 0, 60])
    picked, subset = train.batch(some), train.subset(some)
    for batch in (picked, subset.batch(torch.arange(6))):
        assert torch.equal(batch.inputs, inputs[some])
        assert torch.equal(batch.targets, targets[some])
        assert torch.equal(torch.as_tensor(batch.task), inputs[some, 0].long())
    old = inputs[40:].unique(dim=0)
    assert len(old) == min(size, 40)  # a memory larger than its part is drawn from evenly


def test_the_batches_of_a_loader_are_each_added_to() -> None:
    method = remembering(1, size=10)
    data = numbered_task(1).train
    loader = [data.batch(rows)[:2] for rows in torch.arange(40).split(12)]
    task = Task("loaded", 1, FromLoader(loader, task=1), classes=2)
    begun = method.begin_task(task)
    batches = epoch(begun.train)
    assert [len(batch.targets) for batch in batches] == [24, 24, 24, 8]
    assert all(int((owners([batch]) == 1).sum()) * 2 == len(batch.targets) for batch in batches)
    resumed = epoch(begun.train, start=2)
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(batches[2:], resumed, strict=True))
    method.end_task(begun)
    assert method.memory.seen == 80
    with pytest.raises(DataError, match=r"picked one by one.*`stored\(data\)`"):
        begun.train.batch(torch.tensor([0]))


# -- the wrapper is the method that it wraps ---------------------------------------------------


class Recorder(Method):
    """Notes what is said to it."""

    closed_form = True

    def __init__(self) -> None:
        super().__init__(nn.Linear(2, 2))
        self.said: list[tuple[str, Any]] = []

    def begin_task(self, task: Task) -> Task:
        self.said.append(("begin_task", task))
        return super().begin_task(task)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        self.said.append(("parameter_groups", lr))
        return super().parameter_groups(lr)

    def begin_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        self.said.append(("begin_step", step or given))

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        self.said.append(("penalty", step or given))
        return torch.tensor(7.0)

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        self.said.append(("adjust_gradients", step or given))

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        self.said.append(("end_step", step or given))

    def end_task(
        self,
        task: Task | None = None,
        losses: Losses | None = None,
        *,
        inputs: Iterable[Any] | None = None,
    ) -> None:
        self.said.append(("end_task", (task, losses, inputs)))

    def inference(self, task: int | None = None) -> Any:
        self.said.append(("inference", task))
        return super().inference(task)


def test_every_word_is_passed_on() -> None:
    inner = Recorder()
    method = WithReplay(inner)
    task, step = numbered_task(0), Step(batch_size=3)
    begun = method.begin_task(task)
    method.parameter_groups(lr=0.5)
    method.begin_step(step)
    assert method.penalty(batch_size=3) == 7
    method.adjust_gradients(step)
    method.end_step(step)
    losses: Losses = list
    method.end_task(begun, losses, inputs=[1])
    with method.inference(2) as network:
        assert network is inner.model
    assert inner.said == [
        ("begin_task", task),
        ("parameter_groups", 0.5),
        ("begin_step", step),
        ("penalty", {"batch_size": 3}),
        ("adjust_gradients", step),
        ("end_step", step),
        ("end_task", (begun, losses, [1])),
        ("inference", 2),
    ]
    assert method.model is inner.model
    assert method.closed_form


def test_the_network_is_in_the_state_once() -> None:
    state = WithReplay(FineTuning(nn.Linear(2, 2))).state_dict()
    assert sorted(state) == [
        "memory.inputs",
        "memory.seen",
        "memory.targets",
        "memory.tasks",
        "method.model.bias",
        "method.model.weight",
    ]


def test_before_there_is_anything_to_replay_it_is_bit_for_bit_the_method() -> None:
    task = permuted_digits(1, train=100)[0]
    alone = FineTuning(mlp(heads=False, outputs=10))
    wrapped = WithReplay(FineTuning(mlp(heads=False, outputs=10)))
    for method in (alone, wrapped):
        learn(method, task, epochs=1)
    pairs = zip(alone.model.parameters(), wrapped.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_a_resumed_method_begins_its_tasks_first_and_gets_its_memory_later() -> None:
    method = remembering(2, size=20)
    train = method.begin_task(numbered_task(2)).train
    resumed = WithReplay(FineTuning(nn.Linear(2, 2)), size=20)
    for index in range(3):
        begun = resumed.begin_task(numbered_task(index))
    assert len(begun.train) == 40
    resumed.load_state_dict(method.state_dict())
    assert len(begun.train) == 80
    pairs = zip(epoch(train), epoch(begun.train), strict=True)
    assert all(torch.equal(a.inputs, b.inputs) for a, b in pairs)


def test_with_heads_every_example_goes_through_its_own() -> None:
    """Old heads go on learning, from remembered examples alone."""
    method = WithReplay(FineTuning(MultiHead(nn.Linear(2, 3), features=3)), size=20)
    for index in range(2):
        method.end_task(method.begin_task(numbered_task(index)))
    batch = epoch(method.begin_task(numbered_task(2)).train)[0]
    network = method.model
    assert isinstance(network, MultiHead)
    outputs = run(network, batch.inputs, batch.task)
    for row, task in enumerate(torch.as_tensor(batch.task).tolist()):
        torch.testing.assert_close(outputs[row], network(batch.inputs[row : row + 1], task=task)[0])
    outputs.sum().backward()
    assert all(head.weight.grad is not None for head in network.heads)


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5])
def test_a_share_without_sense_is_refused(share: float) -> None:
    message = rf"`share` must lie strictly between 0 and 1, got {share}\. It is the part of each"
    with pytest.raises(SettingError, match=message):
        WithReplay(FineTuning(nn.Linear(2, 2)), share=share)


def test_ending_without_a_task_is_refused() -> None:
    with pytest.raises(TaskError, match="`task` is needed here: the memory is filled from its"):
        WithReplay(FineTuning(nn.Linear(2, 2))).end_task()


# -- it helps ----------------------------------------------------------------------------------


def remembered(name: str, heads: bool, seed: int) -> float:
    """Accuracy on the first of three tasks after the last."""
    settings: dict[str, dict[str, Any]] = {}
    if "replay" in name:
        settings["replay"] = {"size": 100, "seed": seed}
    if "ewc" in name:  # by rule they keep so much that replay has little to add
        settings["ewc"] = {"strength": 30.0}
    if "ucl" in name:
        settings["ucl"] = {**BY_HAND, "ratio": 0.5}
    network = mlp(heads=heads, outputs=10, seed=seed)
    method = build(name, network, torch.zeros(1, 64), settings)
    tasks = permuted_digits(3, train=300)
    for task in tasks:
        begun = learn(method, task, epochs=5, lr=3e-3, optimizer=adam, seed=seed, end=False)
        problem.end(method, begun)  # with losses, which EWC needs
    return accuracy(method, tasks[0])


@pytest.mark.slow
@pytest.mark.parametrize("heads", [False, True], ids=["one head", "heads"])
@pytest.mark.parametrize("name", ["finetuning", "ewc", "ucl"])
def test_every_method_forgets_less_with_it(name: str, heads: bool) -> None:
    alone = mean(remembered(name, heads, seed) for seed in range(3))
    replayed = mean(remembered(f"{name}+replay", heads, seed) for seed in range(3))
    assert replayed > alone + 0.05


def numbered(first: int, count: int, task: int = 0) -> Data:
    """Examples that are their own number."""
    numbers = torch.arange(first, first + count)
    return Data(numbers[:, None].float(), numbers, task=task)


def chi_square(counts: Tensor, expected: float) -> float:
    return float(((counts - expected).square() / expected).sum())


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [(40,), (3, 17, 20)])
def test_every_example_of_the_stream_is_equally_likely_to_be_kept(pieces: tuple[int, ...]) -> None:
    size, runs = 8, 1500
    kept = torch.zeros(40)
    for seed in range(runs):
        memory = Reservoir(size, seed)
        begin = 0
        for count in pieces:
            memory.remember(numbered(begin, count))
            begin += count
        assert len(memory.targets.unique()) == size
        kept[memory.targets] += 1
    # 39 degrees of freedom, made smaller by drawing without replacement: mean 39 * 0.8
    assert chi_square(kept, runs * size / 40) < 62.4  # 1 in 100 for chi-square with 39


@pytest.mark.slow
def test_every_set_is_equally_likely() -> None:
    """More than single examples: all ten pairs out of five."""
    runs = 2000
    pairs = dict.fromkeys(itertools.combinations(range(5), 2), 0)
    for seed in range(runs):
        memory = Reservoir(2, seed)
        memory.remember(numbered(0, 5))
        first, second = sorted(memory.targets.tolist())
        pairs[first, second] += 1
    counts = torch.tensor(list(pairs.values())).float()
    assert chi_square(counts, runs / 10) < 21.7  # 1 in 100 for 9 degrees of freedom


def test_it_is_algorithm_r_one_example_at_a_time() -> None:
    """Oracle: the textbook loop with the same draws."""
    size, count, seed = 5, 60, 3
    memory = Reservoir(size, seed)
    memory.remember(numbered(0, count))
    draws = torch.rand(count, generator=generator(seed, "reservoir 0"), dtype=torch.float64)
    slots: list[int] = []
    for number in range(count):
        drawn = math.floor(draws[number].item() * (number + 1))
        if number < size:
            slots.append(number)
        elif drawn < size:
            slots[drawn] = number
    assert memory.targets.tolist() == slots
    assert memory.inputs.flatten().tolist() == slots
    assert memory.seen == count


def test_what_is_kept_is_what_the_network_saw() -> None:
    stored = torch.arange(20, dtype=torch.uint8)[:, None]
    labels = torch.tensor([7, 9])
    data = Data(
        stored, torch.arange(20) % 2, prepare=lambda x: x.float() / 10, labels=labels, task=4
    )
    memory = Reservoir(6)
    memory.remember(data)
    number = memory.inputs.flatten().mul(10).round().long()
    assert torch.equal(memory.inputs, number[:, None].float() / 10)
    assert torch.equal(memory.targets, labels[number % 2])
    assert memory.tasks.tolist() == [4] * 6


def test_examples_of_mixed_tasks_keep_their_numbers() -> None:
    memory = Reservoir(30)
    memory.remember(join([numbered(0, 10, task=0), numbered(10, 10, task=1)]))
    assert torch.equal(memory.tasks, memory.targets // 10)
    parts, places = memory.parts(torch.tensor([15, 2, 11]))
    assert [part.task for part in parts] == [0, 1]
    together = torch.cat([part.all_targets() for part in parts])
    assert together[places].tolist() == [15, 2, 11]


def test_a_loader_is_passed_by_batch_by_batch() -> None:
    memory = Reservoir(4)
    data = numbered(0, 30)
    batches = [data.batch(rows)[:2] for rows in torch.arange(30).split(7)]
    memory.remember(FromLoader(batches, task=2))
    assert memory.seen == 30
    assert torch.equal(memory.inputs.flatten().long(), memory.targets)
    assert memory.tasks.tolist() == [2] * 4


def test_it_grows_up_to_its_size_and_loads_into_an_empty_one() -> None:
    memory = Reservoir(5, seed=1)
    lengths = []
    for begin in (0, 2, 4, 6):
        memory.remember(numbered(begin, 2))
        lengths.append(len(memory))
    assert lengths == [2, 4, 5, 5]
    fresh = Reservoir(5, seed=1)
    fresh.load_state_dict(memory.state_dict())
    for each in (memory, fresh):
        each.remember(numbered(8, 50))
    assert all(torch.equal(a, b) for a, b in zip(memory.buffers(), fresh.buffers(), strict=True))
    empty = Reservoir(5, seed=1)
    memory.load_state_dict(empty.state_dict())
    assert len(memory) == 0


def test_what_is_drawn_can_be_looked_at_as_a_batch() -> None:
    memory = Reservoir(5)
    memory.remember(numbered(0, 5, task=3))
    batch = memory.batch(torch.tensor([4, 4, 1]))
    assert isinstance(batch, Batch)
    assert batch.targets.tolist() == [4, 4, 1]
    assert torch.as_tensor(batch.task).tolist() == [3, 3, 3]


def test_examples_of_another_shape_are_refused() -> None:
    memory = Reservoir(5)
    memory.remember(numbered(0, 5))
    with pytest.raises(DataError, match=r"holds inputs of shape \(1,\).*got \(2,\).*pad or resize"):
        memory.remember(Data(torch.zeros(100, 2), torch.zeros(100).long()))


def test_a_memory_without_room_is_refused() -> None:
    with pytest.raises(SettingError, match=r"`size` must be at least 1, got 0\. It is the"):
        Reservoir(0)
