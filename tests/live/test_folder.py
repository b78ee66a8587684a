"""What is saved is all of it, comes back without executing anything, and is never lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.live import months
from tests.live.months import QUICK, same, state
from uclearn.errors import CheckpointError, DataError, TaskError
from uclearn.live import folder as files
from uclearn.live.folder import MARKER_NAME
from uclearn.live.gate import Gate
from uclearn.live.journal import JOURNAL_NAME, read_journal
from uclearn.live.learner import Learner
from uclearn.methods.registry import METHODS
from uclearn.networks import MultiHead, mlp
from uclearn.storage.checkpoint import CHECKPOINT_NAME, load_latest, previous_of
from uclearn.storage.files import FolderBusyError, FolderLock, StorageError, aside_of
from uclearn.storage.sealed import read_sealed


def learner(method: str = "finetuning", **settings: Any) -> Learner:
    return months.learner(method, plan=QUICK, **settings)


def month(number: int, count: int = 48) -> tuple[Tensor, Tensor]:
    return months.month(number, count)


NAMES = [*METHODS, "ucl+replay", "vcl+coreset"]
SETTINGS = {"hat": {"tasks": 5}, "ucl+replay": {"size": 20}, "vcl+coreset": {"size": 20}}


class Own(nn.Module):
    """A class of a user's own, which no file can rebuild."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.inner = nn.Linear(4, width)
        self.outer = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.outer(self.inner(x).relu())
        return output


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("heads", [True, False], ids=["heads", "one head"])
def test_saved_and_loaded_it_goes_on_to_the_bit(name: str, heads: bool, tmp_path: Path) -> None:
    ours = learner(name, outputs=None if heads else 2, **SETTINGS.get(name, {}))
    gate = Gate(max_drop=0.99, canary=20)
    for k in range(2):
        ours.learn(month(k), f"month {k}", gate=gate)
    ours.save(tmp_path)
    other = Learner.load(tmp_path)
    assert same(state(ours), state(other))
    assert other.journal == ours.journal
    assert other.plan == ours.plan
    if name == "joint":  # it needs all data, and files hold none
        with pytest.raises(TaskError, match="needs the data of all tasks before it"):
            other.learn(month(2), "month 2")
        return
    left, right = (each.learn(month(2), "month 2", gate=gate) for each in (ours, other))
    assert left.compared == right.compared
    assert same(state(ours), state(other))
    for task in ours.tasks:
        assert torch.equal(ours.tasks[task].seen, other.tasks[task].seen)


def test_what_has_learned_nothing_yet_can_be_saved(tmp_path: Path) -> None:
    ours = learner("ucl", beta=0.02)
    ours.save(tmp_path)
    other = Learner.load(tmp_path)
    for each in (ours, other):
        each.learn(month(0), "january")
    assert same(state(ours), state(other))


def test_a_class_of_ones_own_is_handed_in(tmp_path: Path) -> None:
    ours = Learner(Own(), "ucl", plan=QUICK)
    ours.learn(month(0), "january")
    ours.save(tmp_path)
    with pytest.raises(
        CheckpointError,
        match=r"The network is a .*test_folder.Own, which cannot be rebuilt from a file: loading "
        r"executes no code. Hand in a freshly built one: `Learner.load\(folder, model=...\)`.",
    ):
        Learner.load(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"it differs in inner.bias \(\[13\] instead of \[12\]\)"
    ):
        Learner.load(tmp_path, model=Own(13))
    assert same(state(ours), state(Learner.load(tmp_path, model=Own())))


@pytest.mark.parametrize("own", [True, False], ids=["own class", "described"])
def test_a_network_that_grew_is_rebuilt_as_large(own: bool, tmp_path: Path) -> None:
    ours = Learner(Own() if own else mlp(4, (12,), 2), "ucl", plan=QUICK)
    ours.learn(month(0), "january")
    ours.widen(2.0)
    x, y = month(1)
    ours.learn((x, y + 1), "february", classes=3)
    ours.save(tmp_path)
    for name in ("march", "april"):
        other = Learner.load(tmp_path, model=Own() if own else None)
        assert same(state(ours), state(other))
        other.learn(month(2), name)
        ours.learn(month(2), name)
        assert same(state(ours), state(other))
        ours.save(tmp_path)


