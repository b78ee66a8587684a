"""A process on this machine for each run, so many at a time as there are workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from uclearn.runs.engines import JobListener
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
        if not _send(events, event, details):
            raise StoppedError("The process that asked for this run has ended.")

    state, message = execute(job, tell)
    _send(events, "outcome", {"state": state, "message": message})
    events.close()


def _send(events: Connection, event: str, details: dict[str, Any]) -> bool:
    try:
        events.send((event, details))
    except OSError:
        return False
    return True


@dataclass
class _Worker:
    job: Job
    process: SpawnProcess
    events: Connection
    outcome: JobOutcome | None = None


class _Pool:
    def __init__(self, listener: JobListener) -> None:
        self.listener = listener
        self.workers: list[_Worker] = []
        self.stopping = False

    def run(self, jobs: Sequence[Job], at_once: int) -> None:
        waiting = list(reversed(jobs))
        try:
            while self.workers or (waiting and not self.stopping):
                self._keep_busy(waiting, at_once)
        finally:  # they may have processes of their own and are no daemons: nobody else ends them
            for worker in self.workers:
                worker.process.terminate()
        for job in reversed(waiting):
            self.listener.note(job, "stopped", "not begun")

    def _keep_busy(self, waiting: list[Job], at_once: int) -> None:
        try:
            while waiting and not self.stopping and len(self.workers) < at_once:
                self._start(waiting.pop())
            self._listen()
        except KeyboardInterrupt:
            # the workers got the same signal and are saving; a second one does not wait
            for worker in self.workers if self.stopping else []:
                worker.process.terminate()
            self.stopping = True

    def _start(self, job: Job) -> None:
        context = get_context("spawn")  # a fork would copy torch's threads in mid-air
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(job, sender))
        process.start()
        sender.close()
        self.workers.append(_Worker(job, process, receiver))
        self.listener.tell(job, "run_begins", {"folder": str(job.folder)})

    def _listen(self) -> None:
        ready = wait([worker.events for worker in self.workers], timeout=1.0)
        for worker in [w for w in self.workers if w.events in ready]:
            try:
                kind, details = worker.events.recv()
            except (EOFError, OSError):
                self._end(worker)
                continue
            if kind == "outcome":
                worker.outcome = (details["state"], details["message"])
            else:
                self.listener.tell(worker.job, kind, details)

    def _end(self, worker: _Worker) -> None:
        worker.process.join()
        self.workers.remove(worker)
        state, message = worker.outcome or ("failed", _death(worker.process.exitcode))
        self.listener.note(worker.job, state, message)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was killed by signal {-code} (too little memory?)"
    return f"its process ended with code {code} without a word"
