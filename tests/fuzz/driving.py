"""A command line is typed and watched: what it says, how it ends, what it leaves behind."""

from __future__ import annotations

import functools
import gc
import importlib
import io
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from unittest import mock

import torch

from tests.fuzz.playground import DAMAGED, Playground, ground
from uclearn.cli.app import main
from uclearn.live.journal import read_journal
from uclearn.runs.engines.local import LocalEngine
from uclearn.storage.records import read_runs

CODES = (0, 1, 2, 3, 130)
LONGEST = 200_000
"""Characters that a command may say at most: a listing with long names in it."""
LONGEST_ERROR = 3_000
PATIENCE, HANG = 3.0, 120.0
"""Seconds until a command is sent a Ctrl-C (what is asked for may take for ever), and until it
counts as one that hangs."""
_MEMORY = 4 << 30
_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")


class HangingError(BaseException):
    """No command catches it."""


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float
    trace: str = ""
    """Of an exception that nobody caught."""
    left: tuple[str, ...] = ()
    """What should not lie there afterwards."""

    def faults(self) -> list[str]:
        """What a user should never see."""
        found = [f"left behind: {name}" for name in self.left]
        if self.trace or "Traceback" in self.err + self.out:
            found.append("a traceback")
        if self.code not in CODES:
            found.append(f"exit code {self.code}")
        if len(self.out) + len(self.err) > LONGEST:
            found.append(f"{len(self.out)} + {len(self.err)} characters")
        if self.code == 1 and len(self.err) > LONGEST_ERROR:
            found.append(f"an error of {len(self.err)} characters")
        if self.code in (1, 2) and not self.err.strip():
            found.append("an error without a word")
        return found

    def told(self) -> str:
        """For whoever has to mend it."""
        line = shlex.join(["uclearn", *self.words])
        said = f"{self.out[-1500:]}\n{self.err[-1500:]}\n{self.trace[-3000:]}"
        faults = "; ".join(self.faults())
        return f"{faults}\n{ascii(line)[:2000]}\ncode {self.code}, {self.seconds:.1f} s\n{said}"


@functools.cache
def prepare() -> None:
    """Import what commands import: a Ctrl-C in the middle of that leaves half a module behind."""
    for name in ("torch._dynamo", "optuna", "gymnasium", "plotly", "pyarrow.parquet", "fsspec"):
        with suppress(ImportError):
            importlib.import_module(name)
    # in the background of a script Ctrl-C is ignored, here and in every process started here
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def typed(words: Sequence[str], *, patience: float = PATIENCE) -> Ended:
    """Type a command in this process, in a fresh folder."""
    prepare()
    with _at(ground().restored()), _limited(), _without_processes():
        # as a process begins: the Ctrl-C before may have hit the end of a `no_grad`
        torch.set_grad_enabled(True)
        out, err = _stream("strict"), _stream("backslashreplace")
        began, code, trace = time.monotonic(), 0, ""
        with redirect_stdout(out), redirect_stderr(err), _interrupted(patience):
            sys.argv = ["uclearn", *words]
            try:
                main()
            except SystemExit as leaving:
                code = (
                    leaving.code
                    if isinstance(leaving.code, int)
                    else 0
                    if leaving.code is None
                    else 1
                )
            except BaseException:
                code, trace = 1, traceback.format_exc()
        spent, left = time.monotonic() - began, tuple(_left(ground()))
        return Ended(tuple(words), code, _text(out), _text(err), spent, trace, left)


def started(words: Sequence[str], *, patience: float = 30.0) -> Ended:
    """Start a command as a process of its own, in a fresh folder."""
    prepare()
    folder, began = ground().restored(), time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "uclearn", *words],
        cwd=folder,
        env={**os.environ, **_NETWORK, **_own_places(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_limit_memory,
    )
    out, err = _waited_for(process, patience)
    said, told = (data.decode(errors="replace") for data in (out, err))
    spent, left = time.monotonic() - began, tuple(_left(ground()))
    return Ended(tuple(words), process.returncode, said, told, spent, "", left)


def _waited_for(process: subprocess.Popen[bytes], patience: float) -> tuple[bytes, bytes]:
    """What it says until it ends; by Ctrl-C after a while, and at last by force."""
    for seconds, then in ((patience, signal.SIGINT), (HANG, signal.SIGKILL)):
        try:
            return process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, then)
    return process.communicate()


def _left(where: Playground) -> Iterator[str]:
    """Half-written files; runs and models that are not sound and were before."""
    if not where.changed():
        return
    folder = where.folder
    yield from (str(path) for path in where.top.rglob(".*.tmp"))
    if (folder / "runs").is_dir():
        _, damaged = read_runs(folder / "runs")
        yield from (f"{place}: {why}" for place, why in damaged if DAMAGED not in place.name)
    if (folder / "model").is_dir():
        read_journal(folder / "model")


def _stream(errors: str) -> io.TextIOWrapper:
    """As the interpreter opens a terminal: what cannot be said in UTF-8 is an error there, too."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


def _own_places(folder: Path) -> dict[str, str]:
    place = str(folder.parents[0])
    return {"UCLEARN_DATA": f"{place}/data", "XDG_CACHE_HOME": f"{place}/cache", "COLUMNS": "100"}


@contextmanager
def _at(folder: Path) -> Iterator[None]:
    before, environment = Path.cwd(), dict(os.environ)
    argv = sys.argv
    os.environ.update(_NETWORK | _own_places(folder))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = argv


@contextmanager
def _without_processes() -> Iterator[None]:
    """Runs of a grid are made one after the other, here: a process for each takes seconds, and what
    starts them has tests of its own."""
    with mock.patch.object(
        LocalEngine, "run", lambda self, jobs, at_once, grid: grid.run_here(jobs)
    ):
        yield


@contextmanager
def _interrupted(patience: float) -> Iterator[None]:
    """Ctrl-C after a while; then again, should it not have been heard; in the end no more mercy."""
    began = time.monotonic()

    def ring(number: int, frame: FrameType | None) -> None:
        if time.monotonic() - began > HANG:
            raise HangingError
        signal.raise_signal(signal.SIGINT)

    hooks, gc.callbacks[:] = list(gc.callbacks), []  # Hypothesis' own would swallow it
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, patience, 20.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.callbacks[:] = hooks


@contextmanager
def _limited() -> Iterator[None]:
    """So that asking for all the memory there is is refused, not granted."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    _limit_memory()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _limit_memory() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, most))
