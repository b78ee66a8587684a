"""Getting the published files: several mirrors, checksums, downloads that can be resumed, and
archives of which nothing leaves the folder and nothing fills the disk."""

from __future__ import annotations

import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from uclearn.errors import DataError
from uclearn.tasks.sources.catalogue import dataset
from uclearn.tasks.sources.dataset import Download, data_folder
from uclearn.tasks.sources.verify import DataSetStatus, status

Progress = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in all if known
_ATTEMPTS = 3  # per mirror: a broken connection is taken up where it broke
_TIMEOUT = 30.0  # seconds without a byte


def get(
    name: str, folder: str | Path | None = None, progress: Progress | None = None
) -> DataSetStatus:
    """Download the data set `name` into `folder`, unpack it, and say what is there now.

    What is there already is left alone. Nothing takes its place in the folder before its checksum
    is right.
    """
    base = data_folder(folder)
    before = status(name, base)
    if before.state in ("verified", "unchecked"):
        return before
    for download in dataset(name).downloads:
        if download.unpack:
            archive = fetch(download, base / ".uclearn", progress)
            unpack(archive, base / download.into)
            archive.unlink()
        else:
            fetch(download, base / download.into, progress)
    return status(name, base)


def fetch(download: Download, into: Path, progress: Progress | None = None) -> Path:
    """The file `download`, in the folder `into`, from the first mirror that serves it whole."""
    import pooch

    pooch.get_logger().setLevel("WARNING")  # progress is reported through `progress`
    failures = []
    stream = _Resumable(into / f"{download.name}.part", progress)
    for mirror in download.mirrors:
        try:
            known = f"md5:{download.md5}"
            return Path(pooch.retrieve(mirror, known, download.name, into, downloader=stream))
        except (OSError, ValueError) as error:  # of the network; a wrong checksum
            failures.append(f"  {mirror}: {error}")
    tried = "\n".join(failures)
    raise DataError(
        f"{download.name} could not be downloaded to {into}:\n{tried}\n"
        "Try again later (it goes on where it stopped), or download it by other means and put it "
        "there."
    )


@dataclass(frozen=True)
class _Resumable:
    """A downloader for pooch that keeps what it has in `part` and goes on from there."""

    part: Path
    progress: Progress | None

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._continue(url)
                break
            except OSError:
                if attempt == _ATTEMPTS:
                    raise
        self.part.replace(output_file)  # whole; if its checksum is wrong, pooch throws it away

    def _continue(self, url: str) -> None:
        import requests

        have = self.part.stat().st_size if self.part.exists() else 0
        # No compression on the way: lengths and offsets must be those of the file itself.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                self.part.unlink()  # what we have is longer than the file: begin anew
                raise OSError("the server has less of the file than we have")
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                have = 0  # the server sends all of it, whatever we asked for
            length = response.headers.get("Content-Length")
            total = have + int(length) if length is not None else None
            with self.part.open("ab" if have else "wb") as file:
                for chunk in response.iter_content(2**16):
                    have += file.write(chunk)
                    if self.progress is not None:
                        self.progress(self.part.stem, have, total)
        if total is not None and have != total:
            raise OSError(f"the connection broke after {have} of {total} bytes")


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
        found = [(m.name, m.size, m.isfile() or m.isdir()) for m in file.getmembers()]
        _check_members(archive, found)
        for member in file.getmembers():
            target = into / member.name
            content = file.extractfile(member)
            if content is None:
                target.mkdir(parents=True, exist_ok=True)
                continue
            # not by extractall: without its filters, which Python 3.11.2 lacks, it hands on owners
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as into_file:
                shutil.copyfileobj(content, into_file)


def _unzip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        found = [
            (m.filename, m.file_size, not stat.S_ISLNK(m.external_attr >> 16))
            for m in file.infolist()
        ]
        _check_members(archive, found)
        file.extractall(into)


def _check_members(archive: Path, members: list[tuple[str, int, bool]]) -> None:
    """Refuse an archive by what it claims of its members: name, size, whether file or folder."""
    total = sum(size for _, size, _ in members)
    if total > _MOST_BYTES or len(members) > _MOST_FILES:
        raise DataError(
            f"{archive}: expected at most {_MOST_BYTES} bytes in {_MOST_FILES} files, "
            f"found {total} bytes in {len(members)}. Nothing was unpacked."
        )
    for name, _, plain in members:
        if not plain:
            raise DataError(f"{archive}: expected files and folders only, found {name}.")
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in name:
            raise DataError(
                f"{archive}: expected names inside the archive's own folder, found {name!r}. "
                "Nothing was unpacked."
            )
