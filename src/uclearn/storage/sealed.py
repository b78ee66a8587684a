"""Documents that notice damage: a JSON object carries the checksum of what it says, and every
reader compares.

The checksum is of the values, not of the bytes: a document that was indented anew or whose line
ends were changed on the way says the same. Anything else that differs, one digit in one number, is
refused. A line of a file that grows vouches for its place, too: one that was lost, doubled or put
elsewhere is noticed by those behind it. Documents of the first schema carry none and are taken as
they are; from the second on a checksum is required, and in a file of lines none without may follow
one with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from uclearn.errors import DataError
from uclearn.storage.files import append_line, read_json, read_jsonl, read_lines, write_json

Document: TypeAlias = dict[str, Any]
"""A JSON object."""

CHECKSUM = "checksum"
_SEALED_FROM = 2  # the schema


class DamagedError(DataError):
    """A record does not say what was written."""


def sealed(document: Mapping[str, Any]) -> Document:
    """The document with its checksum.

    >>> sealed({"seed": 1})
    {'seed': 1, 'checksum': 'fbe47f6d82b435a8'}
    """
    return {**document, CHECKSUM: _checksum(document)}


def unsealed(
    document: Mapping[str, Any], source: str, *, required: bool = False, number: int | None = None
) -> Document:
    """The document without its checksum, which must be right; without one where none is `required`.

    `source` says in errors where it came from, `number` which line of a file it is.
    """
    rest = dict(document)
    found = rest.pop(CHECKSUM, None)
    if found is None and not required:
        return rest
    if found is None or found not in _own_checksums(rest, number):
        told = "has no checksum" if found is None else f"has the checksum {found!r}, not its own"
        raise DamagedError(
            f"{source} is damaged or was changed by hand: it {told}. Restore it from a copy; "
            "`uclearn doctor FOLDER` says what can be saved."
        )
    return rest


def write_sealed(path: Path, document: Mapping[str, Any]) -> None:
    """Replace the file `path` by `document` with its checksum, all at once."""
    write_json(path, sealed(document))


def read_sealed(path: Path) -> Document:
    """The JSON object in the file `path`, its checksum verified; see `unsealed`."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise DamagedError(f"{path} is damaged or was not written by uclearn: no JSON object.")
    return unsealed(value, str(path), required=_must_be_sealed(value))


def append_sealed(path: Path, document: Mapping[str, Any], number: int | None = None) -> None:
    """Add a line to the file `path`; on return it is on the disk. For whoever alone writes there:
    its checksum vouches for the `number` of lines before it; None: they are counted."""
    if number is None:
        number = len(read_lines(path)) if path.exists() else 0
    line = {**document, CHECKSUM: _checksum(document, number)}
    append_line(path, json.dumps(line, allow_nan=False), sync=True)


def read_sealed_lines(path: Path) -> list[Document]:
    """The JSON object of each whole line of the file `path`, their checksums verified."""
    found, begun = [], False
    for number, line in enumerate(read_jsonl(path)):
        required = begun or _must_be_sealed(line)
        begun = begun or CHECKSUM in line
        source = f"Line {number + 1} of {path}"
        found.append(unsealed(line, source, required=required, number=number))
    return found


def _must_be_sealed(document: Mapping[str, Any]) -> bool:
    schema = document.get("schema")
    return type(schema) is int and schema >= _SEALED_FROM


def _own_checksums(document: Mapping[str, Any], number: int | None) -> tuple[str, ...]:
    """The right ones; none for what was never written: a number that is none."""
    try:
        return _checksum(document), _checksum(document, number)
    except ValueError:
        return ()


def _checksum(document: Mapping[str, Any], number: int | None = None) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    place = "" if number is None else f"@{number}"
    return hashlib.sha256(f"{text}{place}".encode()).hexdigest()[:16]
