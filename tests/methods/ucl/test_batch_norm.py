"""Running statistics: gathered under noise, re-estimated with the means, shared or kept or frozen.

The networks here draw their noise weight by weight, with a large sigma, so that statistics under
noise and with the means differ plainly.
"""

from __future__ import annotations

import copy
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from tests.paper_ucl import paper_ucl
from uclearn import UCL
from uclearn.errors import TaskError
from uclearn.methods.ucl import Hold
from uclearn.methods.ucl.batch_norm import BatchNormStatistics
from uclearn.tasks import Data, Task

SETTINGS: list[BatchNormStatistics] = ["shared", "per-task", "frozen"]
GENERATOR = torch.Generator().manual_seed(3)
TASKS = [
    torch.randn(4, 16, 5, generator=GENERATOR),  # four batches of 16
    torch.randn(4, 16, 5, generator=GENERATOR) * 3 + 1,
]


def build(batch_norm: BatchNormStatistics = "shared", hold: Hold = "weights") -> UCL:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
    settings: dict[str, Any] = {"sigma": 1.0, "sampling": "weight", "batch_norm": batch_norm}
    return paper_ucl(net, TASKS[0][0], hold=hold, **settings)


def norm(method: UCL) -> nn.BatchNorm1d:
    layer = method.model.get_submodule("1")
    assert isinstance(layer, nn.BatchNorm1d)
    return layer


def statistics(method: UCL) -> Tensor:
    """(2, features): running means and variances."""
    layer = norm(method)
    assert layer.running_mean is not None
    assert layer.running_var is not None
    return torch.stack([layer.running_mean, layer.running_var]).clone()


def by_hand(method: UCL, batches: Tensor) -> Tensor:
    """What the mean weights put into the batch norm: averages over batches of mean and variance."""
    layer = method.model.get_submodule("0")
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        entering = [x @ layer.weight.T + layer.bias for x in batches]
    return torch.stack(
        [
            torch.stack([x.mean(0) for x in entering]).mean(0),
            torch.stack([x.var(0) for x in entering]).mean(0),
        ]
    )


def pass_through(method: UCL, batches: Tensor, move: float = 0.0) -> None:
    """A task without an optimiser: noisy forward passes, and weights that end up elsewhere."""
    for x in batches:
        method.model(x)
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.add_(move)


@pytest.mark.parametrize("batch_norm", SETTINGS)
@pytest.mark.parametrize("hold", get_args(Hold))
def test_a_loop_that_names_no_inputs_ends_with_those_it_trained_on(
    hold: Hold, batch_norm: BatchNormStatistics
) -> None:
    method = build(batch_norm, hold=hold)
    pass_through(method, TASKS[0], move=0.1)
    under_noise = statistics(method)
    method.end_task()
    torch.testing.assert_close(statistics(method), by_hand(method, TASKS[0]))
    assert not torch.allclose(statistics(method), under_noise, rtol=0.05)


@pytest.mark.parametrize("batch_norm", SETTINGS)
def test_a_task_ends_with_the_statistics_of_the_mean_weights(
    batch_norm: BatchNormStatistics,
) -> None:
    method = build(batch_norm)
    pass_through(method, TASKS[0])
    under_noise = statistics(method)
    method.end_task(inputs=TASKS[0])
    torch.testing.assert_close(statistics(method), by_hand(method, TASKS[0]))
    assert not torch.allclose(statistics(method), under_noise, rtol=0.05)
    assert method.model.training
    assert norm(method).momentum == 0.1


def test_a_task_brings_its_inputs_itself() -> None:
    method, data = build(), TASKS[0].flatten(0, 1)
    task = Task("first", 0, Data(data, torch.zeros(64, dtype=torch.int64)))
    method.end_task(task)
    torch.testing.assert_close(statistics(method), by_hand(method, data[None]))


def test_shared_statistics_are_those_of_the_latest_task() -> None:
    method = build("shared")
    for batches in TASKS:
        pass_through(method, batches)
        method.end_task(inputs=batches)
    torch.testing.assert_close(statistics(method), by_hand(method, TASKS[1]))
    x = TASKS[0][0]
    with method.inference(0) as first:
        predicted = first(x)
    with method.inference(1) as second:
        assert torch.equal(second(x), predicted)


def test_per_task_statistics_serve_their_own_task() -> None:
    method = build("per-task")
    left = []
    for batches in TASKS:
        pass_through(method, batches, move=0.1)
        method.end_task(inputs=batches)
        left.append(statistics(method))
    assert not torch.allclose(left[0], left[1], rtol=0.1)
    x = TASKS[0][0]
    for task, own in enumerate(left):
        expected = copy.deepcopy(method.model).eval()
        copied = expected.get_submodule("1")
        copied.running_mean, copied.running_var = own[0], own[1]
        with method.inference(task) as net:
            assert torch.equal(net(x), expected(x))
            assert torch.equal(statistics(method), own)
        assert torch.equal(statistics(method), left[-1])  # lent, and given back


