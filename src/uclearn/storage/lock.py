"""One process per folder.

The lock belongs to the open file, not to the file's existence: the system releases it when its
owner dies, however it dies, so there is no stale lock to clean up.
"""

import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from uclearn.storage.files import StorageError, refusal

LOCK_NAME = ".lock"


class FolderBusyError(StorageError):
    """Another process works in this folder."""


class FolderLock:
    """Holds `folder` for this process, `with FolderLock(folder, "uclearn run"): ...`.

    `message` says what the owner does; whoever comes second reads it. Taking the lock never
    waits: it succeeds or raises `FolderBusyError`. Children that are forked while it is held share
    it, and keep it if they outlive their parent: they still work in the folder.
    """

    def __init__(self, folder: Path, message: str) -> None:
        self.folder = folder
        self.message = message
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise `FolderBusyError` that names the owner."""
        from filelock import lock_descriptor  # here: it takes a tenth of a second

        if self._descriptor is not None:
            raise FolderBusyError(f"This lock on {self.folder} is already held; release it first.")
        path = self.folder / LOCK_NAME
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            remedy = "Check that the folder exists and may be written to."
            raise refusal("lock", self.folder, error, remedy) from error
        try:
            free = lock_descriptor(descriptor, blocking=False)
            if free:
                self._sign(descriptor)
        except OSError as error:
            os.close(descriptor)
            remedy = "Choose a folder on a file system that supports locks and has space left."
            raise refusal("lock", self.folder, error, remedy) from error
        if not free:
            os.close(descriptor)
            raise FolderBusyError(
                f"Folder {self.folder} is in use by {_owner(path)}. Wait until it has ended, or "
                "choose another folder."
            )
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._descriptor is None:
            return
        from filelock import unlock_descriptor

        # The file stays: were it deleted, a process that has just opened it would lock a file
        # without a name, and a third one a new file. Only the signature goes.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        unlock_descriptor(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = None

    def _sign(self, descriptor: int) -> None:
        owner = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "message": self.message,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def _owner(path: Path) -> str:
    """Who holds the lock, in words; the owner may be about to sign, so nothing is certain."""
    try:
        owner = json.loads(path.read_bytes())
        place = f"on {owner['host']}, since {owner['since']}"
        return f"process {owner['pid']} ({owner['message']}) {place}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
