"""The results of a run on disk, and how to read them. Needs no torch.

A run is a folder (`recorder` writes it):

    config.json      what was asked for, fully resolved, and on what it was begun
    events.jsonl     one line per evaluation, in order; it only grows
    summary.json     the outcome; written last, so where it stands the run is complete
    checkpoint.*     for whoever resumes it (see `checkpoint`)
    .lock            held by the process that writes (see `files.FolderLock`)

Every document (a configuration, an event, a summary) carries the number of the schema it was
written by and its checksum; a newer or a damaged one is refused. A setting that is added later gets
the value that runs had before it as its default, and an entry in `ADDED_LATER`: with that value it
is left out of what is written. So a run of today is spelled as one of then, has the same
fingerprint and folder, and goes on with its checkpoint.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from uclearn.errors import DataError, UclearnError
from uclearn.storage.files import ends_whole
from uclearn.storage.sealed import Document, read_sealed, read_sealed_lines
from uclearn.storage.shapes import check_config, check_event, check_summary

SCHEMA = 2
"""From 2 on every document and every line carries a checksum (see `sealed`)."""

ADDED_LATER: dict[str, dict[str, Any]] = {
    "plan": {"precision": "float32", "schedule": "constant", "warmup": None},
    "data": {"copies": None},
    "network": {"kind": "mlp", "start": "he"},
    "ucl": {
        "hold": "weights",
        "pretrained": False,
        "silence_idle": False,
        "heads_follow": False,
    },
    "ewc": {"fisher": "auto"},
    "joint": {"once": False},
    "vcl": {"sampling": "weight"},
}
"""Settings that are newer than runs that exist, by part of a configuration or of a method, with the
values that those runs had."""


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


FORMAT = "uclearn.run"
CONFIG_NAME = "config.json"
EVENTS_NAME = "events.jsonl"
SUMMARY_NAME = "summary.json"


@dataclass(frozen=True)
class Summary:
    """The outcome of a run. With T tasks, and accuracies as fractions between 0 and 1."""

    config: Mapping[str, Any]
    """Everything the run was made with: benchmark, method, seed, every setting."""
    accuracy_matrix: Sequence[Sequence[float | None]]
    """(T, T): `[i][j]` is the accuracy on task j after learning task i, None if not measured."""
    average_accuracy: float | None
    """Over all tasks, after the last; None for a run that does not classify."""
    forgetting: float | None
    """Loss of accuracy on earlier tasks, as a fraction; None with less than two tasks."""
    seconds: float
    """Spent on the run, over all its resumptions."""
    peak_memory: int | None
    """In bytes; None where the system does not say."""
    parameters_kept: int
    """Numbers that the method has to keep to learn the next task."""
    versions: Mapping[str, str]
    """Of the packages; with `git_commit` and `machine` what `environment()` returns."""
    git_commit: str | None = None
    machine: Mapping[str, str | int | None] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else is worth keeping, in the types of JSON."""

    def __post_init__(self) -> None:
        _check_fraction("average_accuracy", self.average_accuracy, lowest=0)
        _check_fraction("forgetting", self.forgetting, lowest=-1)
        for i, row in enumerate(self.accuracy_matrix):
            if len(row) != len(self.accuracy_matrix[0]):
                raise DataError(
                    "`accuracy_matrix` must have rows of one length, got "
                    f"{[len(row) for row in self.accuracy_matrix]}. Use None for what was not "
                    "measured."
                )
            for j, accuracy in enumerate(row):
                _check_fraction(f"accuracy_matrix[{i}][{j}]", accuracy, lowest=0)

    def to_document(self) -> Document:
        """As it stands in summary.json."""
        return {"format": FORMAT, "schema": SCHEMA, **plain(vars(self), "summary")}

    @classmethod
    def from_document(cls, document: Document, source: str) -> Self:
        """From what stands in summary.json; `source` says in errors where it came from."""
        names = [entry.name for entry in fields(cls)]
        missing = [name for name in names if name not in document]
        if missing:
            raise DataError(f"{source} lacks {', '.join(missing)}. It is damaged; run again.")
        check_summary(document, source)
        return cls(**{name: document[name] for name in names})


@dataclass(frozen=True)
class Run:
    """All that is known of a run, finished or not."""

    folder: Path
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    """Of the process that began it; empty if only its summary was kept."""
    events: Sequence[Document]
    summary: Summary | None
    """None until the run is complete."""


