"""What the parts of a record must be. Records of the first schema carry no checksum, so whatever a
slip of the hand or of the disk left in one is found here, before anybody reckons with it."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

from uclearn.errors import DataError

Kinds = tuple[type, ...]

_NUMBER: Kinds = (int, float)
_WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}
_CONFIG: dict[str, Kinds] = {
    "benchmark": (str,),
    "method": (str,),
    "preset": (str, NoneType),
    "seed": (int,),
    "scale": (*_NUMBER, NoneType),
    "changed": (list,),
}
_SUMMARY: dict[str, Kinds] = {
    "config": (dict,),
    "accuracy_matrix": (list,),
    "average_accuracy": (*_NUMBER, NoneType),
    "forgetting": (*_NUMBER, NoneType),
    "seconds": _NUMBER,
    "peak_memory": (int, NoneType),
    "parameters_kept": (int,),
    "versions": (dict,),
    "git_commit": (str, NoneType),
    "machine": (dict,),
    "extra": (dict,),
}


def check_config(config: object, source: str) -> None:
    """Refuse what no run was made with; `source` says in errors where it came from."""
    _check({"config": config}, {"config": (dict,)}, source)
    assert isinstance(config, dict)
    _check(config, _CONFIG, source, "config.")
    for word in config.get("changed", ()):
        _check({"changed": word}, {"changed": (str,)}, source, "each of config.")


def check_summary(document: Mapping[str, Any], source: str) -> None:
    """Refuse what is no summary."""
    _check(document, _SUMMARY, source)
    for row in document["accuracy_matrix"]:
        _check({"row": row}, {"row": (list,)}, source, "accuracy_matrix, ")
        for value in row:
            _check({"value": value}, {"value": (*_NUMBER, NoneType)}, source, "accuracy_matrix, ")


def check_event(document: Mapping[str, Any], source: str) -> None:
    """Refuse a line that does not say which event it tells of."""
    _check({"event": document.get("event")}, {"event": (str,)}, source)


def _check(
    values: Mapping[str, Any], shapes: Mapping[str, Kinds], source: str, place: str = ""
) -> None:
    for name, kinds in shapes.items():
        # a bool is an int in Python, but not in a file
        if name in values and type(values[name]) not in kinds:
            meant = " or ".join(dict.fromkeys(_WORDS[kind] for kind in kinds))
            raise DataError(
                f"{source} is damaged: `{place}{name}` must be {meant}, got "
                f"{str(values[name])[:40]!r}. Restore it from a copy, or run again."
            )
