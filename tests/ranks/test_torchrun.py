"""`torchrun -m uclearn run`: a process killed or asked to stop, and the same command again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from uclearn.storage.checkpoint import has_checkpoint, load_latest
from uclearn.storage.records import find_runs, read_run

pytestmark = pytest.mark.torchrun

COMMAND = [
    *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "uclearn", "run"),
    *("permuted-digits", "--tasks", "2", "--epochs", "3", "--checkpoint-seconds", "0"),
    *("--set", "network.hidden=[16]", "--set", "network.dropout=0.2", "--set", "plan.patience=1"),
    *("--preset", "best"),
]


@contextmanager
def started(out: Path) -> Iterator[subprocess.Popen[str]]:
    """The command at work."""
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()  # torchrun ends those that it started


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code and what it said."""
    said, complained = process.communicate(timeout=300)
    return process.returncode, said, complained


def rank(process: subprocess.Popen[str], number: int) -> int:
    """The id of a process that torchrun started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in children:
        words = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if f"RANK={number}".encode() in words:
            return int(child)
    raise AssertionError(f"no rank {number} among {children}")


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until it is so; a process that ends before says why."""
    while not ready():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def steps_done(out: Path) -> int:
    """How many steps the checkpoint stands behind; each is saved."""
    begun = [run for run in (find_runs(out) if out.exists() else []) if has_checkpoint(run)]
    if not begun:
        return 0
    state, _ = load_latest(begun[0], "session")
    tasks, loop = len(state["outcome"]["accuracy_matrix"]), state["loop"]
    return 1000 * tasks + (0 if loop is None else 100 * loop["epoch"] + loop["batch"])


def ended(out: Path) -> dict[str, Any]:
    """All that a run leaves behind, but for the time it took."""
    (folder,) = find_runs(out)
    state, note = load_latest(folder, "session")
    assert note is None
    state["outcome"].pop("seconds")
    summary = json.loads((folder / "summary.json").read_text())
    for measured in ("seconds", "peak_memory", "checksum"):
        summary.pop(measured)
    return {"state": state, "summary": summary, "events": read_run(folder).events}


def identical(first: Any, second: Any) -> bool:
    """Bit for bit, in any nesting; a NaN is like another."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            identical(v, second[k]) for k, v in first.items()
        )
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(identical, first, second))
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    return bool(first == second or (first != first and second != second))


def test_killed_stopped_and_resumed_a_run_ends_as_one_left_alone(tmp_path: Path) -> None:
    with started(tmp_path / "calm") as process:
        code, said, complained = finished(process)
    assert code == 0, complained
    assert said.count("accuracy: % over all tasks") == 1  # one process speaks
    calm = ended(tmp_path / "calm")
    assert calm["summary"]["extra"]["processes"] == 2
    assert len(calm["state"]["random"]) == 2

    disturbed = tmp_path / "disturbed"
    with started(disturbed) as process:
        wait_for(lambda: steps_done(disturbed) >= 3, process)
        os.kill(rank(process, 1), signal.SIGKILL)
        struck = time.monotonic()
        code, _, complained = finished(process)
        assert time.monotonic() - struck < 200  # not by waiting for the dead for half an hour
    assert code == 1
    # the survivor finds out by itself, or torchrun tells it, whichever comes first
    assert "another process of this run has ended" in complained or (
        "Lost touch with the other processes of this run: one of them has ended" in complained
    )
    assert "the same command goes on from the last checkpoint" in complained
    reached = steps_done(disturbed)
    assert 3 <= reached < 1100

    with started(disturbed) as process:
        wait_for(lambda: steps_done(disturbed) > reached, process)
        process.send_signal(signal.SIGINT)
        code, _, complained = finished(process)
    assert code != 0
    assert complained.count("Stopped as asked; the state is saved in") == 1
    assert steps_done(disturbed) > reached

    with started(disturbed) as process:
        code, _, complained = finished(process)
    assert code == 0, complained
    assert identical(ended(disturbed), calm)
