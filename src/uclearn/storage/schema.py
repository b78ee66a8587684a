"""What a document on disk looks like, by version, and how an old one becomes a new one.

Every document (a configuration, an event, a summary) carries the number of the schema it was
written by. Reading one that is older walks it up step by step, so only the newest needs code
elsewhere. To change a document: raise `SCHEMA` and add to `MIGRATIONS` what the step does.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from uclearn.errors import DataError

Document: TypeAlias = dict[str, Any]
"""A JSON object."""

DocumentName: TypeAlias = Literal["config", "event", "summary"]
Migration: TypeAlias = Callable[[Document], Document]

SCHEMA = 1

MIGRATIONS: dict[tuple[DocumentName, int], Migration] = {}
"""`(name, n)` -> what turns such a document of schema n into one of schema n + 1. Without an entry
the document is the same in both."""


def migrate(name: DocumentName, document: Document, source: str) -> Document:
    """`document` as the present schema has it; `source` says in errors where it came from."""
    version = document.get("schema")
    if type(version) is not int or version < 0:
        raise DataError(
            f"`schema` of {source} must be a whole number from 0 on, got {version!r}. It is "
            "damaged or was not written by uclearn."
        )
    if version > SCHEMA:
        raise DataError(
            f"{source} was written by a newer uclearn: `schema` is {version}, this one knows up "
            f"to {SCHEMA}. Update uclearn to read it."
        )
    for step in range(version, SCHEMA):
        change = MIGRATIONS.get((name, step))
        document = {**(change(document) if change else document), "schema": step + 1}
    return document


def plain(value: object, place: str) -> Any:
    """`value` in the types that JSON knows: tuples become lists; nan and infinities become None.

    JSON has no word for the latter, and a missing number is what a reader can draw. Anything else
    is refused by an error that begins with `place`.

    >>> plain({"losses": (0.5, float("nan"))}, "event")
    {'losses': [0.5, None]}
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        for key in value:
            if type(key) is not str:
                raise DataError(f"The keys of `{place}` must be str, got {key!r}.")
        return {key: plain(entry, f"{place}.{key}") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, f"{place}[{i}]") for i, entry in enumerate(value)]
    raise DataError(
        f"`{place}` must be a dict, list, tuple, None, bool, int, float or str, got {value!r} of "
        f"type {type(value).__name__}. Convert it first."
    )
