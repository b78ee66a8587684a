"""A data set: which files its loader reads, where they lie on this disk, what comes out of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from uclearn.errors import DataError


@dataclass(frozen=True)
class Version:
    """One form in which a file may lie in the data folder; `md5` None: no checksum is known."""

    path: str
    md5: str | None = None


@dataclass(frozen=True)
class File:
    """A file, or a folder of pictures, that a data set needs: the first version found is used."""

    role: str
    versions: tuple[Version, ...]


@dataclass(frozen=True)
class Download:
    """A published file: `mirrors` are the addresses to try in turn, `into` is the place below the
    data folder where it goes, or where it is unpacked to (`unpack`)."""

    name: str
    md5: str
    size: int | None
    mirrors: tuple[str, ...]
    into: str
    unpack: bool = False


@dataclass(frozen=True)
class DataSet:
    """A data set: what its loader reads, and where that comes from.

    `content` is the SHA-256 of all pictures of a folder, decoded, in order: PNG files that hold the
    same pixels are the same data, however they are compressed.
    """

    name: str
    title: str
    home: str
    files: tuple[File, ...]
    downloads: tuple[Download, ...]
    content: str | None = None


def data_folder(given: str | Path | None = None) -> Path:
    """The folder that holds the data sets: `given` (the command line's `--data`), else what the
    environment variable UCLEARN_DATA says, else a place in the platform's cache folder.

    Nothing is created.
    """
    if given is not None:
        return at_home(given)
    if named := os.environ.get("UCLEARN_DATA"):
        return at_home(named)
    return cache_folder() / "data"


def at_home(place: str | Path) -> Path:
    """A path in which ~ stands for somebody's home folder, without it."""
    try:
        return Path(place).expanduser()
    except RuntimeError as error:
        raise DataError(
            f"{place}: no home folder is known for what follows the ~. Write the path in full, or "
            "./~... for a folder of that name."
        ) from error


def cache_folder() -> Path:
    """uclearn's place in the platform's cache folder (on Linux ~/.cache/uclearn)."""
    # Here, because it costs a tenth of a second that most runs need not pay.
    import pooch

    return Path(pooch.os_cache("uclearn"))


def present(file: File, folder: Path) -> Version | None:
    """The first version of `file` that lies in `folder`."""
    return next((v for v in file.versions if (folder / v.path).exists()), None)


def locate(wanted: DataSet, folder: Path) -> dict[str, Path]:
    """Role -> path of every file of `wanted`; where one is missing, an error says how to get it."""
    found = {file.role: present(file, folder) for file in wanted.files}
    absent = [file for file in wanted.files if found[file.role] is None]
    if absent:
        raise DataError(_missing(wanted, folder, absent))
    return {role: folder / version.path for role, version in found.items() if version is not None}


def _missing(wanted: DataSet, folder: Path, absent: list[File]) -> str:
    """Two lines; where the files come from `uclearn data get` says, should it fail to get them."""
    others = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
    return (
        f"The data set {wanted.name} is not complete in {folder}. Get it by `uclearn data get "
        f"{wanted.name}`, or say where it lies by `--data FOLDER` or UCLEARN_DATA.\n"
        f"Missing: {absent[0].versions[0].path}{others}."
    )


class Examples(NamedTuple):
    """Examples as they lie in the files: nothing scaled, nothing copied per task."""

    inputs: Tensor  # (examples, ...): uint8 for pictures
    labels: Tensor  # (examples,) int64, or float targets for regression
    names: tuple[str, ...] = ()  # of the classes, by label
    skipped: tuple[str, ...] = ()  # files that could not be read and were left out


class TrainTest(NamedTuple):
    """A data set that is published in two parts."""

    train: Examples
    test: Examples
