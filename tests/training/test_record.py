"""A session of one's own program leaves the folder that the commands read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from uclearn.errors import SettingError
from uclearn.methods.contract import Method
from uclearn.methods.registry import build
from uclearn.networks import mlp
from uclearn.storage.records import find_runs, read_run
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.training import Plan, learn

PLAN = Plan(epochs=2, batch_size=8, lr=0.01)


def sequence(shift: float = 0.0) -> TaskSequence:
    draw = torch.Generator().manual_seed(0)
    tasks = []
    for index in range(2):
        x = torch.randn(24, 3, generator=draw) + shift
        data = Data(x, (x[:, index] > shift).long(), task=index)
        tasks.append(Task(f"task {index}", index, data, test=data, classes=2))
    return TaskSequence("my tasks", tasks, heads=True)


def method(name: str = "ewc", **settings: object) -> Method:
    return build(name, mlp(3, (6,), None), torch.zeros(1, 3), {name.split("+")[0]: settings})


def test_the_folder_says_what_was_found(tmp_path: Path) -> None:
    outcome = learn(method(), sequence(), PLAN, record=tmp_path)
    (folder,) = find_runs(tmp_path)
    run = read_run(folder)
    assert folder.relative_to(tmp_path).parts[0] == "my-tasks"
    assert run.summary is not None
    assert run.summary.accuracy_matrix[1] == outcome.accuracy_matrix[1]
    assert (run.config["method"], run.config["settings"]["ewc"]["strength"]) == ("ewc", "auto")
    assert [e["event"] for e in run.events].count("epoch") == 4


def test_called_again_it_is_done_and_the_method_has_learned(tmp_path: Path) -> None:
    first, again = method("ucl"), method("ucl")
    one = learn(first, sequence(), PLAN, record=tmp_path)
    told: list[str] = []
    two = learn(again, sequence(), PLAN, record=tmp_path, observer=lambda e, d: told.append(e))
    assert "epoch" not in told
    assert one.accuracy_matrix[1] == two.accuracy_matrix[1]
    state = first.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in again.state_dict().items())
    assert len(find_runs(tmp_path)) == 1


def test_other_settings_tasks_or_seeds_are_other_runs(tmp_path: Path) -> None:
    learn(method(strength=1.0), sequence(), PLAN, record=tmp_path)
    learn(method(strength=2.0), sequence(), PLAN, record=tmp_path)
    learn(method(strength=1.0), sequence(shift=1.0), PLAN, record=tmp_path)
    learn(method("ewc+replay"), sequence(), PLAN, record=tmp_path)
    learn(method(strength=1.0), sequence(), Plan(2, 8, 0.01, seed=1), record=tmp_path)
    names = sorted(folder.relative_to(tmp_path).parts[1:] for folder in find_runs(tmp_path))
    assert len(names) == 5
    assert len({group for group, _ in names}) == 4  # the seeds are neighbours


def test_it_has_a_folder_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="`record` has a folder"):
        learn(method(), sequence(), PLAN, record=tmp_path, folder=tmp_path)
