"""What a document on disk looks like, and how those that older versions wrote stay what they are.

Every document (a configuration, an event, a summary) carries the number of the schema it was
written by; a newer one is refused. A setting that is added later gets the value that runs had
before it as its default, and an entry in `ADDED_LATER`: with that value it is left out of what is
written. So a run of today is spelled as one of then, has the same fingerprint and folder, and goes
on with its checkpoint.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from uclearn.errors import DataError

Document: TypeAlias = dict[str, Any]
"""A JSON object."""

SCHEMA = 1

ADDED_LATER: dict[str, dict[str, Any]] = {
    "plan": {"precision": "float32"},
    "data": {"copies": None},
}
"""Settings that are newer than runs that exist, by part of a configuration, with the values that
those runs had."""


def without_later_defaults(part: str, settings: Mapping[str, Any]) -> Document:
    """The settings of a part as a run of an earlier version spelled them: what came later stands
    there only where it is not what was done before.

    >>> without_later_defaults("plan", {"lr": 0.1, "precision": "float32"})
    {'lr': 0.1}
    """
    later, absent = ADDED_LATER.get(part, {}), object()
    return {key: value for key, value in settings.items() if value != later.get(key, absent)}


def check_schema(document: Document, source: str) -> Document:
    """`document`, if this version can read it; `source` says in errors where it came from."""
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
