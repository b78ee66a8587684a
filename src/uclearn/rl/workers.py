"""The near side of a worker: starts the process, gives orders, and notices if it dies."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from uclearn import errors
from uclearn.errors import SimulatorError
from uclearn.rl.spaces import Spaces

_PATIENCE = 2.0  # seconds for a worker to leave by itself


class Worker:
    """A process that steps `count` environments, numbered from `first` on.

    It is a fresh interpreter that imports neither the main program nor torch, so it starts fast and
    needs no `if __name__ == "__main__"`. It leaves when this object closes it or is gone, however
    this process ends. The first answer must be fetched with `spaces`.
    """

    def __init__(self, name: str, first: int, count: int) -> None:
        self.name, self.rows = name, slice(first, first + count)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "uclearn.rl.serving"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": _path(), "OMP_NUM_THREADS": "1"},
        )
        self._send(json.dumps({"name": name, "first": first, "count": count}).encode() + b"\n")

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def spaces(self) -> Spaces:
        """What the environments show and take, once they are built."""
        self._await()
        answer = self._json()
        low, high = (tuple(answer.pop(bound)) for bound in ("low", "high"))
        return Spaces(**answer, low=low, high=high)

    def reset(self, seed: int) -> None:
        """Order a new start; the answer is fetched with `receive`."""
        self._send(b"R" + struct.pack("<q", seed))

    def step(self, active: NDArray[np.bool_], actions: NDArray[np.float32]) -> None:
        """Order a step of this worker's rows of all actions; the answer comes by `receive`."""
        rows = self.rows
        self._send(b"S" + active[rows].tobytes() + actions[rows].tobytes())

    def receive(self, table: NDArray[np.void]) -> None:
        """Wait for the answer, and write it into this worker's rows of the table."""
        self._await()
        self._fill(table[self.rows].view(np.uint8).data)

    def dismiss(self) -> None:
        """Give no more orders: the process leaves by itself."""
        _close(self._process.stdin)

    def close(self) -> None:
        """End the process, by force if need be; harmless if it has ended already."""
        self.dismiss()
        self._end()
        _close(self._process.stdout)
        _close(self._process.stderr)

    def _end(self) -> int:
        try:
            return self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    # -- the pipes -------------------------------------------------------------------------

    def _send(self, order: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(order)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `receive` finds out why

    def _await(self) -> None:
        letter = bytearray(1)
        self._fill(memoryview(letter))
        if letter == b"E":
            refusal = self._json()
            raise getattr(errors, refusal["kind"])(refusal["message"])

    def _json(self) -> dict[str, Any]:
        length = bytearray(4)
        self._fill(memoryview(length))
        text = bytearray(*struct.unpack("<i", length))
        self._fill(memoryview(text))
        content: dict[str, Any] = json.loads(text)
        return content

    def _fill(self, buffer: memoryview) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readinto(buffer) < len(buffer):  # type: ignore[attr-defined]
            raise self._death()

    def _death(self) -> SimulatorError:
        assert self._process.stderr is not None
        code, words = self._end(), self._process.stderr.read().decode().strip()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        last_words = f" It said: {words[-2000:]}" if words else ""
        return SimulatorError(
            f"The worker process {self.pid} died ({how}) that stepped environments "
            f"{self.rows.start} to {self.rows.stop - 1} of {self.name!r}. Was memory short? Fewer "
            f"environments need less. A saved run can be resumed.{last_words}"
        )


def _path() -> str:
    """Where this process finds modules, in words for another."""
    return os.pathsep.join(os.path.abspath(folder) for folder in sys.path)  # noqa: PTH100


def _close(pipe: IO[bytes] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except BrokenPipeError:
        pass  # what was left to say has nobody to hear it
