"""One run, and what became of it: in a process of its own, or in this one."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

from uclearn.errors import UclearnError

State = Literal["done", "made", "busy", "failed", "stopped"]
"""Of a run: `done` before, `made` now, `busy` elsewhere, `failed`, or `stopped` by the user."""


class Order(NamedTuple):
    """What a worker is to do, in types that travel between processes."""

    config: str
    folder: str
    data: str | None
    threads: int
    checkpoint_seconds: float
    command: str | None
    device: str | None = None
    mirror: str | None = None
    """A URL where runs are kept; None: the folder is all there is."""


Tell = Callable[[str, dict[str, Any]], None]


def work(order: Order, events: Connection) -> None:
    """Make the run in a process started for it, and report over `events`: (event, details), last
    ("outcome", ...)."""
    from uclearn.training.session import StoppedError

    def tell(event: str, details: dict[str, Any]) -> None:
        if not _send(events, event, details):
            raise StoppedError("The process that asked for this run has ended.")

    state, message = execute(order, tell)
    _send(events, "outcome", {"state": state, "message": message})
    events.close()


def execute(order: Order, tell: Tell) -> tuple[State, str]:
    """Make the run here; what became of it, and why."""
    if order.mirror is not None:
        from uclearn.runs.mirrored import execute_mirrored

        return execute_mirrored(order, order.mirror, tell)
    import torch

    from uclearn.runs.kinds import make_run, read_config_json
    from uclearn.storage.lock import FolderBusyError
    from uclearn.training.session import StoppedError

    state: State = "done"  # perhaps by another process, since it was ordered

    def tell_first(event: str, details: dict[str, Any]) -> None:
        nonlocal state
        state = "made"
        tell(event, details)

    torch.set_num_threads(order.threads)
    folder = Path(order.folder)
    try:
        data = None if order.data is None else Path(order.data)
        make_run(
            read_config_json(order.config),
            folder,
            data,
            tell_first,
            checkpoint_seconds=order.checkpoint_seconds,
            command=order.command,
            processes=order.threads,
            device=order.device,
        )
    except FolderBusyError as error:
        return "busy", str(error)
    except (StoppedError, KeyboardInterrupt) as error:
        return "stopped", str(error) or "stopped as asked"
    except UclearnError as error:
        return "failed", " ".join(str(error).split())
    except Exception as error:  # a mistake of ours: other runs go on, and nothing is hidden
        folder.mkdir(parents=True, exist_ok=True)
        trace = folder / "error.txt"
        trace.write_text(traceback.format_exc())
        return "failed", f"{type(error).__name__}: {error} (see {trace})"
    return state, ""


def _send(events: Connection, event: str, details: dict[str, Any]) -> bool:
    try:
        events.send((event, details))
    except OSError:
        return False
    return True
