"""What an engine is, and whom it tells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from uclearn.runs.worker import Order, State


class Audience(Protocol):
    """Who is told what becomes of runs, by their folders, in the process that ordered them."""

    def tell(self, folder: Path, event: str, details: dict[str, Any]) -> None:
        """Something happened in a run."""
        ...

    def note(self, folder: Path, state: State, message: str) -> None:
        """The run is over, for now or for good."""
        ...


class Engine(Protocol):
    """Makes runs somewhere."""

    @property
    def threads(self) -> int | None:
        """Cores for each run; None: a fair share of this machine's."""
        ...

    def run(self, orders: Sequence[Order], at_once: int | None, audience: Audience) -> None:
        """Make the runs, `at_once` at a time (None: as many as there is room for), and note what
        became of each: of every order exactly once."""
        ...
