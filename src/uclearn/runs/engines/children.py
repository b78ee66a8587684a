"""Processes on this machine that work for this one and report to it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.resource_tracker import ensure_running
from typing import IO, Any

Message = tuple[str, dict[str, Any]]
"""(what, details)."""


@dataclass(eq=False)
class Child:
    """One of them."""

    process: SpawnProcess
    messages: Connection
    complaints: IO[bytes]
    """Its standard error, while it is at work."""
    words: str = ""
    """What it wrote there, once it has ended."""

    def end(self) -> None:
        """Wait for it, and read what it complained of."""
        self.process.join()
        with self.complaints as file:
            file.seek(0)
            self.words = file.read().decode(errors="replace")


class Children:
    """Those that are at work. They are no daemons, for they may have processes of their own, so
    whoever starts them ends them."""

    def __init__(self) -> None:
        self.alive: list[Child] = []

    def start(self, work: Callable[..., None], *given: Any) -> Child:
        """Call `work(*given, messages)` in a new process."""
        context = get_context("spawn")  # a fork would copy torch's threads in mid-air
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(*given, sender))
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the process has ended)
        ensure_running()  # a process that outlives this one: its errors stay where they are
        with _errors_to(complaints):
            process.start()
        sender.close()
        self.alive.append(Child(process, receiver, complaints))
        return self.alive[-1]

    def listen(self) -> Iterator[tuple[Child, Message | None]]:
        """What has been said within a second; None: the child has ended."""
        ready = wait([child.messages for child in self.alive], timeout=1.0)
        for child in [child for child in self.alive if child.messages in ready]:
            try:
                message = child.messages.recv()
            except (EOFError, OSError):
                child.end()
                self.alive.remove(child)
                yield child, None
            else:
                yield child, message

    def terminate(self) -> None:
        """Ask all that are left to end."""
        for child in self.alive:
            child.process.terminate()


def send(messages: Connection, what: str, details: dict[str, Any]) -> bool:
    """Whether anybody is left to hear it."""
    try:
        messages.send((what, details))
    except OSError:
        return False
    return True


@contextmanager
def _errors_to(file: IO[bytes]) -> Iterator[None]:
    """A process started in here has `file` as its standard error, from its first moment on: it may
    die before any line of ours runs in it."""
    try:
        here = os.dup(2)
    except OSError:  # there is none
        yield
        return
    try:
        os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(here, 2)
        os.close(here)
