"""A process on this machine for each run, so many at a time as there are workers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from uclearn.runs.engines import JobListener
from uclearn.runs.engines.children import Child, Children, Message, send
from uclearn.runs.job import Job, JobOutcome, execute
from uclearn.session import StoppedError


@dataclass(frozen=True)
class LocalEngine:
    """Processes on this machine."""

    threads: int | None = None

    def run(self, jobs: Sequence[Job], at_once: int | None, listener: JobListener) -> None:
        """Keep `at_once` processes busy until nothing is left."""
        _Pool(listener).run(jobs, at_once or len(jobs))


def work(job: Job, events: Connection) -> None:
    """Make the run in a process started for it, and report over `events`: (event, details), last
    ("outcome", ...)."""

    def tell(event: str, details: dict[str, Any]) -> None:
        if not send(events, event, details):
            raise StoppedError("The process that asked for this run has ended.")

    state, message = execute(job, tell)
    send(events, "outcome", {"state": state, "message": message})
    events.close()


class _Pool:
    def __init__(self, listener: JobListener) -> None:
        self.listener = listener
        self.children = Children()
        self.jobs: dict[Child, Job] = {}
        self.outcomes: dict[Child, JobOutcome] = {}
        self.stopping = False

    def run(self, jobs: Sequence[Job], at_once: int) -> None:
        waiting = list(reversed(jobs))
        try:
            while self.children.alive or (waiting and not self.stopping):
                self._keep_busy(waiting, at_once)
        finally:
            self.children.terminate()
        for job in reversed(waiting):
            self.listener.note(job, "stopped", "not begun")

    def _keep_busy(self, waiting: list[Job], at_once: int) -> None:
        try:
            while waiting and not self.stopping and len(self.children.alive) < at_once:
                job = waiting.pop()
                self.jobs[self.children.start(work, job)] = job
                self.listener.tell(job, "run_begins", {"folder": str(job.folder)})
            for child, message in self.children.listen():
                self._hear(child, message)
        except KeyboardInterrupt:
            # the workers got the same signal and are saving; a second one does not wait
            if self.stopping:
                self.children.terminate()
            self.stopping = True

    def _hear(self, child: Child, message: Message | None) -> None:
        job = self.jobs[child]
        if message is None:
            if child in self.outcomes:
                sys.stderr.write(child.words)
            died: JobOutcome = ("failed", _death(child.process.exitcode, child.words))
            self.listener.note(job, *self.outcomes.get(child, died))
        elif message[0] == "outcome":
            self.outcomes[child] = (message[1]["state"], message[1]["message"])
        else:
            self.listener.tell(job, *message)


def _death(code: int | None, words: str) -> str:
    if code is not None and code < 0:
        return f"its process was killed by signal {-code} (too little memory?)"
    last = words.strip().rpartition("\n")[2]
    told = f"saying: {last[:500]}" if last else "without a word"
    return f"its process ended with code {code}, {told}"
