"""Runs kept at a URL, such as s3://bucket/runs, and worked on in a copy on this machine.

The URL is whatever fsspec understands (extra `cluster`, and the package for that kind of storage).
A run is fetched before it is gone on with, and sent whenever it has saved its state. Files are sent
in an order that makes sense at any moment: events before the checkpoint that counts them, the
summary last. Such storage has no locks: two commands at once may make the same run twice, with the
same result.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from uclearn.errors import DataError
from uclearn.storage.checkpoint import CHECKPOINT_NAME
from uclearn.storage.files import StorageError
from uclearn.storage.records import CONFIG_NAME, EVENTS_NAME, SUMMARY_NAME

FILES = (CONFIG_NAME, EVENTS_NAME, CHECKPOINT_NAME, SUMMARY_NAME)
"""What of a run is sent, in this order."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(::|://)")


def is_url(place: str) -> bool:
    """Whether a place is meant for fsspec.

    >>> is_url("s3://bucket/runs"), is_url("runs"), is_url("/data/runs")
    (True, False, False)
    """
    return _URL.match(place) is not None


class Mirror:
    """Runs at `url`, with a copy below `above` on this machine.

    Args:
        url: where runs are kept.
        above: the folder for copies of any URL; each has its own below it.
    """

    def __init__(self, url: str, above: Path) -> None:
        self.url = url
        digest = hashlib.sha256(url.encode()).hexdigest()[:16]
        self.folder = above / digest
        """The copy: runs have the same names in it as at the URL."""
        self._files, self._root = _opened(url)

    def fetch(self, name: str) -> bool:
        """Make the copy of a run what is kept; whether there is any. Without one the copy stays."""
        try:
            kept = [file for file in FILES if self._files.exists(self._at(name, file))]
            if CONFIG_NAME not in kept:
                return False
            folder = self.folder / name
            folder.mkdir(parents=True, exist_ok=True)
            for file in FILES:
                if file in kept:
                    self._files.get_file(self._at(name, file), str(folder / file))
                else:
                    (folder / file).unlink(missing_ok=True)
        except Exception as error:  # each kind of storage has its own
            raise self._refused("fetch", name, error) from error
        return True

    def is_done(self, name: str) -> bool:
        """Whether a run is kept that is complete."""
        try:
            return bool(self._files.exists(self._at(name, SUMMARY_NAME)))
        except Exception as error:
            raise self._refused("look for", name, error) from error

    def send(self, name: str) -> None:
        """Keep what the copy of a run has by now."""
        folder = self.folder / name
        try:
            self._files.makedirs(f"{self._root}/{name}", exist_ok=True)
            for file in FILES:
                if (folder / file).exists():
                    self._files.put_file(str(folder / file), self._at(name, file))
        except Exception as error:
            raise self._refused("send", name, error) from error

    def _at(self, name: str, file: str) -> str:
        return f"{self._root}/{name}/{file}"

    def _refused(self, what: str, name: str, error: Exception) -> StorageError:
        return StorageError(
            f"Could not {what} {name} at {self.url}: {' '.join(str(error).split())}. Check the "
            "address and the permissions; the same command goes on."
        )


def _opened(url: str) -> tuple[Any, str]:
    """The file system and the path in it."""
    try:
        import fsspec
    except ImportError as error:
        raise DataError(
            f'Runs at {url} need a package that is not installed: pip install "uclearn[cluster]"'
        ) from error
    try:
        files, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # an unknown kind, or its package is missing
        raise DataError(f"Runs cannot be kept at {url}: {' '.join(str(error).split())}") from error
    return files, str(root).rstrip("/")
