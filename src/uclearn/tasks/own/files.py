"""Which reader a path is for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from uclearn.errors import DataError, SettingError
from uclearn.tasks.own.arrow import is_saved, read_parquet, read_saved, saved_files
from uclearn.tasks.own.columns import Roles
from uclearn.tasks.own.examples import Examples
from uclearn.tasks.own.npz import read_npz
from uclearn.tasks.own.pictures import picture_files, read_pictures
from uclearn.tasks.own.text import read_csv

if TYPE_CHECKING:
    from uclearn.tasks.own.source import Asked

_TABLES = {".npz": "npz", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}


def kind_of(path: str) -> str:
    """Of data: pictures, datasets, npz, csv or parquet."""
    place = Path(path)
    if not place.exists():
        raise DataError(f"{path}: expected data of your own, found nothing. Check the path.")
    if place.is_dir():
        return "datasets" if is_saved(place) else "pictures"
    kind = _TABLES.get(place.suffix.lower())
    if kind is None:
        raise DataError(
            f"{path}: expected a folder of pictures or a file that ends in {', '.join(_TABLES)}, "
            f"found {place.suffix or 'a file without ending'}."
        )
    return kind


def files_of(path: Path) -> list[Path]:
    """All files that what lies at `path` consists of."""
    kind = kind_of(str(path))
    if kind == "datasets":
        return saved_files(path)
    return picture_files(path) if kind == "pictures" else [path]


def read(asked: Asked) -> Examples:
    """The examples at a path."""
    path = Path(asked.path)
    kind = kind_of(asked.path)
    refuse_unfitting(asked, kind)
    if kind == "pictures":
        return read_pictures(path, asked.size, asked.grey, asked.skip_broken)
    if kind == "parquet":
        return read_parquet(path, roles_of(asked))
    if kind == "datasets":
        return read_saved(path, roles_of(asked), asked.size, asked.grey)
    if kind == "npz":
        return read_npz(path, regression=asked.target is not None)
    return read_csv(path, roles_of(asked))


_OF_PICTURES = ("size", "grey", "skip_broken")
_OF_COLUMNS = (
    *("label", "target", "task_column", "split_column", "group_column", "drop", "categories"),
)


def refuse_unfitting(asked: Asked, kind: str) -> None:
    """What is said about columns means nothing for pictures, and the other way round."""
    by_kind = {
        "pictures": _OF_COLUMNS,
        "npz": (*_OF_PICTURES, *_OF_COLUMNS),
        "datasets": ("skip_broken",),
    }
    unfit = by_kind.get(kind, _OF_PICTURES)
    wrong = [key for key in asked.said() if key in unfit]
    if kind == "npz":
        wrong = [key for key in wrong if (key, asked.target) != ("target", "y")]
    if wrong:
        option = "--" + wrong[0].replace("_", "-")
        raise SettingError(f"`{option}` says nothing about {asked.path} ({kind}). Leave it out.")


def roles_of(asked: Asked) -> Roles:
    """What is said about the columns of a table."""
    return Roles(
        asked.label,
        asked.target,
        asked.task_column,
        asked.split_column,
        asked.group_column,
        asked.drop,
        asked.categories,
    )
