"""One output layer that grows with the tasks: class-incremental learning."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.training.small import NAMES, SETTINGS, small_plan
from tests.training.test_session import CrashError, crash_after
from uclearn.errors import SettingError
from uclearn.methods.contract import Method
from uclearn.methods.registry import build
from uclearn.networks import mlp, run
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.tasks.data import generator
from uclearn.training import learn

COUNTS = (2, 3, 5)
"""Classes so far, by task: the second brings one, the third two."""


def clouds(task: int, count: int, seed: int) -> Data:
    """The classes that a task brings, each along an axis of its own."""
    before = (0, *COUNTS)[task]
    labels = before + torch.arange(count) % (COUNTS[task] - before)
    noise = torch.randn(count, 5, generator=generator(seed, f"clouds {task}"))
    return Data(3 * torch.eye(5)[labels] + 0.5 * noise, labels, task=task)


def growing(count: int = 48) -> TaskSequence:
    tasks = [
        Task(f"until {n}", k, clouds(k, count, 0), None, clouds(k, 30, 1), classes=n)
        for k, n in enumerate(COUNTS)
    ]
    return TaskSequence("clouds", tasks, heads=False)


def method(name: str) -> Method:
    return build(name, mlp(5, (12,), 2), torch.zeros(2, 5), SETTINGS.get(name, {}))


def first_rows() -> nn.Module:
    """A network with all five outputs, the first two those of `method`, the others drawn as they
    are when a task brings them."""
    whole, begun = mlp(5, (12,), 5), mlp(5, (12,), 2).state_dict()
    with torch.no_grad():
        for key, value in whole.state_dict().items():
            value[: len(begun[key])] = begun[key]
        for task, (low, high) in enumerate(((2, 3), (3, 5)), start=1):
            rows = torch.empty(high - low, 12)
            rows.uniform_(-(12**-0.5), 12**-0.5, generator=generator(0, f"outputs of task {task}"))
            whole[2].weight[low:high] = rows  # type: ignore[index]
        whole[2].bias[2:] = 0  # type: ignore[index]
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_growing_is_a_full_layer_of_which_nobody_sees_what_is_to_come(optimizer: str) -> None:
    """The oracle: all outputs from the start, those to come at minus infinity. A step sees a whole
    task, so that order is of no account."""
    plan = small_plan(epochs=8, batch_size=1000, optimizer=optimizer)
    grown = method("finetuning")
    learn(grown, growing(), plan)
    full = Method(first_rows())
    for task, seen in zip(growing(), COUNTS, strict=True):

        def loss(outputs: Tensor, targets: Tensor, seen: int = seen) -> Tensor:
            hidden = torch.arange(5) >= seen
            shown = outputs.masked_fill(hidden, -torch.inf)
            return nn.functional.cross_entropy(shown, targets, reduction="none")

        alone = Task(task.name, 0, task.train, None, task.test, classes=5)
        learn(full, TaskSequence("one", [alone], heads=False), plan, loss=loss)
    for key, value in full.model.state_dict().items():
        torch.testing.assert_close(grown.model.state_dict()[key], value)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "hat"])
def test_every_method_grows_and_is_resumed_to_the_bit(name: str, tmp_path: Path) -> None:
    plan = small_plan(epochs=2, checkpoint_seconds=0.0)
    calm = method(name)
    expected = learn(calm, growing(), plan)
    assert run(calm.model.eval(), torch.zeros(2, 5)).shape == (2, 5)
    known = [[value == value for value in row] for row in expected.accuracy_matrix]
    assert known == [[True, False, False], [True, True, False], [True, True, True]]
    for events in (7, 6, 5, 6):
        with pytest.raises(CrashError):
            learn(method(name), growing(), plan, folder=tmp_path, observer=crash_after(events))
    resumed = method(name)
    outcome = learn(resumed, growing(), plan, folder=tmp_path)
    assert repr(outcome.accuracy_matrix) == repr(expected.accuracy_matrix)
    for key, value in calm.state_dict().items():
        assert torch.equal(resumed.state_dict()[key], value), key


@pytest.mark.slow
def test_replay_tells_the_classes_of_all_tasks_apart() -> None:
    plan = small_plan(epochs=40, batch_size=16, lr=0.01)
    replayed = learn(method("finetuning+replay"), growing(), plan).accuracy_matrix[-1]
    forgotten = learn(method("finetuning"), growing(), plan).accuracy_matrix[-1]
    assert min(replayed) > 0.8
    assert forgotten[:2] == [0.0, 0.0]  # what is known of the newest classes drowns the others


def test_a_method_that_must_be_told_the_task_is_refused() -> None:
    told = build("hat", mlp(5, (12,), 2), torch.zeros(2, 5), {"hat": {"tasks": 3}})
    with pytest.raises(SettingError, match="HAT must be told which task an example is of"):
        learn(told, growing(), small_plan())
