"""Many runs at once: in processes here, or wherever else an engine makes them.

Started again it makes only what is missing; started twice at once, the two share the work: a run
that another process is making is passed over. A run that fails stops no other.

Processes that learn one model together (`uclearn.ranks`) make one run after the other.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uclearn.errors import SettingError, UclearnError
from uclearn.ranks import Ranks, present
from uclearn.runs.config import Configuration
from uclearn.runs.engines import Engine
from uclearn.runs.engines.local import LocalEngine
from uclearn.runs.job import Job, State, even_out, execute, is_done
from uclearn.storage.records import Summary, read_summary
from uclearn.tasks.sources.dataset import data_folder, locate

GridObserver = Callable[[Configuration, str, dict[str, Any]], None]
"""Told (run, event, details): the events of `learn`, and `run_begins` and `run_ends`."""


@dataclass(frozen=True)
class Result:
    """What became of one run."""

    job: Job
    state: State
    message: str = ""

    @property
    def config(self) -> Configuration:
        """What it is made from."""
        return self.job.config

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.job.folder

    def summary(self) -> Summary | None:
        """Its outcome, if there is one by now, whoever made it."""
        return None if self.state == "failed" else read_summary(self.folder)


def cores() -> int:
    """Processors that this process may use."""
    linux = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1


def run_all(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    observer: GridObserver | None = None,
    on: Engine | None = None,
) -> list[Result]:
    """Make all runs that are missing; what became of each, in order. Of several jobs for the same
    folder the last counts.

    Args:
        jobs: the runs.
        workers: how many at a time; None: one for each core, which are divided among them, or on a
            cluster as many as it takes.
        observer: told what happens, in this process.
        on: what makes them (see `uclearn.runs.engines`); None: processes on this machine.
    """
    ranks, engine = present(), on or LocalEngine()
    here = isinstance(engine, LocalEngine)
    if ranks.size > 1 and not here:
        raise SettingError(
            f"`on` must be local where {ranks.size} processes learn one model. Start it without "
            "torchrun to have many runs made elsewhere."
        )
    jobs = list({job.folder: job for job in jobs}.values())
    even_out(jobs)
    grid = _Grid(jobs, observer or (lambda config, event, details: None))
    missing = grid.look_around(ranks)
    if here:
        _require_data(missing)
    at_once = _at_once(workers, len(missing), ranks)
    missing = [replace(job, threads=engine.threads or threads_for(at_once)) for job in missing]
    if ranks.size > 1 or (here and len(missing) == 1):  # they need no processes of their own
        grid.run_here(missing)
    elif missing:
        engine.run(missing, at_once if here else workers, grid)
    even_out(jobs)  # others may have made them, on their own machines
    return [grid.results[job.folder] for job in jobs]


class _Grid:
    def __init__(self, jobs: Sequence[Job], observer: GridObserver) -> None:
        self.jobs, self.observer = jobs, observer
        self.results: dict[Path, Result] = {}
        self.stopping = False

    def look_around(self, ranks: Ranks) -> list[Job]:
        """What is not done yet, as the first process sees it."""
        missing = self._missing()
        agreed = ranks.any(*(ranks.is_first and job in missing for job in self.jobs))
        wanted = [job for job, is_open in zip(self.jobs, agreed, strict=True) if is_open]
        for job in (job for job in missing if job not in wanted):
            self.note(job, "done", "")
        return wanted

    def _missing(self) -> list[Job]:
        missing = []
        for job in self.jobs:
            try:
                if is_done(job.folder, job.config):
                    self.note(job, "done", "")
                else:
                    missing.append(job)
            except UclearnError as error:  # damaged files; the others go on
                self.note(job, "failed", str(error))
        return missing

    def run_here(self, jobs: Sequence[Job]) -> None:
        """One run after the other, in this process; where one is not made, none follows: of several
        processes, the others may be waiting in it."""
        for job in jobs:
            if self.stopping:
                self.note(job, "stopped", "not begun")
                continue
            self.tell(job, "run_begins", {"folder": str(job.folder)})
            state, message = execute(job, functools.partial(self.tell, job))
            self.note(job, state, message)
            self.stopping = state not in ("done", "made")

    def note(self, job: Job, state: State, message: str) -> None:
        """What became of a run."""
        self.results[job.folder] = Result(job, state, message)
        self.tell(job, "run_ends", {"state": state, "message": message})

    def tell(self, job: Job, event: str, details: dict[str, Any]) -> None:
        """Pass on what happens in a run."""
        self.observer(job.config, event, details)


def _require_data(jobs: Sequence[Job]) -> None:
    """Where none of the runs has its data, say so once, before any is begun."""
    absent = [job.config.kind_of_run().absent_data(job.config, job.data) for job in jobs]
    if absent and all(absent):
        locate(absent[0][0], data_folder(jobs[0].data))


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
