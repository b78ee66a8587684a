"""A session: work that may be interrupted at any moment and goes on where it stood.

Supervised training and reinforcement learning are both carried by a `Session`: it finds the
checkpoint, saves, counts the time, tells what happens, and stops when asked to. What is particular
to one of them is a `Work`: its state, how to load it, and how to go on a little.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from uclearn.errors import CheckpointError, UclearnError
from uclearn.ranks import ALONE, Ranks
from uclearn.storage.checkpoint import CHECKPOINT_NAME, has_checkpoint, load_own, save
from uclearn.storage.records import plain
from uclearn.tasks.data import generator

Observer = Callable[[str, dict[str, Any]], None]
"""Told (event, details) while it happens: task, step (a few times a second), epoch or iteration,
evaluation, saved, resumed, finished."""


class StoppedError(UclearnError):
    """The user asked to stop; the state was saved where one is kept."""


class Journal(Protocol):
    """Where events are kept for good, such as `uclearn.storage.recorder.RunRecorder`."""

    @property
    def position(self) -> int:
        """How many events are recorded."""

    def append(self, event: str, details: dict[str, Any], /) -> None:
        """Record an event."""

    def rewind(self, position: int, /) -> None:
        """Forget the events after the first `position`."""


class EventSink:
    """Takes the events of a run: a journal keeps what was found, an observer is told, if any."""

    def __init__(self, journal: Journal | None, observer: Observer | None) -> None:
        self._journal, self._observer = journal, observer

    @property
    def is_observed(self) -> bool:
        """Whether anybody is told what is not kept; if not, it need not be found out."""
        return self._observer is not None

    @property
    def position(self) -> int:
        """How many events are kept: what a checkpoint should remember, for `rewind`."""
        return 0 if self._journal is None else self._journal.position

    def rewind(self, position: int) -> None:
        """Forget the events after the first `position`: they will happen again."""
        if self._journal is not None:
            self._journal.rewind(position)

    def record(self, event: str, details: dict[str, Any]) -> None:
        """Write the event to the journal and tell the observer; NaN is null in the journal."""
        if self._journal is not None:
            self._journal.append(event, plain(details, "details"))
        self.tell(event, **details)

    def tell(self, event: str, **details: Any) -> None:
        """Tell the observer only."""
        if self._observer is not None:
            self._observer(event, details)


@contextmanager
def on_interrupt(
    react: Callable[[], None], signals: Iterable[signal.Signals] = (signal.SIGINT,)
) -> Iterator[None]:
    """Within: the first of `signals` calls `react`; a second one does what it did before.

    Only the main thread hears signals; in another, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in signals}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, frame: Any) -> None:
        restore()
        react()

    for number in before:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()


class Work(Protocol):
    """What a session carries on: all that is particular to one way of learning."""

    kind: str
    """Of its checkpoints, so that none is loaded as something else."""

    method: Any
    """The module that learns."""
    outcome: Any
    """What was found so far: a dataclass that also counts `seconds`."""

    @property
    def done(self) -> bool:
        """Nothing is left to do."""

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with to be one of this work."""

    def begin(self) -> None:
        """Before the first step of work that has no checkpoint."""

    def state(self) -> dict[str, Any]:
        """For a checkpoint: all but the method's state and the outcome."""

    def load(self, state: dict[str, Any]) -> None:
        """Stand where a checkpoint stood: its state, `method` and `outcome`."""

    def advance(self, session: Session) -> None:
        """Go on a little, calling `session.pause` or `session.save` where it may be interrupted."""


