"""What data there are in a folder, and whether they are what was published."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.sources import notmnist, omniglot
from uclearn.tasks.sources.catalogue import CATALOGUE, dataset
from uclearn.tasks.sources.dataset import DataSet, File, data_folder, present
from uclearn.tasks.sources.notmnist import SMALL_TEST

State = Literal["verified", "unchecked", "missing", "damaged", "incomplete"]


@dataclass(frozen=True)
class FileStatus:
    """One file, or folder of pictures; `unchecked`: there, but no checksum is known for it."""

    role: str
    path: Path
    state: State
    detail: str = ""


@dataclass(frozen=True)
class DataSetStatus:
    """One data set: `incomplete` if some of its files are missing, else the worst of its files."""

    name: str
    title: str
    state: State
    detail: str
    files: tuple[FileStatus, ...]


def listing(folder: str | Path | None = None) -> list[DataSetStatus]:
    """The state of every data set of the catalogue in `folder`, checksums included."""
    return [status(name, folder) for name in CATALOGUE]


def status(name: str, folder: str | Path | None = None) -> DataSetStatus:
    """The state of one data set in `folder`, checksums included."""
    entry, base = dataset(name), data_folder(folder)
    files = tuple(_file_status(file, base) for file in entry.files)
    states = {file.state for file in files}
    state: State
    if states == {"missing"}:
        state, detail = "missing", f"would go to {files[0].path.parent}"
    elif "missing" in states:
        absent = [str(file.path) for file in files if file.state == "missing"]
        state, detail = "incomplete", f"missing: {', '.join(absent)}"
    elif "damaged" in states:
        state, detail = "damaged", "; ".join(file.detail for file in files if file.detail)
    elif states == {"verified"}:
        state, detail = "verified", str(files[0].path.parent)
    else:
        state, detail = _content_status(entry, base)
    return DataSetStatus(entry.name, entry.title, state, detail, files)


def md5_of(path: Path) -> str:
    """The MD5 of a file: what the authors publish. It tells damage, not forgery."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def content_of(*tensors: Tensor) -> str:
    """The SHA-256 of the bytes of `tensors`, one after the other."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def _file_status(file: File, base: Path) -> FileStatus:
    version = present(file, base)
    if version is None:
        return FileStatus(file.role, base / file.versions[0].path, "missing")
    path = base / version.path
    if version.md5 is None or path.is_dir():
        return FileStatus(file.role, path, "unchecked")
    found = md5_of(path)
    if found == version.md5:
        return FileStatus(file.role, path, "verified")
    detail = f"{path}: expected md5 {version.md5}, found {found}"
    return FileStatus(file.role, path, "damaged", detail)


def _content_status(entry: DataSet, base: Path) -> tuple[State, str]:
    """For folders of pictures: compare what they hold, whatever it is compressed with."""
    if entry.content is None:
        return "unchecked", "no checksum is known for these files"
    try:
        content = _CONTENT[entry.name](base)
    except DataError as error:
        return "damaged", str(error)
    found = content_of(*content)
    if found != entry.content:
        return "damaged", f"expected pictures with SHA-256 {entry.content}, found {found}"
    return "verified", f"{base}{_TWINS.get(entry.name, _untold)(content[0])}"


def twins(pictures: Tensor, share: float) -> tuple[int, float]:
    """How many pictures have a twin among the others, byte for byte, and how many are to be
    expected in a test part of that share whose twin is in the training part.

    >>> import torch
    >>> twins(torch.tensor([[1], [1], [2], [3]], dtype=torch.uint8), 0.5)
    (2, 0.5)
    """
    alike = Counter(picture.tobytes() for picture in pictures.contiguous().numpy()).values()
    sizes = [count for count in alike if count > 1]
    return sum(sizes), sum(count * share * (1 - share ** (count - 1)) for count in sizes)


def _told_of_twins(pictures: Tensor) -> str:
    several, across = twins(pictures, SMALL_TEST)
    test = round(SMALL_TEST * len(pictures))
    return (
        f"; {several:,} of {len(pictures):,} pictures are there more than once, so that about "
        f"{across:,.0f} of the {test:,} to test by are in the training data, too"
    )


def _untold(pictures: Tensor) -> str:
    return ""


_TWINS: dict[str, Callable[[Tensor], str]] = {"notmnist-small": _told_of_twins}
"""Of sets whose examples are divided by chance, what that tears apart."""
_CONTENT: dict[str, Callable[[Path], tuple[Tensor, ...]]] = {
    "notmnist-small": lambda base: notmnist.load("small", base)[:2],
    "omniglot": lambda base: omniglot.load(base)[:3],
}
