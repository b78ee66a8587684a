"""Saving, resuming, stopping; what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.small import NAMES, small_method, small_plan, small_tasks
from uclearn.errors import CheckpointError, TaskError
from uclearn.methods.contract import Method
from uclearn.methods.registry import build
from uclearn.networks import mlp
from uclearn.storage.checkpoint import CHECKPOINT_NAME
from uclearn.storage.files import read_jsonl
from uclearn.storage.recorder import open_run
from uclearn.tasks import TaskSequence
from uclearn.training import StoppedError, learn


class CrashError(Exception):
    """Not an error of uclearn: what a crash looks like from outside."""


def crash_after(events: int) -> Any:
    left = [events]

    def observe(event: str, details: dict[str, Any]) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise CrashError

    return observe


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("heads", [True, False], ids=["heads", "one head"])
def test_resumed_anywhere_it_ends_the_same(name: str, heads: bool, tmp_path: Path) -> None:
    tasks = small_tasks(heads)
    plan = small_plan(epochs=2, checkpoint_seconds=0.0)
    calm = small_method(name, heads)
    expected = learn(calm, tasks, plan)
    for events in (3, 6, 5):  # crashes right after a save, an epoch or an evaluation
        with pytest.raises(CrashError):
            learn(
                small_method(name, heads),
                tasks,
                plan,
                folder=tmp_path,
                observer=crash_after(events),
            )
    resumed = small_method(name, heads)
    outcome = learn(resumed, tasks, plan, folder=tmp_path)
    assert repr(outcome.accuracy_matrix) == repr(expected.accuracy_matrix)
    for key, value in calm.state_dict().items():
        assert torch.equal(resumed.state_dict()[key], value), key


def test_a_method_that_waits_is_judged_once_it_has_learned(tmp_path: Path) -> None:
    """Crashes before, at and after the last task change nothing."""

    def waiting() -> Method:
        settings = {"joint": {"once": True, "tasks": 3}}
        return build("joint", mlp(2, (8, 8), None, seed=0), torch.zeros(1, 2), settings)

    tasks, plan = small_tasks(), small_plan(epochs=12, patience=None, checkpoint_seconds=0.0)
    calm = waiting()
    expected = learn(calm, tasks, plan)
    *before, last = expected.accuracy_matrix
    assert all(isnan(score) for row in before for score in row)
    assert len(before) == 2
    assert min(last) > 0.9
    for events in (4, 8, 12):
        with pytest.raises(CrashError):
            learn(waiting(), tasks, plan, folder=tmp_path, observer=crash_after(events))
    resumed = waiting()
    assert repr(learn(resumed, tasks, plan, folder=tmp_path).accuracy_matrix[-1]) == repr(last)
    for key, value in calm.state_dict().items():
        assert torch.equal(resumed.state_dict()[key], value), key


def test_a_task_without_examples_is_refused() -> None:
    first, *others = small_tasks()
    empty = replace(first, train=first.train.subset(torch.arange(0)))
    tasks = TaskSequence("one is empty", [empty, *others], heads=True)
    with pytest.raises(TaskError, match=r"'turn 0' has no examples to train on\. Leave it out"):
        learn(small_method("ucl"), tasks, small_plan())


def test_a_finished_session_is_not_learned_again(tmp_path: Path) -> None:
    tasks, plan = small_tasks(), small_plan()
    first = learn(small_method("ucl"), tasks, plan, folder=tmp_path)
    told: list[str] = []
    again = learn(
        small_method("ucl"), tasks, plan, folder=tmp_path, observer=lambda e, d: told.append(e)
    )
    assert told == ["resumed", "finished"]
    assert repr(again.accuracy_matrix) == repr(first.accuracy_matrix)


def test_a_list_of_tasks_does_not_say_whether_there_are_heads() -> None:
    tasks: Any = list(small_tasks(heads=True))
    with pytest.raises(TaskError, match=r"must be a TaskSequence, got list.*heads=True"):
        learn(small_method("finetuning", heads=True), tasks, small_plan())


def test_another_sessions_checkpoint_is_refused(tmp_path: Path) -> None:
    learn(small_method("ewc"), small_tasks(), small_plan(), folder=tmp_path)
    with pytest.raises(CheckpointError, match="belongs to another session: it differs in method"):
        learn(small_method("si"), small_tasks(), small_plan(), folder=tmp_path)
    with pytest.raises(CheckpointError, match="it differs in lr"):
        learn(small_method("ewc"), small_tasks(), small_plan(lr=0.5), folder=tmp_path)


def test_a_damaged_checkpoint_falls_back_and_says_so(tmp_path: Path) -> None:
    tasks, plan = small_tasks(), small_plan(checkpoint_seconds=0.0)
    expected = learn(small_method("ucl"), tasks, plan)
    learn(small_method("ucl"), tasks, plan, folder=tmp_path)
    file = tmp_path / CHECKPOINT_NAME
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    notes: list[Any] = []

    def observe(event: str, details: dict[str, Any]) -> None:
        if event == "resumed":
            notes.append(details["note"])

    outcome = learn(small_method("ucl"), tasks, plan, folder=tmp_path, observer=observe)
    assert "Continuing from the one before it" in notes[0]
    assert repr(outcome.accuracy_matrix) == repr(expected.accuracy_matrix)


def test_the_journal_of_a_resumed_session_has_no_doubles(tmp_path: Path) -> None:
    tasks, plan = small_tasks(), small_plan(checkpoint_seconds=0.0)
    for folder, crashes in (("calm", []), ("crashed", [5, 9])):
        for events in [*crashes, 10**9]:
            with open_run(tmp_path / folder, {}, "test") as run:
                try:
                    learn(
                        small_method("ucl"),
                        tasks,
                        plan,
                        folder=run.folder,
                        journal=run,
                        observer=crash_after(events),
                    )
                except CrashError:
                    continue
    calm = read_jsonl(tmp_path / "calm" / "events.jsonl")
    assert read_jsonl(tmp_path / "crashed" / "events.jsonl") == calm
    assert [event["event"] for event in calm].count("evaluation") == 3


@pytest.mark.slow
def test_ctrl_c_finishes_the_step_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from tests.training.small import small_method, small_plan, small_tasks
        from uclearn.training import StoppedError, learn
        plan = small_plan(epochs=100_000)
        try:
            learn(small_method("ucl"), small_tasks(), plan, folder=Path(sys.argv[1]),
                  observer=lambda event, details: print(event, flush=True))
        except StoppedError as stopped:
            print(stopped)
            sys.exit(3)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line == "step\n":
                break
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
        assert child.wait(timeout=600) == 3
    assert f"the state is saved in {tmp_path}. The same call (or command) goes on" in rest
    assert (tmp_path / CHECKPOINT_NAME).exists()
    plan = small_plan(epochs=100_000)
    told: list[str] = []

    def observe(event: str, details: dict[str, Any]) -> None:
        told.append(event)
        if event == "epoch":
            raise CrashError

    with pytest.raises(CrashError):
        learn(small_method("ucl"), small_tasks(), plan, folder=tmp_path, observer=observe)
    assert told[0] == "resumed"


def test_stopped_is_an_error_of_this_library() -> None:
    from uclearn.errors import UclearnError

    assert issubclass(StoppedError, UclearnError)
