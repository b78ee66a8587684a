"""What was read of runs before, so that thousands of them are listed in a second.

The index of a folder is a file in it, and only a cache. An entry counts for the very bytes it was
made of, by their SHA-256: a run that went on, that was damaged or put in another's place has other
bytes, and is read anew. Deleted, damaged or out of date the index costs time, never truth; where
none can be written there is none. Damaged runs have no entry, so they are looked at every time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from uclearn.errors import UclearnError
from uclearn.storage.files import StorageError, remove_leftovers
from uclearn.storage.records import (
    CONFIG_NAME,
    EVENTS_NAME,
    SUMMARY_NAME,
    Run,
    find_runs,
    read_run,
)
from uclearn.storage.sealed import Document, read_sealed, write_sealed

INDEX_NAME = ".index.json"
WORTH_IT = 100
"""From so many runs on an index is kept."""


def outlines(
    folder: Path, outline: Callable[[Run], Document], kind: str
) -> tuple[list[tuple[Path, Document]], list[tuple[Path, str]]]:
    """`outline` of every run at or below `folder`, from the index where it can be, and the places
    of damaged runs with what is wrong there.

    Args:
        folder: where to look.
        outline: what is wanted of a run, in the types of JSON.
        kind: a name for it; entries of another kind do not count. It should change with `outline`.
    """
    known = _read(folder / INDEX_NAME, kind)
    kept: dict[str, Document] = {}
    found: list[tuple[Path, Document]] = []
    damaged: list[tuple[Path, str]] = []
    for place in find_runs(folder):
        try:
            key = _digest(place)
            document = known.get(key)
            if document is None:
                document = outline(read_run(place))
                key = key if key == _digest(place) else ""  # it went on meanwhile
        except UclearnError as error:
            damaged.append((place, str(error)))
            continue
        found.append((place, document))
        kept[key] = document
    kept.pop("", None)
    if len(kept) >= WORTH_IT and kept.keys() != known.keys():
        _write(folder / INDEX_NAME, kind, kept)
    return found, damaged


def _read(path: Path, kind: str) -> Mapping[str, Document]:
    """The entries of an index; none where it cannot be relied on."""
    try:
        document: dict[str, Any] = read_sealed(path)
    except UclearnError:
        return {}
    entries = document.get("runs") if document.get("kind") == kind else None
    return entries if isinstance(entries, dict) else {}


def _write(path: Path, kind: str, entries: Mapping[str, Document]) -> None:
    # a folder that may only be read, a full disk, a value that JSON cannot say: then without
    with suppress(StorageError, ValueError):
        remove_leftovers(path)
        write_sealed(path, {"schema": 2, "kind": kind, "runs": entries})


def _digest(place: Path) -> str:
    """Of all bytes that are read of a run."""
    total = hashlib.sha256()
    for name in (CONFIG_NAME, EVENTS_NAME, SUMMARY_NAME):
        try:
            data = (place / name).read_bytes()
        except OSError:  # not there, or to be complained of by whoever reads it
            data = None
        total.update(b"-" if data is None else b"%d:" % len(data))
        total.update(data or b"")
    return total.hexdigest()
