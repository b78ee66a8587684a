"""Many runs at once: in processes here, or wherever else an engine makes them.

Started again it makes only what is missing; started twice at once, the two share the work: a run
that another process is making is passed over. A run that fails stops no other.

Processes that learn one model together (`uclearn.ranks`) make one run after the other.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uclearn.errors import SettingError, UclearnError
from uclearn.ranks import Ranks, present
from uclearn.runs.config import Configuration, RunConfig
from uclearn.runs.engines.contract import Engine
from uclearn.runs.engines.local import LocalEngine
from uclearn.runs.kinds import stored_config
from uclearn.runs.mirrored import even_out
from uclearn.runs.worker import Order, State, execute
from uclearn.storage.mirror import Mirror
from uclearn.storage.records import Summary, read_summary
from uclearn.tasks.benchmarks import absent_data
from uclearn.tasks.sources.dataset import data_folder, locate

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
    device: str | None = None,
    on: Engine | None = None,
    kept: Mirror | None = None,
) -> list[Result]:
    """Make all runs that are missing; what became of each, in order.

    Args:
        jobs: runs by their folders (see `placed`).
        data: the folder that holds the data sets.
        workers: how many at a time; None: one for each core, which are divided among them, or on a
            cluster as many as it takes.
        observer: told what happens, in this process.
        checkpoint_seconds: how much work a crash may cost.
        command: what was typed, to be noted in the summaries.
        device: to learn on; None: a GPU if there is one, else the CPU.
        on: what makes them (see `uclearn.runs.engines`); None: processes on this machine.
        kept: where runs are kept if not in their folders, which are then copies below its own.
    """
    ranks, engine = present(), on or LocalEngine()
    here = isinstance(engine, LocalEngine)
    if ranks.size > 1 and not here:
        raise SettingError(
            f"`on` must be local where {ranks.size} processes learn one model. Start it without "
            "torchrun to have many runs made elsewhere."
        )
    if kept is not None:
        even_out(kept, jobs)
    grid = _Grid(jobs, observer or (lambda config, event, details: None))
    missing = grid.look_around(ranks)
    if here:
        _require_data([jobs[folder] for folder in missing], data)
    at_once = _at_once(workers, len(missing), ranks)
    orders = [
        Order(
            jobs[folder].to_json(),
            str(folder),
            None if data is None else str(data),
            engine.threads or threads_for(at_once),
            checkpoint_seconds,
            command,
            device,
            None if kept is None else kept.url,
        )
        for folder in missing
    ]
    if ranks.size > 1 or (here and len(orders) == 1):  # they need no processes of their own
        grid.run_here(orders)
    elif orders:
        engine.run(orders, at_once if here else workers, grid)
    if kept is not None:  # others may have made them, on their own machines
        even_out(kept, jobs)
    return [grid.results[folder] for folder in jobs]


class _Grid:
    def __init__(self, configs: Mapping[Path, Configuration], observer: GridObserver) -> None:
        self.configs, self.observer = configs, observer
        self.results: dict[Path, Result] = {}
        self.stopping = False

    def look_around(self, ranks: Ranks) -> list[Path]:
        """What is not done yet, as the first process sees it."""
        missing = self._missing()
        agreed = ranks.any(*(ranks.is_first and folder in missing for folder in self.configs))
        wanted = [folder for folder, open_ in zip(self.configs, agreed, strict=True) if open_]
        for folder in (f for f in missing if f not in wanted):
            self.note(folder, "done", "")
        return wanted

    def _missing(self) -> list[Path]:
        missing = []
        for folder, config in self.configs.items():
            try:
                complete = read_summary(folder) is not None
                if complete and stored_config(folder) == config.fingerprint():
                    self.note(folder, "done", "")
                else:
                    missing.append(folder)
            except UclearnError as error:  # damaged files; the others go on
                self.note(folder, "failed", str(error))
        return missing

    def run_here(self, orders: Sequence[Order]) -> None:
        """One run after the other, in this process; where one is not made, none follows: of several
        processes, the others may be waiting in it."""
        for order in orders:
            folder = Path(order.folder)
            if self.stopping:
                self.note(folder, "stopped", "not begun")
                continue
            self.tell(folder, "run_begins", {"folder": order.folder})
            state, message = execute(order, functools.partial(self.tell, folder))
            self.note(folder, state, message)
            self.stopping = state not in ("done", "made")

    def note(self, folder: Path, state: State, message: str) -> None:
        """What became of a run."""
        self.results[folder] = Result(self.configs[folder], folder, state, message)
        self.tell(folder, "run_ends", {"state": state, "message": message})

    def tell(self, folder: Path, event: str, details: dict[str, Any]) -> None:
        """Pass on what happens in a run."""
        self.observer(self.configs[folder], event, details)


def _require_data(configs: Sequence[Configuration], data: Path | None) -> None:
    """Where none of the runs has its data, say so once, before any is begun."""
    names = dict.fromkeys(c.benchmark if isinstance(c, RunConfig) else None for c in configs)
    absent = [absent_data(name, data) if name is not None else [] for name in names]
    if absent and all(absent):
        locate(absent[0][0], data_folder(data))


def _at_once(workers: int | None, missing: int, ranks: Ranks) -> int:
    """Runs at a time, or the processes on this machine that make one together."""
    if ranks.size == 1:
        return max(1, min(workers or cores(), missing))
    if workers is not None and workers > 1:
        raise SettingError(
            f"`workers` must be 1 or left out where {ranks.size} processes learn one model, got "
            f"{workers}. They make one run after the other."
        )
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def threads_for(workers: int) -> int:
    """A fair share of the cores for each worker, within what OMP_NUM_THREADS allows."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    share = max(1, cores() // workers)
    return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) else share