class Session:
    """Carries work through to its end, over any number of interruptions.

    Args:
        work: what is done.
        folder: where the checkpoint is kept; None: none is.
        events: where events go; of several processes only the first one's go anywhere.
        seed: of torch's own generators while it lasts.
        device: what is learned on.
        ranks: processes that learn one model. They decide, stop and resume together, and the first
            alone writes.
        save_every: seconds between two checkpoints that `pause` makes.
        stop_signals: what asks for a stop.
    """

    def __init__(
        self,
        work: Work,
        folder: Path | None,
        events: EventSink,
        *,
        seed: int,
        device: torch.device | None = None,
        ranks: Ranks = ALONE,
        save_every: float = float("inf"),
        stop_signals: Iterable[signal.Signals] = (signal.SIGINT,),
    ) -> None:
        self.work, self.folder, self.ranks, self.seed = work, folder, ranks, seed
        self.events = events if ranks.is_first else EventSink(None, None)
        self.device = torch.device("cpu") if device is None else device
        self.save_every, self.stop_signals = save_every, stop_signals
        self.asked_to_stop = False
        self._last_saved = self._last_counted = time.monotonic()

    def run(self) -> None:
        """From the checkpoint, or from the beginning, to the end."""
        with own_randomness(self.seed, self.device, self.ranks), self._stoppable():
            saved = self._find_checkpoint()
            if saved is None:
                self.events.rewind(0)
                self.work.begin()
            else:
                self.work.load(saved)
                _set_random_state(saved["random"], self.device, self.ranks)
                self.events.rewind(saved["events"])
            while not self.work.done:
                self.work.advance(self)
            self._count_time()
            self.events.tell("finished", seconds=self.work.outcome.seconds)

    def pause(self) -> None:
        """Stop if any process was asked to, save if it is time to: all of them at once."""
        due = time.monotonic() - self._last_saved >= self.save_every
        stop, due = self.ranks.any(self.asked_to_stop, self.folder is not None and due)
        if stop:
            self.save()
            raise self.stopped()
        if due:
            self.save()

    def save(self) -> None:
        """Write a checkpoint, if any is kept."""
        if self.folder is None:
            return
        self._count_time()
        random = self.ranks.gather(_random_state(self.device))
        if self.ranks.is_first:
            state = {
                "of": self.work.identity(),
                "outcome": asdict(self.work.outcome),
                "method": dict(self.work.method.state_dict()),
                "random": random,
                "events": self.events.position,
                **self.work.state(),
            }
            save(self.folder / CHECKPOINT_NAME, state, self.work.kind)
        self.ranks.wait()  # nobody goes on before it is written
        self._last_saved = time.monotonic()
        self.events.tell("saved", folder=str(self.folder))

    def stopped(self, remark: str = "") -> StoppedError:
        """The error that ends a session that was asked to stop, whose state is saved."""
        return StoppedError(
            f"Stopped as asked; the state is saved in {self.folder}. The same call (or command) "
            f"goes on from there.{remark}"
        )

    def _find_checkpoint(self) -> dict[str, Any] | None:
        if self.folder is None or not self._all_see_checkpoint(self.folder):
            return None
        state, note = load_own(self.folder, self.work.kind, self.work.identity())
        self.events.tell("resumed", note=note)
        return state

    def _all_see_checkpoint(self, folder: Path) -> bool:
        there = has_checkpoint(folder)
        seen, missed = self.ranks.any(there, not there)
        if seen and missed:
            raise CheckpointError(
                f"Only some of the {self.ranks.size} processes see a checkpoint in {folder}. Put "
                "the folder where all of them can read it."
            )
        return there

    def _count_time(self) -> None:
        now = time.monotonic()
        self.work.outcome.seconds += now - self._last_counted
        self._last_counted = now

    def _stoppable(self) -> AbstractContextManager[None]:
        """A first signal asks for a stop; a second one does not wait."""
        if self.folder is None:
            return nullcontext()
        return on_interrupt(self._ask_to_stop, self.stop_signals)

    def _ask_to_stop(self) -> None:
        self.asked_to_stop = True


@contextmanager
def own_randomness(seed: int, device: torch.device, ranks: Ranks) -> Iterator[None]:
    """Within: draws from torch's own generators (dropout's) follow from `seed`, other ones in each
    process; afterwards the generators are as they were."""
    if not ranks.is_first:
        seed = generator(seed, f"dropout of rank {ranks.rank}").initial_seed()
    devices, kind = ([], "cuda") if device.type == "cpu" else ([device], device.type)
    with torch.random.fork_rng(devices, device_type=kind):
        torch.manual_seed(seed)
        yield


def _random_state(device: torch.device) -> Tensor:
    """(bytes,) where the generator of the CPU stands, then that of `device`."""
    state = torch.get_rng_state()
    if device.type != "cpu":
        own = torch.get_device_module(device.type).get_rng_state(device)
        return torch.cat([state, own])
    return state


def _set_random_state(saved: Tensor, device: torch.device, ranks: Ranks) -> None:
    """Go on where the generators stood: `saved` (bytes,), or (processes, bytes), is `_random_state`
    of each. A process that was not there keeps what it has."""
    states = saved if saved.dim() == 2 else saved[None]
    if ranks.rank >= len(states):
        return
    length = torch.get_rng_state().numel()
    here, there = states[ranks.rank, :length], states[ranks.rank, length:]
    torch.set_rng_state(here.clone())
    if device.type != "cpu" and len(there):
        torch.get_device_module(device.type).set_rng_state(there.clone(), device)
