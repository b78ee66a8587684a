"""Settings that were found, as a TOML file that `--config` takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from uclearn.storage.files import write_text


def preset_text(
    benchmark: str,
    method: str,
    preset: str,
    settings: Mapping[str, Any],
    remarks: Iterable[str] = (),
) -> str:
    """The file: a comment for each remark, what is learned and how, a table for each part.

    >>> print(preset_text("split-digits", "ewc", "best", {"ewc.strength": 40.0}, ["By hand."]))
    # By hand.
    benchmark = "split-digits"
    method = "ewc"
    preset = "best"
    <BLANKLINE>
    [ewc]
    strength = 40.0
    <BLANKLINE>
    """
    words = {"benchmark": benchmark, "method": method, "preset": preset}
    words |= {key: value for key, value in settings.items() if "." not in key}
    lines = [f"# {remark}" for remark in remarks]
    lines += [f"{key} = {_toml(value)}" for key, value in words.items()]
    groups: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        group, dot, setting = key.partition(".")
        if dot:
            groups.setdefault(group, {})[setting] = value
    for group, own in groups.items():
        lines += ["", f"[{group}]", *(f"{key} = {_toml(value)}" for key, value in own.items())]
    return "\n".join(lines) + "\n"


def write_preset(path: Path, text: str) -> None:
    """Write the file, whole or not at all."""
    write_text(path, text)


def _toml(value: Any) -> str:
    """Numbers, words, true, false and lists look alike in TOML and JSON; TOML has no none."""
    return '"none"' if value is None else json.dumps(value)
