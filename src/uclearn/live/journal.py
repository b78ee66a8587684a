"""A learner's journal: a line for every update, in memory and as `journal.jsonl` in its folder.

    begun         before an update starts to learn in an open folder
    update        what became of it; its number is that of the line above
    interrupted   instead, where the process was killed or failed: the model is what it was before
    widened       nodes were added

The file only grows. Lines say `begun` only there: who reads the journal (`read_journal`) is told
how each update ended, and by `under_way` of one that has not ended yet. How much a line takes does
not hang on the size of the network; `docs/live.md` says how much.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.storage.sealed import append_sealed, read_sealed_lines

JOURNAL_NAME = "journal.jsonl"
SCHEMA = 1
"""Version of the lines."""
_NUMBERED = ("update", "widened")
_ALWAYS: dict[Any, tuple[str, ...]] = {
    "update": (
        *("number", "time", "name", "task", "decision", "reason", "train", "canary"),
        *("accuracy", "compared", "nodes"),
    ),
    "begun": ("number", "time", "name"),
    "interrupted": ("number", "time", "name"),
}
"""By event what a line of it has, of every version."""

Line: TypeAlias = dict[str, Any]


# -- reading ---------------------------------------------------------------------------------


def read_journal(folder: Path) -> list[Line]:
    """What became of every update in `folder`, oldest first; nothing where there is no journal."""
    return [line for line in _all_lines(folder) if line["event"] != "begun"]


def under_way(folder: Path) -> list[Line]:
    """The lines of updates that were begun in `folder` and have not ended: somebody learns, or was
    killed. An open folder may have several: all end when it is saved."""
    begun: list[Line] = []
    for line in _all_lines(folder):
        if line["event"] == "begun":
            begun.append(line)
        elif line["event"] in ("update", "interrupted"):
            begun = [one for one in begun if one["number"] != line["number"]]
    return begun


def _all_lines(folder: Path) -> list[Line]:
    path = folder / JOURNAL_NAME
    if not path.exists():
        return []
    lines = read_sealed_lines(path)
    for number, line in enumerate(lines, start=1):
        lacking = [key for key in _ALWAYS.get(line.get("event"), ("event",)) if key not in line]
        if lacking:
            raise DataError(f"Line {number} of {path} is damaged: it lacks {', '.join(lacking)}.")
    return lines


def updates(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those lines that tell of an update."""
    return [line for line in lines if line["event"] == "update"]


def node_history(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the nodes were like after each update that was kept, for `capacity`."""
    kept = [line for line in updates(lines) if line["decision"] != "rejected" and line["nodes"]]
    return [{"event": "nodes", "task": k, "layers": line["nodes"]} for k, line in enumerate(kept)]


def next_number(lines: Iterable[Mapping[str, Any]]) -> int:
    """Of the next update; one that was interrupted is not counted.

    >>> next_number([{"event": "update", "number": 1}, {"event": "interrupted", "number": 2}])
    2
    """
    return 1 + max((line["number"] for line in lines if line["event"] in _NUMBERED), default=0)


# -- writing ---------------------------------------------------------------------------------


def begin(folder: Path, number: int, name: str, task: str) -> list[Line]:
    """Say that an update begins, and before that, if it was begun before, that it was interrupted;
    what is new in the story."""
    settled = settle(folder, number=number)
    line = {"number": number, "time": now(), "name": name, "task": task}
    append_sealed(folder / JOURNAL_NAME, {"schema": SCHEMA, "event": "begun", **line})
    return settled


def settle(folder: Path, why: str = "the process ended", number: int | None = None) -> list[Line]:
    """Say of updates that were begun and will not end any more (of that `number`, or all) that they
    were interrupted."""
    open_ones = [one for one in under_way(folder) if number in (None, one["number"])]
    lines = [_interrupted(one, why) for one in open_ones]
    for line in lines:
        append_sealed(folder / JOURNAL_NAME, line)
    return lines


def _interrupted(begun: Line, why: str) -> Line:
    return {
        "schema": SCHEMA,
        "event": "interrupted",
        "number": begun["number"],
        "time": now(),
        "name": begun["name"],
        "begun": begun["time"],
        "why": why,
    }


def append_missing(folder: Path, lines: Iterable[Line]) -> None:
    """Write those of the `lines` that the file in `folder` does not have."""
    there = {_key(line) for line in read_journal(folder)}
    for line in lines:
        if _key(line) not in there:
            append_sealed(folder / JOURNAL_NAME, line)


def merged(written: Sequence[Line], saved: Sequence[Line]) -> list[Line]:
    """The story by the file and by a saved state, either of which may know more, in order."""
    there = {_key(line) for line in written}
    both = [*written, *(line for line in saved if _key(line) not in there)]
    return sorted(both, key=lambda line: line["number"])


def _key(line: Line) -> tuple[Any, ...]:
    event = line["event"]
    return (event, line["number"], None if event in _NUMBERED else line["time"])


def packed(lines: Sequence[Line]) -> Tensor:
    """(bytes,) uint8, for a saved state: a tenth of what the file takes."""
    data = zlib.compress(json.dumps(lines, allow_nan=False).encode(), 9)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def unpacked(saved: Tensor | list[Line]) -> list[Line]:
    """What `packed` was given; states of before hold the lines themselves.

    >>> unpacked(packed([{"event": "update", "number": 1}]))
    [{'event': 'update', 'number': 1}]
    """
    if isinstance(saved, list):
        return saved
    lines: list[Line] = json.loads(zlib.decompress(saved.numpy().tobytes()))
    return lines


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