def test_a_task_that_has_not_ended_is_served_by_the_statistics_of_the_moment() -> None:
    method = build("per-task")
    method.end_task(inputs=TASKS[0])
    pass_through(method, TASKS[1])
    now = statistics(method)
    for task in (None, 1):
        with method.inference(task):
            assert torch.equal(statistics(method), now)


def test_frozen_statistics_stay_as_the_first_task_left_them() -> None:
    method = build("frozen")
    before = statistics(method)
    pass_through(method, TASKS[0])
    assert not torch.equal(statistics(method), before)  # still free
    method.end_task(inputs=TASKS[0])
    left = statistics(method)
    pass_through(method, TASKS[1])
    method.end_task()  # there is nothing to estimate, so it needs no inputs
    pass_through(method, TASKS[1])
    assert torch.equal(statistics(method), left)


def test_frozen_statistics_are_used_while_training_too() -> None:
    """One example's output then depends on no other example."""
    method = build("frozen")
    method.end_task(inputs=TASKS[0])
    start = method.noise.state
    together = method.model(TASKS[1][0])
    method.noise.state = start
    torch.testing.assert_close(method.model(TASKS[1][0][:3]), together[:3])


@pytest.mark.parametrize("way", ["state_dict", "deepcopy"])
def test_frozen_stays_frozen_through(way: str) -> None:
    method = build("frozen")
    method.end_task(inputs=TASKS[0])
    if way == "state_dict":
        other = build("frozen")
        other.load_state_dict(method.state_dict())
    else:
        other = copy.deepcopy(method)
    left = statistics(other)
    assert torch.equal(other.model(TASKS[1][0]), method.model(TASKS[1][0]))
    pass_through(other, TASKS[1])
    assert torch.equal(statistics(other), left)


def test_a_state_from_before_the_first_end_of_a_task_thaws() -> None:
    method = build("frozen")
    early = copy.deepcopy(method.state_dict())
    method.end_task(inputs=TASKS[0])
    method.load_state_dict(early)
    pass_through(method, TASKS[0])
    assert not torch.equal(statistics(method), early["model.1.running_mean"])
    method.end_task(inputs=TASKS[1])
    torch.testing.assert_close(statistics(method), by_hand(method, TASKS[1]))


def test_export_takes_the_statistics_along() -> None:
    method = build("frozen")
    method.end_task(inputs=TASKS[0])
    plain = method.export()
    assert type(plain.get_submodule("1")) is nn.BatchNorm1d
    with method.inference() as net:
        assert torch.equal(plain(TASKS[1][0]), net(TASKS[1][0]))
    plain.train()(TASKS[1][0])  # an ordinary batch norm again: it follows its batches
    assert not torch.equal(plain.get_buffer("1.running_mean"), statistics(method)[0])


# -- what cannot be done -----------------------------------------------------------------------


def assert_nothing_changed(method: UCL, twin: UCL) -> None:
    ours, theirs = method.state_dict(), twin.state_dict()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert norm(method).momentum == 0.1
    assert all(module.training for module in method.model.modules())


def test_a_batch_norm_model_that_was_given_nothing_cannot_end_a_task() -> None:
    method = build()
    twin = copy.deepcopy(method)
    with pytest.raises(TaskError) as caught:
        method.end_task()
    assert str(caught.value) == (
        "Running statistics of batch norms were gathered under weight noise and must be averaged "
        "anew over batches of the finished task, but there was none: no `task`, no `inputs`, and "
        "the model was not called in training mode. Pass batches of the task's inputs, "
        "`method.end_task(inputs=[x1, x2, ...])`."
    )
    assert_nothing_changed(method, twin)


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        ([], TaskError, "must be averaged anew over batches of the finished task"),
        ([torch.zeros(4, 9)], RuntimeError, "mat1 and mat2 shapes cannot be multiplied"),
        ([torch.zeros(1, 5)], ValueError, "Expected more than 1 value per channel"),
        ([torch.full((4, 5), torch.nan)], TaskError, "`inputs` must be finite"),
    ],
    ids=["none", "wrong shape", "one example", "NaN"],
)
@pytest.mark.parametrize("batch_norm", SETTINGS)
def test_when_statistics_cannot_be_gathered_nothing_is_half_done(
    batch_norm: BatchNormStatistics, inputs: list[Tensor], error: type[Exception], text: str
) -> None:
    method = build(batch_norm)
    pass_through(method, TASKS[0], move=0.1)
    twin = copy.deepcopy(method)
    with pytest.raises(error, match=text):
        method.end_task(inputs=[*inputs])
    assert_nothing_changed(method, twin)


def test_a_batch_norm_without_running_statistics_needs_no_inputs() -> None:
    net = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6, track_running_stats=False))
    method = paper_ucl(net, TASKS[0][0])
    method.end_task()
    assert method.tasks_done == 1
