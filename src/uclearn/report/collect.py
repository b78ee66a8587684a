"""From folders to runs: what is complete, what is not, what cannot be read, what is there twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uclearn.errors import DataError, UclearnError
from uclearn.report.settings import fingerprint, seed_of
from uclearn.storage.records import Run, find_runs, read_run


@dataclass(frozen=True)
class Unreadable:
    """A folder with a run that is damaged."""

    folder: Path
    reason: str


@dataclass(frozen=True)
class Collection:
    """All runs that were found."""

    complete: Sequence[Run]
    incomplete: Sequence[Run]
    repeated: Sequence[Run]
    """Complete, but another has the same configuration and seed: not counted a second time."""
    unreadable: Sequence[Unreadable]

    def __len__(self) -> int:
        parts = (self.complete, self.incomplete, self.repeated, self.unreadable)
        return sum(len(part) for part in parts)


def collect(folders: Sequence[Path]) -> Collection:
    """All runs at or below `folders`."""
    found: dict[Path, Path] = {}  # a folder may be reached by several of `folders`
    for folder in folders:
        for place in find_runs(folder):
            found.setdefault(place.resolve(), place)
    if not found:
        raise DataError(
            f"`folders` must hold at least one run, got {', '.join(map(str, folders)) or 'none'}. "
            "A run is a folder with config.json or summary.json, as `uclearn run` makes them."
        )
    runs, unreadable = [], []
    for place in found.values():
        try:
            runs.append(read_run(place))
        except UclearnError as error:
            unreadable.append(Unreadable(place, str(error)))
    complete, repeated = _once([run for run in runs if run.summary is not None])
    incomplete = [run for run in runs if run.summary is None]
    return Collection(complete, incomplete, repeated, unreadable)


def tasks_done(run: Run) -> int:
    """How many tasks a run has finished."""
    return sum(event.get("event") == "evaluation" for event in run.events)


def _once(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    first: dict[tuple[str, int], Run] = {}
    for run in runs:
        first.setdefault((fingerprint(run.config), seed_of(run.config)), run)
    kept = {id(run) for run in first.values()}
    return list(first.values()), [run for run in runs if id(run) not in kept]
