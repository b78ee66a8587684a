"""Many runs at once: a process for each, so many at a time as there are workers.

Started again it makes only what is missing; started twice at once, the two share the work: a run
that another process is making is passed over. A run that fails stops no other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from uclearn.experiments.config import RunConfig
from uclearn.experiments.run import stored_config
from uclearn.experiments.worker import Order, State, execute, work
from uclearn.storage.records import Summary, read_summary

GridObserver = Callable[[RunConfig, str, dict[str, Any]], None]
"""Told (run, event, details): the events of `learn`, and `run_begins` and `run_ends`."""


@dataclass(frozen=True)
class Result:
    """What became of one run."""

    config: RunConfig
    folder: Path
    state: State
    message: str = ""

    def summary(self) -> Summary | None:
        """Its outcome, if there is one by now, whoever made it."""
        return read_summary(self.folder)


def cores() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def run_all(
    configs: Sequence[RunConfig],
    out: Path,
    *,
    data: Path | None = None,
    workers: int | None = None,
    observer: GridObserver | None = None,
    checkpoint_seconds: float = 30.0,
) -> list[Result]:
    """Make all runs of `configs` that are missing below `out`; what became of each, in order.

    Args:
        configs: each is made in the folder that its name says.
        out: the folder for all of them.
        data: the folder that holds the data sets.
        workers: how many at a time; None: one for each core. The cores are divided among them.
        observer: told what happens, in this process.
        checkpoint_seconds: how much work a crash may cost.
    """
    grid = _Grid(configs, out, observer or (lambda config, event, details: None))
    missing = grid.look_around()
    at_once = max(1, min(workers or cores(), len(missing)))
    threads = _threads(at_once)
    orders = [
        Order(
            config.to_json(),
            str(out / config.folder_name()),
            None if data is None else str(data),
            threads,
            checkpoint_seconds,
        )
        for config in missing
    ]
    if len(orders) == 1:  # it needs no process of its own
        grid.run_here(missing[0], orders[0])
    else:
        grid.run(list(zip(missing, orders, strict=True)), at_once)
    return [grid.results[config.fingerprint()] for config in configs]


@dataclass
class _Worker:
    config: RunConfig
    folder: Path
    process: SpawnProcess
    events: Connection
    outcome: tuple[State, str] | None = None


class _Grid:
    def __init__(self, configs: Sequence[RunConfig], out: Path, observer: GridObserver) -> None:
        self.configs, self.out, self.observer = configs, out, observer
        self.results: dict[str, Result] = {}
        self.workers: list[_Worker] = []
        self.stopping = False

    def look_around(self) -> list[RunConfig]:
        """What is not done yet, each once."""
        missing = []
        for config in {config.fingerprint(): config for config in self.configs}.values():
            folder = self.out / config.folder_name()
            if read_summary(folder) is not None and stored_config(folder) == config.fingerprint():
                self._note(config, folder, "done", "")
            else:
                missing.append(config)
        return missing

    def run_here(self, config: RunConfig, order: Order) -> None:
        """One run, in this process."""
        self.observer(config, "run_begins", {"folder": order.folder})
        outcome = execute(order, lambda event, details: self.observer(config, event, details))
        self._note(config, Path(order.folder), *outcome)

    def run(self, waiting: list[tuple[RunConfig, Order]], at_once: int) -> None:
        """Keep `at_once` processes busy until nothing is left."""
        waiting = waiting[::-1]
        while self.workers or (waiting and not self.stopping):
            try:
                while waiting and not self.stopping and len(self.workers) < at_once:
                    self._start(*waiting.pop())
                self._listen()
            except KeyboardInterrupt:
                # the workers got the same signal and are saving; a second one does not wait
                for worker in self.workers if self.stopping else []:
                    worker.process.terminate()
                self.stopping = True
        for config, order in waiting:
            self._note(config, Path(order.folder), "stopped", "not begun")

    def _start(self, config: RunConfig, order: Order) -> None:
        context = get_context("spawn")  # a fork would share torch's threads in mid-air
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(order, sender), daemon=True)
        process.start()
        sender.close()
        self.workers.append(_Worker(config, Path(order.folder), process, receiver))
        self.observer(config, "run_begins", {"folder": order.folder})

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
                self.observer(worker.config, kind, details)

    def _end(self, worker: _Worker) -> None:
        worker.process.join()
        self.workers.remove(worker)
        state, message = worker.outcome or ("failed", _death(worker.process.exitcode))
        self._note(worker.config, worker.folder, state, message)

    def _note(self, config: RunConfig, folder: Path, state: State, message: str) -> None:
        self.results[config.fingerprint()] = Result(config, folder, state, message)
        self.observer(config, "run_ends", {"state": state, "message": message})


def _threads(workers: int) -> int:
    """A fair share of the cores for each worker, within what OMP_NUM_THREADS allows."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    share = max(1, cores() // workers)
    return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) else share


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was killed by signal {-code} (too little memory?)"
    return f"its process ended with code {code} without a word"
