"""What any file comes to: examples, and for each its target, task, part and group."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.sources.folder import cached

PARTS = ("train", "valid", "test")
_SPELLED = {"training": "train", "validation": "valid", "val": "valid", "dev": "valid"}
_MUCH = 1e9
"""Bytes of memory that are worth a word."""
_log = logging.getLogger("uclearn")
_LAYOUT = "2"  # to be raised when what is cached means something else


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples as they are stored; whatever a file does not say is None or empty."""

    inputs: Tensor
    """(examples, ...) uint8 for pictures, else float32; NaN: a missing value."""
    targets: Tensor
    """(examples,) int64, the number of the class; float32 for regression."""
    classes: tuple[str, ...] = ()
    """Names of the classes in order; empty: regression."""
    tasks: Tensor | None = None
    """(examples,) int64."""
    task_names: tuple[str, ...] = ()
    parts: Tensor | None = None
    """(examples,) int64, a place in `PARTS`."""
    groups: Tensor | None = None
    """(examples,) int64: examples of one group stay together."""
    scaled: Tensor | None = None
    """(features,) bool: measured, so to be brought to a common scale; None: all are."""
    columns: tuple[str, ...] = ()
    """Names of the features, where they have any."""
    first_row: int | None = None
    """The number of the first example's row in its file; None: files of their own."""
    skipped: tuple[str, ...] = ()
    """Files that could not be read and were left out as asked."""

    def row(self, position: int) -> str:
        """Where an example stands, to be put behind a path in an error."""
        return "" if self.first_row is None else f", row {self.first_row + position}"

    def digest(self) -> str:
        """Twelve hexadecimal digits that stand for all of it."""
        total = hashlib.sha256(json.dumps(self._words()).encode())
        for name, tensor in self._tensors().items():
            total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            total.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
        return total.hexdigest()[:12]

    def _tensors(self) -> dict[str, Tensor]:
        names = ("inputs", "targets", "tasks", "parts", "groups", "scaled")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _words(self) -> dict[str, object]:
        names = ("classes", "task_names", "columns", "first_row", "skipped")
        return {name: getattr(self, name) for name in names}


def remembered(
    path: Path, files: Iterable[Path], asked: object, read: Callable[[], Examples]
) -> tuple[Examples, str]:
    """What `read` makes of `files`, with its digest; kept in the cache folder, never beside them,
    until one of them changes. `asked`: all else that it depends on."""
    key = hashlib.sha256(f"{_LAYOUT} {path.resolve()} {asked!r}".encode())
    for file in files:
        status = file.stat()
        key.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())

    def build() -> tuple[dict[str, Tensor], str]:
        found = read()
        return found._tensors(), json.dumps({"words": found._words(), "digest": found.digest()})

    tensors, note = cached(None, f"{path.name}.safetensors", key.hexdigest(), build)
    kept = json.loads(note)
    found: dict[str, Any] = {**tensors}
    for name, value in kept["words"].items():
        found[name] = tuple(value) if isinstance(value, list) else value
    return Examples(**found), kept["digest"]


def in_order(words: Iterable[str]) -> tuple[str, ...]:
    """The different words in order: numbers by value, others by the alphabet.

    >>> in_order(["10", "9", "10"]), in_order(["worn", "ok"])
    (('9', '10'), ('ok', 'worn'))
    """
    different = set(words)
    if all(_is_whole(word) for word in different):
        return tuple(sorted(different, key=int))
    return tuple(sorted(different))


def task_names(appeared: Sequence[str]) -> tuple[str, ...]:
    """Different words in the order of their tasks: numbers by value, others as they appear."""
    return in_order(appeared) if all(map(_is_whole, appeared)) else tuple(appeared)


def numbered(words: Sequence[str], names: Sequence[str]) -> Tensor:
    """(examples,) the place of each word among the names."""
    places = {name: place for place, name in enumerate(names)}
    return torch.tensor([places[word] for word in words], dtype=torch.int64)


def part_numbers(words: Sequence[str], where: Callable[[int], str]) -> Tensor:
    """(examples,) places in `PARTS`; `where` names an example in an error."""
    known = {**_SPELLED, **{part: part for part in PARTS}}
    for position, word in enumerate(words):
        if word.lower() not in known:
            raise DataError(
                f"{where(position)}: the part must be one of {', '.join(PARTS)}, found {word!r}."
            )
    return numbered([known[word.lower()] for word in words], PARTS)


PER_ROW = 48
"""Bytes that an example takes beside its features while tasks are made: its label, its task, its
part, and where it stands in each."""


def check_memory(path: Path, needed: float, remedy: str) -> None:
    """Refuse to begin what this machine's memory cannot hold; say how much it takes, if much."""
    free = free_memory()
    if needed > _MUCH:
        _log.warning("%s: reading it takes about %.2g GB of memory.", path, needed / 1e9)
    if free is not None and needed > free:
        raise DataError(
            f"{path}: reading it takes about {needed / 1e9:.3g} GB of memory, of which "
            f"{free / 1e9:.3g} GB are free. Nothing was read. {remedy}"
        )


def free_memory() -> float | None:
    """Bytes that can be taken without hurting others; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    told = dict(line.split(":", 1) for line in lines)
    available = told.get("MemAvailable", "").split()
    return 1024.0 * int(available[0]) if available else None


def _is_whole(word: str) -> bool:
    return word.removeprefix("-").isdecimal()