def test_a_widened_network_with_heads_is_rebuilt_as_large(tmp_path: Path) -> None:
    ours = learner("ucl")
    ours.learn(month(0), "january")
    ours.widen({"trunk.0": 5})
    ours.learn(month(1), "february")
    ours.save(tmp_path)
    other = Learner.load(tmp_path)
    assert isinstance(other.method.model, MultiHead)
    assert other.method.model.features == 17
    for each in (ours, other):
        each.learn(month(2), "march")
    assert same(state(ours), state(other))


def test_a_loss_of_ones_own_is_handed_in(tmp_path: Path) -> None:
    def own(outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets, reduction="none")

    ours = Learner(mlp(4, (12,), 2), "ewc", plan=QUICK, loss=own)
    ours.learn(month(0), "january")
    ours.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"a loss of its own, .*own, which no file can hold"):
        Learner.load(tmp_path)
    assert Learner.load(tmp_path, loss=own).loss is own


def test_no_file_is_a_pickle(tmp_path: Path) -> None:
    ours = learner("ucl")
    ours.learn(month(0), "january", gate=Gate())
    ours.save(tmp_path)
    import safetensors.torch

    names = {path.name for path in tmp_path.iterdir()}
    assert names == {MARKER_NAME, CHECKPOINT_NAME, JOURNAL_NAME, ".lock"}
    assert safetensors.torch.load_file(tmp_path / CHECKPOINT_NAME)
    assert read_sealed(tmp_path / MARKER_NAME) == {"format": "uclearn.learner", "version": 2}


def test_what_a_killed_process_left_aside_is_swept_at_the_next_save(tmp_path: Path) -> None:
    first = learner()
    first.learn(month(0), "january")
    first.save(tmp_path)
    left = aside_of(tmp_path / CHECKPOINT_NAME)
    left.touch()
    first.save(tmp_path)
    assert not left.exists()


def test_a_folder_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    ours = learner()
    ours.learn(month(0), "january")
    ours.save(tmp_path)
    (tmp_path / MARKER_NAME).write_text('{"format": "uclearn.learner", "version": 3}')
    before = (tmp_path / CHECKPOINT_NAME).read_bytes()
    text = (
        "was written by a newer uclearn: its version is 3, this one knows up to 2. Update uclearn"
    )
    with pytest.raises(CheckpointError, match=text):
        Learner.load(tmp_path)
    with pytest.raises(CheckpointError, match=text):
        ours.save(tmp_path)
    assert (tmp_path / CHECKPOINT_NAME).read_bytes() == before


def test_an_empty_folder_says_what_makes_a_learner(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"There is no learner in .*`Learner.save\(folder\)`"):
        Learner.load(tmp_path)


def test_a_damaged_state_gives_way_to_the_one_before(tmp_path: Path) -> None:
    ours = learner()
    ours.learn(month(0), "january")
    ours.save(tmp_path)
    first = state(ours)
    ours.learn(month(1), "february")
    ours.save(tmp_path)
    path = tmp_path / CHECKPOINT_NAME
    path.write_bytes(path.read_bytes()[:-5])
    assert previous_of(path).exists()
    other = Learner.load(tmp_path)
    assert other.note is not None
    assert "cut short" in other.note
    assert same(state(other), first)
    assert list(other.tasks) == ["january"]
    assert [line["name"] for line in other.journal] == ["january", "february"]
    other.learn(month(1), "february")
    other.save(tmp_path)
    assert [line["number"] for line in read_journal(tmp_path)] == [1, 2, 3]


def test_where_only_the_state_before_is_left_it_goes_on(tmp_path: Path) -> None:
    ours = learner()
    for number, name in enumerate(["january", "february"]):
        ours.learn(month(number), name)
        ours.save(tmp_path)
    (tmp_path / CHECKPOINT_NAME).unlink()
    other = Learner.load(tmp_path)
    assert list(other.tasks) == ["january"]
    other.save(tmp_path)
    assert list(Learner.load(tmp_path).tasks) == ["january"]


def test_a_place_that_cannot_be_a_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"Could not make .*file: .* Choose another place."):
        learner().save(tmp_path / "file")


def test_the_journal_only_grows(tmp_path: Path) -> None:
    ours = learner()
    ours.learn(month(0), "january")
    ours.save(tmp_path)
    first = (tmp_path / JOURNAL_NAME).read_bytes()
    ours.learn(month(1), "february")
    ours.save(tmp_path)
    ours.save(tmp_path)
    whole = (tmp_path / JOURNAL_NAME).read_bytes()
    assert whole.startswith(first)
    assert [line["name"] for line in read_journal(tmp_path)] == ["january", "february"]


