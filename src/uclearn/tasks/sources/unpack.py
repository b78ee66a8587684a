"""Unpacking archives from the internet: nothing leaves the folder, nothing fills the disk."""

from __future__ import annotations

import shutil
import stat
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from uclearn.errors import DataError

_MOST_BYTES = 2**31  # unpacked; the largest published set has about 0.5 GB
_MOST_FILES = 2**20


def unpack(archive: Path, into: Path) -> None:
    """Unpack a tar or zip file into the folder `into`, replacing what has the same name there.

    First aside, then moved into place, so that an interrupted run leaves nothing half done.
    """
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into, prefix=".unpacking-") as aside:
        try:
            if zipfile.is_zipfile(archive):
                _unzip(archive, Path(aside))
            else:
                _untar(archive, Path(aside))
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
            raise DataError(
                f"{archive}: expected a whole tar or zip archive, found one that cannot be "
                f"unpacked ({error})."
            ) from error
        for item in Path(aside).iterdir():
            target = into / item.name
            if target.is_dir():
                shutil.rmtree(target)
            item.replace(target)


def _untar(archive: Path, into: Path) -> None:
    with tarfile.open(archive) as file:
        members = file.getmembers()
        _check_total(archive, sum(member.size for member in members), len(members))
        for member in members:
            if not (member.isfile() or member.isdir()):
                raise DataError(f"{archive}: expected files and folders only, found {member.name}.")
            _check_name(archive, member.name)
        file.extractall(into, members, filter="data")


def _unzip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        members = file.infolist()
        _check_total(archive, sum(member.file_size for member in members), len(members))
        for member in members:
            if stat.S_ISLNK(member.external_attr >> 16):
                raise DataError(
                    f"{archive}: expected files and folders only, found {member.filename}."
                )
            _check_name(archive, member.filename)
        file.extractall(into, members)


def _check_total(archive: Path, size: int, count: int) -> None:
    if size > _MOST_BYTES or count > _MOST_FILES:
        raise DataError(
            f"{archive}: expected at most {_MOST_BYTES} bytes in {_MOST_FILES} files, "
            f"found {size} bytes in {count}. Nothing was unpacked."
        )


def _check_name(archive: Path, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name:
        raise DataError(
            f"{archive}: expected names inside the archive's own folder, found {name!r}. "
            "Nothing was unpacked."
        )
