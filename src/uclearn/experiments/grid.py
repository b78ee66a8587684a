"""Many runs at once: a process for each, so many at a time as there are workers.

Started again it makes only what is missing; started twice at once, the two share the work: a run
that another process is making is passed over. A run that fails stops no other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from uclearn.errors import UclearnError
from uclearn.experiments.config import Configuration
from uclearn.experiments.kinds import stored_config
from uclearn.experiments.worker import Order, State, execute, work
from uclearn.storage.records import Summary, read_summary

GridObserver = Callable[[Configuration, str, dict[str, Any]], None]
"""Told (run, event, details): the events of `learn`, and `run_begins` and `run_ends`."""


@dataclass(frozen=True)
class Result:
    """What became of one run."""

    config: Configuration
    folder: Path
    state: State
    message: str = ""

    def summary(self) -> Summary | None:
        """Its outcome, if there is one by now, whoever made it."""
        return None if self.state == "failed" else read_summary(self.folder)


def cores() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def placed(configs: Iterable[Configuration], out: Path) -> dict[Path, Configuration]:
    """Runs by their folders below `out`; of the same run twice there is one."""
    return {out / config.folder_name(): config for config in configs}


def run_all(
    jobs: Mapping[Path, Configuration],
    *,
    data: Path | None = None,
    workers: int | None = None,
    observer: GridObserver | None = None,
    checkpoint_seconds: float = 30.0,
    command: str | None = None,
) -> list[Result]:
    """Make all runs that are missing; what became of each, in order.

    Args:
        jobs: runs by their folders (see `placed`).
        data: the folder that holds the data sets.
        workers: how many at a time; None: one for each core. The cores are divided among them.
        observer: told what happens, in this process.
        checkpoint_seconds: how much work a crash may cost.
        command: what was typed, to be noted in the summaries.
    """
    grid = _Grid(jobs, observer or (lambda config, event, details: None))
    missing = grid.look_around()
    at_once = max(1, min(workers or cores(), len(missing)))
    orders = [
        Order(
            jobs[folder].to_json(),
            str(folder),
            None if data is None else str(data),
            threads_for(at_once),
            checkpoint_seconds,
            command,
        )
        for folder in missing
    ]
    if len(orders) == 1:  # it needs no process of its own
        grid.run_here(orders[0])
    else:
        grid.run(orders, at_once)
    return [grid.results[folder] for folder in jobs]


@dataclass
class _Worker:
    folder: Path
    process: SpawnProcess
    events: Connection
    outcome: tuple[State, str] | None = None


class _Grid:
    def __init__(self, configs: Mapping[Path, Configuration], observer: GridObserver) -> None:
        self.configs, self.observer = configs, observer
        self.results: dict[Path, Result] = {}
        self.workers: list[_Worker] = []
        self.stopping = False

    def look_around(self) -> list[Path]:
        """What is not done yet."""
        missing = []
        for folder, config in self.configs.items():
            try:
                complete = read_summary(folder) is not None
                if complete and stored_config(folder) == config.fingerprint():
                    self._note(folder, "done", "")
                else:
                    missing.append(folder)
            except UclearnError as error:  # damaged files; the others go on
                self._note(folder, "failed", str(error))
        return missing

    def run_here(self, order: Order) -> None:
        """One run, in this process."""
        folder = Path(order.folder)
        self._tell(folder, "run_begins", {"folder": order.folder})
        outcome = execute(order, lambda event, details: self._tell(folder, event, details))
        self._note(folder, *outcome)

    def run(self, orders: Sequence[Order], at_once: int) -> None:
        """Keep `at_once` processes busy until nothing is left."""
        waiting = list(reversed(orders))
        try:
            while self.workers or (waiting and not self.stopping):
                self._keep_busy(waiting, at_once)
        finally:  # they may have processes of their own and are no daemons: nobody else ends them
            for worker in self.workers:
                worker.process.terminate()
        for order in reversed(waiting):
            self._note(Path(order.folder), "stopped", "not begun")

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
        self._tell(Path(order.folder), "run_begins", {"folder": order.folder})

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
                self._tell(worker.folder, kind, details)

    def _end(self, worker: _Worker) -> None:
        worker.process.join()
        self.workers.remove(worker)
        state, message = worker.outcome or ("failed", _death(worker.process.exitcode))
        self._note(worker.folder, state, message)

    def _note(self, folder: Path, state: State, message: str) -> None:
        self.results[folder] = Result(self.configs[folder], folder, state, message)
        self._tell(folder, "run_ends", {"state": state, "message": message})

    def _tell(self, folder: Path, event: str, details: dict[str, Any]) -> None:
        self.observer(self.configs[folder], event, details)


def threads_for(workers: int) -> int:
    """A fair share of the cores for each worker, within what OMP_NUM_THREADS allows."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    share = max(1, cores() // workers)
    return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) else share


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was killed by signal {-code} (too little memory?)"
    return f"its process ended with code {code} without a word"
