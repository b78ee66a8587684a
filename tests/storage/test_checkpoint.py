import copy
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.storage.states import same
from uclearn.errors import CheckpointError
from uclearn.storage.checkpoint import (
    CHECKPOINT_NAME,
    has_checkpoint,
    load,
    load_latest,
    load_own,
    previous_of,
    save,
)
from uclearn.storage.files import StorageError

CRASHES = [sys.executable, str(Path(__file__).with_name("crashes.py"))]


def state(number: int) -> dict[str, Any]:
    return {"number": number, "tensor": torch.full((100,), number)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder with checkpoint 2 and, as the previous, checkpoint 1."""
    path = tmp_path / CHECKPOINT_NAME
    save(path, state(1), "run")
    save(path, state(2), "run")
    return path


def test_the_present_and_the_previous(path: Path) -> None:
    assert same(load(path, "run"), state(2))
    assert same(load(previous_of(path), "run"), state(1))
    assert load_latest(path.parent, "run")[1] is None
    save(path, state(3), "run", sync=False)
    assert same(load(path, "run"), state(3))
    assert same(load(previous_of(path), "run"), state(2))
    assert len(list(path.parent.iterdir())) == 2


def test_the_folder_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert not has_checkpoint(folder)
    save(folder / CHECKPOINT_NAME, state(1), "run")
    assert has_checkpoint(folder)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, noise: torch.Generator) -> None:
    for _ in range(3):
        inputs = torch.randn(8, 5, generator=noise)
        loss: torch.Tensor = model(inputs).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_training_goes_on_from_a_checkpoint_as_if_never_interrupted(tmp_path: Path) -> None:
    def build() -> tuple[nn.Module, torch.optim.Optimizer, torch.Generator]:
        model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        return model, torch.optim.Adam(model.parameters(), amsgrad=True), torch.Generator()

    model, optimizer, noise = build()
    train(model, optimizer, noise)
    stored = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "noise": noise.get_state(),
    }
    save(tmp_path / CHECKPOINT_NAME, stored, "run")
    train(model, optimizer, noise)

    again, optimizer_again, noise_again = build()
    loaded, _ = load_latest(tmp_path, "run")
    again.load_state_dict(loaded["model"])
    optimizer_again.load_state_dict(loaded["optimizer"])
    noise_again.set_state(loaded["noise"])
    train(again, optimizer_again, noise_again)
    assert same(dict(again.state_dict()), dict(model.state_dict()))
    assert same(optimizer_again.state_dict(), optimizer.state_dict())


@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign", "empty", "other kind", "a folder"])
def test_the_previous_is_used_and_it_is_said(path: Path, damage: str) -> None:
    data = path.read_bytes()
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    elif damage == "other kind":
        shutil.move(previous_of(path), path.with_name("kept"))
        save(path, state(2), "method")
        shutil.move(path.with_name("kept"), previous_of(path))
    else:
        flipped = data[:-1] + bytes([data[-1] ^ 1])
        contents = {"cut": data[:-1], "flipped": flipped, "foreign": b"{}", "empty": b""}
        path.write_bytes(contents[damage])
    reason = {
        "cut": f"it is cut short: {len(data) - 1} bytes instead of {len(data)}",
        "flipped": "its contents do not match their digest: it is damaged",
        "foreign": "it is not a safetensors file",
        "empty": "it is empty",
        "other kind": "it holds a 'method', not a 'run'",
        "a folder": f"[Errno 21] Is a directory: '{path}'",
    }[damage]
    loaded, note = load_latest(path.parent, "run")
    assert same(loaded, state(1))
    assert note == (
        f"Checkpoint {path} cannot be used: {reason}. Continuing from the one before it, "
        f"{previous_of(path)}."
    )
    with pytest.raises(CheckpointError) as caught:
        load(path, "run")
    assert str(caught.value) == (
        f"Checkpoint {path} cannot be used: {reason}. Restore one from a copy, or start afresh in "
        "an empty folder."
    )


def test_a_missing_present_falls_back_too(path: Path) -> None:
    path.unlink()
    assert has_checkpoint(path.parent)
    loaded, note = load_latest(path.parent, "run")
    assert same(loaded, state(1))
    assert (
        note
        == f"There is no checkpoint {path}. Continuing from the one before it, {previous_of(path)}."
    )


def test_damage_anywhere_is_either_refused_or_falls_back(path: Path) -> None:
    data = path.read_bytes()
    draw = random.Random(0)
    lengths = draw.sample(range(len(data)), 60)
    positions = draw.sample(range(len(data)), 200)
    flips = [data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :] for at in positions]
    for damaged in [data[:length] for length in lengths] + flips:
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="cannot be used: it"):
            load(path, "run")
        loaded, note = load_latest(path.parent, "run")
        assert same(loaded, state(1))
        assert note is not None


def test_both_reasons_are_given_when_nothing_is_left(path: Path) -> None:
    path.write_bytes(b"")
    previous_of(path).write_bytes(b"nonsense")
    with pytest.raises(CheckpointError) as caught:
        load_latest(path.parent, "run")
    assert str(caught.value) == (
        f"Checkpoint {path} cannot be used: it is empty. Checkpoint {previous_of(path)} cannot be "
        "used: it is not a safetensors file. Restore one from a copy, or start afresh in an empty "
        "folder."
    )


def test_a_folder_without_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=rf"There is no checkpoint {tmp_path}.*previous"):
        load_latest(tmp_path, "run")


def test_a_state_that_cannot_be_saved_touches_nothing(path: Path) -> None:
    with pytest.raises(CheckpointError, match="must be a dict, list"):
        save(path, {"a": {1, 2}}, "run")
    assert load_latest(path.parent, "run")[1] is None
    assert len(list(path.parent.iterdir())) == 2


@pytest.mark.parametrize("call", ["write", "fsync", "link"])
def test_a_full_disk_leaves_both_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        if call == "link":
            patch.setattr(shutil, "copyfile", full)
        with pytest.raises(
            StorageError, match=r"No space left on device\. .*check|free some space"
        ):
            save(path, state(3), "run")
    assert same(load(path, "run"), state(2))
    assert same(load(previous_of(path), "run"), state(1))
    assert len(list(path.parent.iterdir())) == 2
    save(path, state(3), "run")
    assert same(load(path, "run"), state(3))


def test_an_interrupt_leaves_both_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(path, state(3), "run")
    assert same(load(path, "run"), state(2))
    assert same(load(previous_of(path), "run"), state(1))
    assert len(list(path.parent.iterdir())) == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    """Two states of 160 kB fit, a third does not: the first two stay, and space helps."""
    path = small_disk / CHECKPOINT_NAME
    states = [{"number": n, "tensor": torch.full((40_000,), float(n))} for n in range(3)]
    save(path, states[0], "run")
    save(path, states[1], "run")
    for _ in range(3):
        with pytest.raises(StorageError, match=r"No space left on device\. .*free some space"):
            save(path, states[2], "run")
    assert same(load(path, "run"), states[1])
    assert same(load(previous_of(path), "run"), states[0])
    assert len(list(small_disk.iterdir())) == 2
    previous_of(path).unlink()
    save(path, states[2], "run")
    assert same(load(path, "run"), states[2])


def test_a_file_system_without_links(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    save(path, state(3), "run")
    assert same(load(path, "run"), state(3))
    assert same(load(previous_of(path), "run"), state(2))


def test_a_save_is_a_copy(tmp_path: Path) -> None:
    stored = state(1)
    before = copy.deepcopy(stored)
    save(tmp_path / CHECKPOINT_NAME, stored, "run")
    stored["tensor"].fill_(7)
    assert same(load(tmp_path / CHECKPOINT_NAME, "run"), before)


@pytest.mark.slow
def test_death_at_any_system_call_leaves_a_sound_state(tmp_path: Path) -> None:
    """Beginning with sound and damaged files, with and without links, and within a write."""
    command = [*CRASHES, "at every step", str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(output)
    for beginning in ("two sound", "present damaged", "previous damaged", "no links"):
        for halfway in (False, True):
            numbers = [row[3] for row in found if row[0] == beginning and row[2] == halfway]
            died = [row[4] for row in found if row[0] == beginning and row[2] == halfway]
            before = 1 if beginning == "present damaged" else 2
            # From one step on it is the new state, and the last save of all was not killed.
            assert set(numbers) == {before, 3}
            assert numbers == sorted(numbers)
            assert died == [True] * (len(died) - 1) + [False]
            assert len(died) > 10


def modified(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


@pytest.mark.slow
def test_a_process_killed_at_random_moments_leaves_a_complete_state(tmp_path: Path) -> None:
    """60 times: nothing that was reported as saved is lost, nothing is half."""
    path = tmp_path / CHECKPOINT_NAME
    draw = random.Random(0)
    with subprocess.Popen(
        [*CRASHES, "for ever", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for _ in range(60):
            before = modified(path)
            program.stdin.write("again\n")
            program.stdin.flush()
            victim = int(program.stdout.readline())
            while modified(path) == before:
                time.sleep(0.0005)
            time.sleep(draw.uniform(0, 0.015))
            os.kill(victim, signal.SIGKILL)
            reported = int(program.stdout.readline())
            loaded, note = load_latest(tmp_path, "run")
            number = loaded["number"]
            assert note is None
            assert number in (reported, reported + 1)
            assert (loaded["tensor"] == number).all()
            assert loaded["list"] == [number] * 20
        program.stdin.close()
    save(path, state(0), "run")
    assert sorted(tmp_path.iterdir()) == sorted([path, previous_of(path)])


@pytest.mark.parametrize(
    ("wanted", "differing"),
    [
        ({"method": "EWC", "epochs": 3}, "method"),
        ({"method": "UCL", "epochs": 4}, "epochs"),
        ({"method": "UCL"}, "epochs"),
        ({"method": "UCL", "epochs": 3, "seed": 1}, "seed"),
    ],
)
def test_a_state_of_something_else_is_refused(
    wanted: dict[str, Any], differing: str, tmp_path: Path
) -> None:
    own = {"method": "UCL", "epochs": 3}
    save(tmp_path / CHECKPOINT_NAME, {"of": own, "number": 7}, "run")
    found, note = load_own(tmp_path, "run", own)
    assert found["number"] == 7
    assert note is None
    text = f"in {tmp_path} belongs to another session: it differs in {differing}\\. Choose another"
    with pytest.raises(CheckpointError, match=text):
        load_own(tmp_path, "run", wanted)
