"""What every update was made of and what became of it, in a file that only grows.

One JSON object per line of `journal.jsonl`; whoever reads it needs neither torch nor this module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from torch import nn

from uclearn.live.gate import Comparison
from uclearn.storage.files import append_line, read_jsonl
from uclearn.storage.schema import plain
from uclearn.surgery.anatomy import widths

JOURNAL_NAME = "journal.jsonl"
SCHEMA = 1

Decision = Literal["accepted", "rejected", "warned", "ungated"]


@dataclass(frozen=True)
class Update:
    """One call of `learn`, as the journal has it."""

    number: int
    """Counted from 1, over all updates, rejected ones too."""
    time: str
    """When it ended, UTC."""
    name: str
    task: str
    """What it taught: a new task of the same name, or a known one."""
    index: int
    """The task's number, and that of its head."""
    decision: Decision
    reason: str
    fingerprint: str
    """Of the data as they were given."""
    train: int
    """Examples trained on."""
    canary: int
    """Examples set apart."""
    left_out: int
    """Copies of canary examples, left out of training."""
    classes: int | None
    loss: float
    """Mean training loss of the last epoch."""
    accuracy: float | None
    """On the new canary or the validation data, after learning; None without either."""
    compared: tuple[Comparison, ...]
    """Old tasks on their canaries, before and after."""
    seconds: float
    method: str
    versions: Mapping[str, str]
    nodes: Mapping[str, Any] | None = None
    """Per layer the initial sigma and that of each node; None where a method knows none."""

    @property
    def kept(self) -> bool:
        """Whether the model has changed."""
        return self.decision != "rejected"

    def document(self) -> dict[str, Any]:
        """As a line of the journal."""
        line = {"schema": SCHEMA, "event": "update", **asdict(self)}
        return dict(plain(line, "update"))


def widened(number: int, by: float | Mapping[str, int], model: nn.Module) -> dict[str, Any]:
    """The line for a network that was given more nodes."""
    return {
        "schema": SCHEMA,
        "event": "widened",
        "number": number,
        "time": now(),
        "by": by if isinstance(by, int | float) else dict(by),
        "widths": widths(model),
    }


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def updates(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those lines that tell of an update."""
    return [line for line in lines if line["event"] == "update"]


def node_history(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the nodes were like after each update that was kept, for `capacity`."""
    kept = [line for line in updates(lines) if line["decision"] != "rejected" and line["nodes"]]
    return [{"event": "nodes", "task": k, "layers": line["nodes"]} for k, line in enumerate(kept)]


def append_missing(folder: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Add those `entries` to the journal in `folder` that it does not have yet."""
    known = len(read(folder))
    for entry in entries[known:]:
        append_line(folder / JOURNAL_NAME, json.dumps(entry, allow_nan=False), sync=True)


def read(folder: Path) -> list[dict[str, Any]]:
    """The lines of the journal in `folder`, oldest first; none where there is no journal."""
    path = folder / JOURNAL_NAME
    return [dict(line) for line in read_jsonl(path)] if path.exists() else []