def read_run(folder: Path) -> Run:
    """The run in `folder`, even while another process writes it.

    A folder that holds only summary.json will do: it repeats the configuration.
    """
    outcome = read_document(folder / SUMMARY_NAME)
    summary = None if outcome is None else _summary(outcome, folder)
    begun = read_document(folder / CONFIG_NAME)
    if begun is None:
        if summary is None:
            raise DataError(
                f"{folder} holds no run: neither {CONFIG_NAME} nor {SUMMARY_NAME} is there."
            )
        begun = {"config": summary.config}
    events = _read_events(folder / EVENTS_NAME, outcome)
    return Run(folder, begun["config"], begun.get("environment") or {}, events, summary)


def read_runs(folder: Path) -> tuple[list[Run], list[tuple[Path, str]]]:
    """All runs at or below `folder`, and the places of damaged ones with what is wrong there."""
    sound, damaged = [], []
    for place in find_runs(folder):
        try:
            sound.append(read_run(place))
        except UclearnError as error:
            damaged.append((place, str(error)))
    return sound, damaged


def read_summary(folder: Path) -> Summary | None:
    """The outcome of the run in `folder`; None if it is not complete."""
    document = read_document(folder / SUMMARY_NAME)
    return None if document is None else _summary(document, folder)


def _summary(document: Document, folder: Path) -> Summary:
    return Summary.from_document(document, str(folder / SUMMARY_NAME))


def read_document(path: Path) -> Document | None:
    """What the JSON file `path` of a run holds; None if there is none."""
    if not path.exists():
        return None
    document = read_sealed(path)
    if document.get("format") != FORMAT:
        raise DataError(
            f"{path} was not written by uclearn, or is damaged. Choose another folder, or restore "
            "the file."
        )
    check_schema(document, str(path))
    check_config(document.get("config"), str(path))
    return document


def find_runs(folder: Path) -> list[Path]:
    """All folders at or below `folder` that hold a run, in alphabetical order.

    Hidden folders are not entered, links not followed. Files of the same names by other programs
    are passed over; a run whose files are damaged or gone is found as long as one is left, and
    `read_run` says what is wrong.
    """
    if not folder.is_dir():
        raise DataError(f"`folder` must be a folder, got {folder}. Check the path.")
    found = []
    for place, subfolders, files in os.walk(folder):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        candidates = [Path(place, name) for name in (CONFIG_NAME, SUMMARY_NAME) if name in files]
        if any(_is_ours(path.read_bytes()) for path in candidates) or (
            EVENTS_NAME in files and _is_record(Path(place, EVENTS_NAME).read_bytes())
        ):
            found.append(Path(place))
    return sorted(found)


def _is_ours(data: bytes) -> bool:
    """By more than one mark: with a single one, one damaged byte would hide a run."""
    return any(mark in data for mark in _MARKS)


def _is_record(data: bytes) -> bool:
    """Whether lines are events of a run, whose other files may be spoiled or gone."""
    return data.startswith(b'{"schema": ') and b'"event": ' in data[:1000]


_MARKS = (FORMAT.encode(), b'"accuracy_matrix"', b'"parameters_kept"', b'"git_commit"')


def _read_events(path: Path, outcome: Document | None) -> list[Document]:
    if not path.exists():
        return []
    if outcome is not None and not ends_whole(path):  # the summary was written after the last line
        raise DataError(f"The last line of {path} is damaged, though the run was complete.")
    lines = read_sealed_lines(path)
    expected = len(lines) if outcome is None else outcome.get("events", len(lines))
    if len(lines) != expected:
        raise DataError(
            f"{path} is damaged: {len(lines)} of {expected} lines of a complete run are there."
        )
    for number, event in enumerate(lines, start=1):
        check_event(check_schema(event, f"Line {number} of {path}"), f"Line {number} of {path}")
    return lines


def _check_fraction(name: str, value: float | None, *, lowest: int) -> None:
    # `not (a <= value <= b)` would refuse nan, which stands for "not measured" as None does.
    if value is not None and (value < lowest or value > 1):
        raise DataError(
            f"`{name}` must lie between {lowest} and 1, got {value}. It is a fraction, not a "
            "percentage."
        )
