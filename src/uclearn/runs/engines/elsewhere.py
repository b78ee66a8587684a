"""Runs made by machines that take orders: submitted, waited for, ordered again if they were lost.

What a run records stands in its folder, which all machines share; so its news are read there. Which
machine makes a run, and when, is not decided here.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

from uclearn.errors import UclearnError
from uclearn.runs.engines.contract import Audience
from uclearn.runs.worker import Order, State
from uclearn.storage.files import read_jsonl
from uclearn.storage.lock import FolderBusyError, FolderLock
from uclearn.storage.records import EVENTS_NAME
from uclearn.tasks.sources.dataset import data_folder

RETRIES = 3
"""So often a run is ordered again whose worker or machine was lost."""
PATIENCE = 100.0
"""Seconds to wait for a folder that another process holds. A machine that dies while it holds one
on a network file system is found dead only after a while (NFS: 90 seconds)."""
GLANCE = 0.5
"""Seconds between looks at what has happened."""

Handle = TypeVar("Handle", bound=Hashable)
Outcome = tuple[State | Literal["lost"], str]
"""What became of a job; `lost`: it ended without a word, and the run can go on elsewhere."""


class Machines(Protocol[Handle]):
    """Whatever takes orders."""

    def submit(self, order: Order) -> Handle:
        """Have the run made."""
        ...

    def collect(self, handles: Sequence[Handle], seconds: float) -> dict[Handle, Outcome]:
        """Those that are over, after waiting for one at most so long."""
        ...

    def cancel(self, handle: Handle) -> None:
        """Ask the run to save and stop."""
        ...


@dataclass
class _Ordered:
    order: Order
    folder: Path
    begun: bool = False
    losses: int = 0
    told: int = 0
    """Recorded events that were passed on."""


@dataclass
class Dispatch(Generic[Handle]):
    """Has orders made by machines and tells the audience."""

    machines: Machines[Handle]
    audience: Audience
    retries: int = RETRIES
    patience: float = PATIENCE
    _running: dict[Handle, _Ordered] = field(default_factory=dict)
    _held: list[_Ordered] = field(default_factory=list)
    """Their folders are held by other processes."""
    _stopping: bool = False

    def run(self, orders: Sequence[Order], at_once: int | None) -> None:
        """Until every order was noted."""
        waiting = [_Ordered(located(order), Path(order.folder)) for order in orders]
        last_work = time.monotonic()
        while waiting or self._running or self._held:
            try:
                self._take_up_freed(waiting)
                self._submit(waiting, at_once or len(orders))
                if self._running:
                    last_work = time.monotonic()
                    self._collect(waiting)
                else:
                    self._wait_for_others(time.monotonic() - last_work)
            except KeyboardInterrupt:
                self._stop(waiting)

    def _submit(self, waiting: list[_Ordered], at_once: int) -> None:
        while waiting and len(self._running) < at_once:
            ordered = waiting.pop(0)
            self._running[self.machines.submit(ordered.order)] = ordered
            if not ordered.begun:
                ordered.begun = True
                ordered.told = len(_recorded(ordered.folder))
                self.audience.tell(ordered.folder, "run_begins", {"folder": str(ordered.folder)})

    def _collect(self, waiting: list[_Ordered]) -> None:
        over = self.machines.collect(list(self._running), GLANCE)
        for ordered in self._running.values():
            self._pass_on_news(ordered)
        for handle, (state, message) in over.items():
            self._end(self._running.pop(handle), state, message, waiting)

    def _end(
        self,
        ordered: _Ordered,
        state: State | Literal["lost"],
        message: str,
        waiting: list[_Ordered],
    ) -> None:
        if state == "busy" and not self._stopping:
            self._held.append(ordered)
        elif state != "lost":
            self.audience.note(ordered.folder, state, message)
        elif self._stopping:
            self.audience.note(ordered.folder, "stopped", message)
        elif ordered.losses < self.retries:
            ordered.losses += 1
            self.audience.tell(ordered.folder, "retried", {"message": message})
            waiting.append(ordered)
        else:
            lost = f"it was lost {ordered.losses + 1} times, the last time: {message}"
            self.audience.note(ordered.folder, "failed", lost)

    def _take_up_freed(self, waiting: list[_Ordered]) -> None:
        """Order again what others have let go: it is done, or goes on here."""
        free = [ordered for ordered in self._held if _is_free(ordered.folder)]
        self._held = [ordered for ordered in self._held if ordered not in free]
        waiting.extend(free)

    def _wait_for_others(self, waited: float) -> None:
        """Give up what others hold on to for too long."""
        if waited > self.patience:
            for ordered in self._held:
                self.audience.note(ordered.folder, "busy", "another process is making it")
            self._held = []
        else:
            time.sleep(GLANCE)

    def _pass_on_news(self, ordered: _Ordered) -> None:
        events = _recorded(ordered.folder)
        # after a loss the record goes on from the checkpoint: what was told is not told again
        for event in events[ordered.told :]:
            details = {key: value for key, value in event.items() if key != "event"}
            self.audience.tell(ordered.folder, str(event["event"]), details)
        ordered.told = max(ordered.told, len(events))

    def _stop(self, waiting: list[_Ordered]) -> None:
        self._stopping = True
        for handle in self._running:
            self.machines.cancel(handle)
        for ordered in (*waiting, *self._held):
            self.audience.note(ordered.folder, "stopped", "not begun")
        waiting.clear()
        self._held.clear()


def located(order: Order) -> Order:
    """The order with whole paths: another machine has another present folder and environment."""
    data = str(data_folder(order.data).absolute())
    return order._replace(folder=str(Path(order.folder).absolute()), data=data)


def _recorded(folder: Path) -> list[dict[str, object]]:
    try:
        return read_jsonl(folder / EVENTS_NAME)
    except UclearnError:  # not begun yet, or written this very moment; news can wait
        return []


def _is_free(folder: Path) -> bool:
    try:
        with FolderLock(folder, "a look"):
            return True
    except FolderBusyError:
        return False
