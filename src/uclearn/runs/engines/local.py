"""A process on this machine for each run, so many at a time as there are workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from uclearn.runs.engines.contract import Audience
from uclearn.runs.worker import Order, State, work


@dataclass(frozen=True)
class LocalEngine:
    """Processes on this machine."""

    threads: int | None = None

    def run(self, orders: Sequence[Order], at_once: int | None, audience: Audience) -> None:
        """Keep `at_once` processes busy until nothing is left."""
        _Pool(audience).run(orders, at_once or len(orders))


@dataclass
class _Worker:
    folder: Path
    process: SpawnProcess
    events: Connection
    outcome: tuple[State, str] | None = None


class _Pool:
    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self.workers: list[_Worker] = []
        self.stopping = False

    def run(self, orders: Sequence[Order], at_once: int) -> None:
        waiting = list(reversed(orders))
        try:
            while self.workers or (waiting and not self.stopping):
                self._keep_busy(waiting, at_once)
        finally:  # they may have processes of their own and are no daemons: nobody else ends them
            for worker in self.workers:
                worker.process.terminate()
        for order in reversed(waiting):
            self.audience.note(Path(order.folder), "stopped", "not begun")

    def _keep_busy(self, waiting: list[Order], at_once: int) -> None:
        try:
            while waiting and not self.stopping and len(self.workers) < at_once:
                self._start(waiting.pop())
            self._listen()
        except KeyboardInterrupt:
            # the workers got the same signal and are saving; a second one does not wait
            for worker in self.workers if self.stopping else []:
                worker.process.terminate()
            self.stopping = True

    def _start(self, order: Order) -> None:
        context = get_context("spawn")  # a fork would copy torch's threads in mid-air
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(order, sender))
        process.start()
        sender.close()
        self.workers.append(_Worker(Path(order.folder), process, receiver))
        self.audience.tell(Path(order.folder), "run_begins", {"folder": order.folder})

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
                self.audience.tell(worker.folder, kind, details)

    def _end(self, worker: _Worker) -> None:
        worker.process.join()
        self.workers.remove(worker)
        state, message = worker.outcome or ("failed", _death(worker.process.exitcode))
        self.audience.note(worker.folder, state, message)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was killed by signal {-code} (too little memory?)"
    return f"its process ended with code {code} without a word"
