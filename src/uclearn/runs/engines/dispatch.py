"""Jobs for other machines: submitted, waited for, submitted again if they were lost.

What a run records stands in its folder, which all machines share; so its news are read there. Which
machine makes a run, and when, is not decided here.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

from uclearn.errors import UclearnError
from uclearn.runs.engines import JobListener
from uclearn.runs.job import Job, State
from uclearn.storage.files import FolderBusyError, FolderLock
from uclearn.storage.records import EVENTS_NAME
from uclearn.storage.sealed import read_sealed_lines
from uclearn.tasks.sources.dataset import data_folder

RETRIES = 3
"""So often a run is submitted again whose worker or machine was lost."""
PATIENCE = 100.0
"""Seconds to wait for a folder that another process holds. A machine that dies while it holds one
on a network file system is found dead only after a while (NFS: 90 seconds)."""
GLANCE = 0.5
"""Seconds between looks at what has happened."""

Handle = TypeVar("Handle", bound=Hashable)
RemoteOutcome = tuple[State | Literal["lost"], str]
"""What became of a job; `lost`: it ended without a word, and the run can go on elsewhere."""


class Machines(Protocol[Handle]):
    """Whatever takes jobs."""

    def submit(self, job: Job) -> Handle:
        """Have the run made."""
        ...

    def collect(self, handles: Sequence[Handle], seconds: float) -> dict[Handle, RemoteOutcome]:
        """Those that are over, after waiting for one at most so long."""
        ...

    def cancel(self, handle: Handle) -> None:
        """Ask the run to save and stop."""
        ...


@dataclass
class _Submitted:
    job: Job
    begun: bool = False
    losses: int = 0
    told: int = 0
    """Recorded events that were passed on."""


@dataclass
class Dispatch(Generic[Handle]):
    """Has jobs made by machines and tells the listener."""

    machines: Machines[Handle]
    listener: JobListener
    retries: int = RETRIES
    patience: float = PATIENCE
    _running: dict[Handle, _Submitted] = field(default_factory=dict)
    _held: list[_Submitted] = field(default_factory=list)
    """Their folders are held by other processes."""
    _stopping: bool = False

    def run(self, jobs: Sequence[Job], at_once: int | None) -> None:
        """Until what became of every job was noted."""
        waiting = [_Submitted(job) for job in jobs]
        last_work = time.monotonic()
        while waiting or self._running or self._held:
            try:
                self._take_up_freed(waiting)
                self._submit(waiting, at_once or len(jobs))
                if self._running:
                    last_work = time.monotonic()
                    self._collect(waiting)
                else:
                    self._wait_for_others(time.monotonic() - last_work)
            except KeyboardInterrupt:
                self._stop(waiting)

    def _submit(self, waiting: list[_Submitted], at_once: int) -> None:
        while waiting and len(self._running) < at_once:
            submitted = waiting.pop(0)
            self._running[self.machines.submit(located(submitted.job))] = submitted
            if not submitted.begun:
                submitted.begun = True
                submitted.told = len(_recorded(submitted.job.folder))
                self.listener.tell(
                    submitted.job, "run_begins", {"folder": str(submitted.job.folder)}
                )

    def _collect(self, waiting: list[_Submitted]) -> None:
        over = self.machines.collect(list(self._running), GLANCE)
        for submitted in self._running.values():
            self._pass_on_news(submitted)
        for handle, (state, message) in over.items():
            self._end(self._running.pop(handle), state, message, waiting)

    def _end(
        self,
        submitted: _Submitted,
        state: State | Literal["lost"],
        message: str,
        waiting: list[_Submitted],
    ) -> None:
        if state == "busy" and not self._stopping:
            self._held.append(submitted)
        elif state != "lost":
            self.listener.note(submitted.job, state, message)
        elif self._stopping:
            self.listener.note(submitted.job, "stopped", message)
        elif submitted.losses < self.retries:
            submitted.losses += 1
            self.listener.tell(submitted.job, "retried", {"message": message})
            waiting.append(submitted)
        else:
            lost = f"it was lost {submitted.losses + 1} times, the last time: {message}"
            self.listener.note(submitted.job, "failed", lost)

    def _take_up_freed(self, waiting: list[_Submitted]) -> None:
        """Submit again what others have let go: it is done, or goes on here."""
        free = [submitted for submitted in self._held if _is_free(submitted.job.folder)]
        self._held = [submitted for submitted in self._held if submitted not in free]
        waiting.extend(free)

    def _wait_for_others(self, waited: float) -> None:
        """Give up what others hold on to for too long."""
        if waited > self.patience:
            for submitted in self._held:
                self.listener.note(submitted.job, "busy", "another process is making it")
            self._held = []
        else:
            time.sleep(GLANCE)

    def _pass_on_news(self, submitted: _Submitted) -> None:
        events = _recorded(submitted.job.folder)
        # after a loss the record goes on from the checkpoint: what was told is not told again
        for event in events[submitted.told :]:
            details = {key: value for key, value in event.items() if key != "event"}
            self.listener.tell(submitted.job, str(event["event"]), details)
        submitted.told = max(submitted.told, len(events))

    def _stop(self, waiting: list[_Submitted]) -> None:
        self._stopping = True
        for handle in self._running:
            self.machines.cancel(handle)
        for submitted in (*waiting, *self._held):
            self.listener.note(submitted.job, "stopped", "not begun")
        waiting.clear()
        self._held.clear()


def located(job: Job) -> Job:
    """The job with whole paths: another machine has another present folder and environment."""
    return replace(job, folder=job.folder.absolute(), data=data_folder(job.data).absolute())


def _recorded(folder: Path) -> list[dict[str, object]]:
    try:
        return read_sealed_lines(folder / EVENTS_NAME)
    except UclearnError:  # not begun yet, or written this very moment; news can wait
        return []


def _is_free(folder: Path) -> bool:
    try:
        with FolderLock(folder, "a look"):
            return True
    except FolderBusyError:
        return False
