"""The real command line in processes of its own: killed, resumed, and two at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli import dying
from tests.runs.small import OPTIONS
from tests.runs.test_job import outcome
from uclearn.storage.records import find_runs

Start = Callable[..., subprocess.Popen[str]]


COMMAND = [sys.executable, "-m", "uclearn"]


LONG = ["run", "split-digits", "--tasks", "2", "--epochs", "40", "--set", "network.hidden=[8]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a command line; what a failing test leaves running is killed."""
    with ExitStack() as left:

        def one(*words: str, cwd: Path) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [*COMMAND, *words],
                cwd=cwd,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            left.enter_context(process)
            left.callback(process.kill)
            return process

        yield one


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=600)
    assert "Traceback" not in err
    return process.returncode, out + err


def wait_for(pattern: str, under: Path, process: subprocess.Popen[str]) -> Path:
    deadline = time.monotonic() + 600
    while not (found := list(under.glob(pattern))):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    (path,) = found
    return path


@pytest.mark.slow
def test_a_run_killed_and_started_again_gives_the_same_summary(
    start: Start, tmp_path: Path
) -> None:
    whole = start(*LONG, "--quiet", "--out", "whole", cwd=tmp_path)
    killed = [*LONG, "--quiet", "--out", "parts", "--checkpoint-seconds", "0"]
    died = subprocess.run(dying.words(5, *killed), cwd=tmp_path, timeout=600)
    assert died.returncode == -signal.SIGKILL
    (folder,) = find_runs(tmp_path / "parts")
    assert not (folder / "summary.json").exists()
    again = start(*LONG, "--quiet", "--out", "parts", cwd=tmp_path)
    assert finish(again) == (0, "")
    assert finish(whole) == (0, "")
    (other,) = find_runs(tmp_path / "whole")
    assert outcome(folder) == outcome(other)
    events = [(place / "events.jsonl").read_text() for place in (folder, other)]
    assert events[0] == events[1]


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(start: Start, tmp_path: Path) -> None:
    process = start(*LONG, "--epochs", "5000", cwd=tmp_path)
    folder = wait_for("runs/*/*/*/events.jsonl", tmp_path, process).parent  # it is learning
    os.kill(process.pid, signal.SIGINT)
    code, said = finish(process)
    assert code == 130
    assert "goes on from there" in said
    assert (folder / "checkpoint.safetensors").exists()


@pytest.mark.slow
def test_two_at_once_on_the_same_folder_share_the_work(start: Start, tmp_path: Path) -> None:
    words = ["compare", "split-digits", "--methods", "ucl,ewc", "--seeds", "1", *OPTIONS, "--json"]
    both = [start(*words, cwd=tmp_path) for _ in range(2)]
    ended = [finish(process) for process in both]
    states: dict[str, list[str]] = {}
    for code, said in ended:
        assert code in (0, 3)  # 3: the other one was still at work on a run
        for line in map(json.loads, filter(lambda text: text.startswith("{"), said.splitlines())):
            if line["event"] == "result":
                states.setdefault(line["folder"], []).append(line["state"])
    assert len(states) == 2
    for each in states.values():
        assert sorted(each) in (["done", "made"], ["busy", "made"])  # made once, by one of them
    assert finish(start(*words, cwd=tmp_path))[0] == 0
    folders = find_runs(tmp_path / "runs")
    assert len(folders) == 2
    for folder in folders:
        lines = (folder / "events.jsonl").read_text().splitlines()
        told: list[dict[str, Any]] = [json.loads(line) for line in lines]
        assert [e["task"] for e in told if e["event"] == "evaluation"] == [0, 1]
