"""One command, disturbed in a process of its own until it comes through, and what it should have
ended with: what one never disturbed ends with, bit for bit."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.runs.test_job import outcome
from tests.soak.disturbances import nothing
from uclearn.cli.app import main
from uclearn.live.folder import FORMAT
from uclearn.live.journal import read_journal, updates
from uclearn.storage.checkpoint import has_checkpoint, load_latest
from uclearn.storage.records import find_runs

Disturb = Callable[[random.Random], None]
"""Spoils the process it is called in, for good."""

SMALL = ("--tasks", "2", "--epochs", "4", "--set", "network.hidden=[8]", "--quiet")
OFTEN = ("--checkpoint-seconds", "0")
MODEL = (
    "--hidden",
    "8",
    "--epochs",
    "4",
    "--batch-size",
    "8",
    "--label",
    "fault",
    "--canary",
    "0.2",
)
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "run": (("run", "split-digits", *SMALL, *OFTEN),),
    "compare": (
        ("compare", "split-digits", "--methods", "ucl,ewc", "--seeds", "1", *SMALL, *OFTEN),
    ),
    "learn": (
        ("learn", "model", "--data", "first.csv", "--name", "first", *MODEL),
        ("learn", "model", "--data", "second.csv", "--name", "second", *MODEL[2:], "--warn"),
    ),
}
"""What is tried: one command after the other, each until it comes through."""

MOST, ENOUGH = 5, 8
"""Attempts that are disturbed, and attempts until a command counts as one that never ends."""


class LostError(Exception):
    """Something was lost, or came out otherwise."""


@dataclass(frozen=True)
class Trial:
    """A command in a folder, to be disturbed."""

    kind: str
    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        for name, start in (("first", 0), ("second", 1000)):
            rows = (f"{start + k},{k % 7},{'ok' if k % 7 < 4 else 'worn'}\n" for k in range(80))
            (self.folder / f"{name}.csv").write_text(f"a,b,fault\n{''.join(rows)}")

    def disturbed(self, chance: random.Random, disturb: Disturb, calm: float | None) -> int:
        """Until all commands have come through; how often one was interrupted. `calm`: the seconds
        that it takes alone, for kills at a random moment of it; None: nobody kills it."""
        interrupted = 0
        for words in COMMANDS[self.kind]:
            for number in range(ENOUGH):
                # an update begins anew each time: in the end it is left alone
                left_alone = number >= MOST
                kill = calm is not None and not left_alone
                patience = chance.uniform(0.0, 1.1) * (calm or 0.0) if kill else None
                around = nothing if left_alone else disturb
                code = attempt(words, self.folder, patience, around, chance.random())
                if code == 0 or (code == 1 and self._is_there(words)):
                    break
                if code not in (1, 3, -signal.SIGKILL):
                    raise LostError(f"exit code {code}: {self.said()}")
                interrupted += 1
            else:
                raise LostError(f"it did not end within {ENOUGH} attempts: {self.said()}")
        return interrupted

    def _is_there(self, words: tuple[str, ...]) -> bool:
        """Whether an update was killed after it was saved: then it cannot be made again."""
        return "learn" in words and "already" in self.said()

    def said(self) -> str:
        """By the last attempt."""
        return (self.folder / "said.txt").read_text(errors="replace")[-2000:]

    def ended(self) -> Any:
        """All that must be the same."""
        if self.kind == "learn":
            state, _ = load_latest(self.folder / "model", FORMAT)
            lines = updates(read_journal(self.folder / "model"))
            told = [(line["name"], line["decision"], line["accuracy"]) for line in lines]
            return _digest(state["state"]), told
        top = self.folder / "runs"
        return {str(place.relative_to(top)): _run(place) for place in find_runs(top)}


def _run(place: Path) -> Any:
    state = load_latest(place, "session")[0] if has_checkpoint(place) else {}
    weights = state.get("method", {})
    events = (place / "events.jsonl").read_text()
    return outcome(place), events, _digest(weights)


def _digest(state: Any) -> str:
    total = hashlib.sha256()
    for key, value in sorted(state.items(), key=str):
        data = value.contiguous().numpy().tobytes() if isinstance(value, torch.Tensor) else b""
        total.update(f"{key} {'' if data else value}".encode() + data)
    return total.hexdigest()


def attempt(
    words: tuple[str, ...], folder: Path, patience: float | None, disturb: Disturb, seed: float
) -> int:
    """Make a command in a child, killed with all its children after `patience` seconds; its exit
    code, negative: the signal. A traceback in what it says is a loss."""
    child = os.fork()
    if child == 0:
        _become(words, folder, disturb, seed)
    end = None if patience is None else time.monotonic() + patience
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if end is not None and time.monotonic() >= end:
            os.killpg(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            break
        time.sleep(0.002)
    said = (folder / "said.txt").read_text(errors="replace")
    if "Traceback" in said:
        raise LostError(said[-3000:])
    return os.waitstatus_to_exitcode(status)


def _become(words: tuple[str, ...], folder: Path, disturb: Disturb, seed: float) -> None:
    """The child: whatever happens, it does not return."""
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        said = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        sys.argv = ["uclearn", *words]
        disturb(random.Random(seed))
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 0
        except BaseException:
            import traceback

            traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)