def test_a_first_save_that_failed_does_not_block_the_folder(tmp_path: Path) -> None:
    (tmp_path / MARKER_NAME).write_text('{"format": "uclearn.learner", "version": 1}')
    with Learner.open(tmp_path, new=learner) as ours:
        ours.learn(month(0), "january")
    assert list(Learner.load(tmp_path).tasks) == ["january"]


def test_an_update_made_while_loading_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner().save(tmp_path)

    def slow(folder: Path, kind: str) -> Any:
        found = load_latest(folder, kind)
        monkeypatch.undo()
        other = Learner.load(tmp_path)
        other.learn(month(0), "january")
        other.save(tmp_path)
        return found

    monkeypatch.setattr(files, "load_latest", slow)
    ours = Learner.load(tmp_path)
    with pytest.raises(CheckpointError, match="was saved to by somebody else"):
        ours.save(tmp_path)


def test_another_learner_is_not_overwritten(tmp_path: Path) -> None:
    learner().save(tmp_path)
    with pytest.raises(CheckpointError, match="holds another learner, which would be lost"):
        learner().save(tmp_path)


def test_an_update_made_meanwhile_is_not_undone(tmp_path: Path) -> None:
    learner().save(tmp_path)
    ours, other = Learner.load(tmp_path), Learner.load(tmp_path)
    other.learn(month(0), "january")
    other.save(tmp_path)
    ours.learn(month(1), "february")
    with pytest.raises(
        CheckpointError, match="was saved to by somebody else since this learner was loaded"
    ):
        ours.save(tmp_path)
    assert list(Learner.load(tmp_path).tasks) == ["january"]


@pytest.mark.slow
def test_two_processes_cannot_learn_in_one_folder(tmp_path: Path) -> None:
    learner().save(tmp_path)
    code = """
import sys
from uclearn.live.learner import Learner
with Learner.open(sys.argv[1]):
    print("in", flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        text = rf"is in use by process {process.pid} \(learning\).*Wait until it has ended"
        with pytest.raises(FolderBusyError, match=text), Learner.open(tmp_path):
            pass
        with pytest.raises(FolderBusyError, match=text):
            learner().save(tmp_path)
        assert list(Learner.load(tmp_path).tasks) == []  # to predict, one may look on
        process.communicate("")
    with Learner.open(tmp_path) as ours:
        ours.learn(month(0), "january")
    assert list(Learner.load(tmp_path).tasks) == ["january"]


def test_an_open_folder_is_not_saved_after_an_error(tmp_path: Path) -> None:
    learner().save(tmp_path)
    before = (tmp_path / CHECKPOINT_NAME).stat()
    with pytest.raises(DataError), Learner.open(tmp_path) as ours:
        ours.learn((torch.zeros(0, 4), torch.zeros(0)), "january")
    assert (tmp_path / CHECKPOINT_NAME).stat() == before
    with FolderLock(tmp_path, "test"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_fills_up_in_the_middle_of_a_save_keeps_the_old_state(tmp_path: Path) -> None:
    """A real one of 80 kB; the canary of the new task alone is larger than what is left of it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=80k", "tmpfs", str(disk)], check=False
    )
    if size.returncode:
        pytest.skip("this system does not let root mount")
    try:
        ours = learner("ucl")
        ours.learn(month(0), "january", gate=Gate(canary=20))
        folder = disk / "machines"
        ours.save(folder)
        saved = state(ours)
        ours.learn(month(1, 3100), "february", gate=Gate(canary=3000, max_drop=0.99))
        with pytest.raises(StorageError, match=r"No space left on device. What stood there before"):
            ours.save(folder)
        other = Learner.load(folder)
        assert same(state(other), saved)
        assert list(other.tasks) == ["january"]
        assert [line["name"] for line in read_journal(folder)] == ["january"]
        assert not list(folder.glob(".*.tmp"))
        ours.tasks["february"] = other.tasks["january"]  # something smaller can be saved again
        ours.save(folder)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_file_that_may_not_grow_keeps_the_old_state(tmp_path: Path) -> None:
    """The same without root: the system stops each file at 20 kB."""
    ours = learner("ucl")
    ours.learn(month(0), "january")
    ours.save(tmp_path)
    saved = state(ours)
    canaries = {"january": month(9), "february": 900}
    ours.learn(month(1, 1000), "february", gate=Gate(canary=canaries, max_drop=0.99))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(
            StorageError, match=r"File too large. What stood there before is untouch"
        ):
            ours.save(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert same(state(Learner.load(tmp_path)), saved)
    ours.save(tmp_path)
    assert same(state(Learner.load(tmp_path)), state(ours))
