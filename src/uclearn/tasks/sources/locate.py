"""From a data set's description to the files on this disk."""

from __future__ import annotations

from pathlib import Path

from uclearn.errors import DataError
from uclearn.tasks.sources.dataset import DataSet, File, Version


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
    places = "\n".join(f"  {folder / file.versions[0].path}" for file in absent)
    sources = "\n".join(f"  {download.mirrors[0]}" for download in wanted.downloads)
    return (
        f"The data set {wanted.name} is not complete in {folder}. Missing:\n{places}\n"
        f"Two ways to get it: let `uclearn data get {wanted.name}` download it there, or download "
        f"it yourself and unpack it into that folder:\n{sources}\n"
        "Another folder: `--data FOLDER`, or the environment variable UCLEARN_DATA."
    )
