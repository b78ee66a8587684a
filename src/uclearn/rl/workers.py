"""A process of its own that steps many environments, seen from both sides. No torch here.

The near side (`Worker`) starts the process, gives orders, and notices if it dies. The far side
(`Server`) is a Python process, `python -m uclearn.rl.workers`, that reads orders from its standard
input and answers on its standard output, until the input ends (be it because whoever gave the
orders is gone). First comes a line of JSON, which environments to build; the answer is their
spaces, in JSON. Then each order is a letter and numbers, and so is each answer:

    R seed (8 bytes)                                   ->  K, one record per environment
    S one flag per environment, one action per env.    ->  K, one record per environment
    and if anything goes wrong                         ->  E, JSON: kind of error and message

JSON is preceded by its length (4 bytes).
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import struct
import subprocess
import sys
import traceback
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from uclearn import errors
from uclearn.errors import SimulatorError, UclearnError
from uclearn.rl.simulators import Spaces, Transition, make, read_spaces

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
            [sys.executable, "-P", "-m", "uclearn.rl.workers"],
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


class Server:
    """Some of the environments `name`: `count` of them, numbered from `first` on."""

    def __init__(self, name: str, first: int, count: int) -> None:
        self.name, self.first, self.count = name, first, count
        self.environments = [make(name) for _ in range(count)]
        self.spaces = read_spaces(name, self.environments[0])
        self.rows = np.zeros(count, self.spaces.record())  # the answer, rewritten by each order
        self._columns = Transition(*(self.rows[field] for field in Transition._fields))
        self._action_shape = (count, *(self.environments[0].action_space.shape or ()))

    def reset(self, seed: int) -> None:
        """Start every environment anew, number i from (seed, i)."""
        self._quiet()
        for i in range(self.count):
            sequence = np.random.SeedSequence([seed, self.first + i])
            self._begin(i, int(sequence.generate_state(1)[0]))
        self._columns.final_observations[:] = self._columns.observations

    def step(self, active: NDArray[np.bool_], actions: NDArray[np.float32]) -> None:
        """Move each active environment on; where an episode ends, begin the next."""
        self._quiet()
        shaped = actions.reshape(self._action_shape)
        for i in np.flatnonzero(active).tolist():
            self._step(i, shaped[i])

    def _quiet(self) -> None:
        """Prepare an answer that says of every environment: it stayed as it was."""
        shown, rewards, terminated, truncated, final = self._columns
        rewards[:], terminated[:], truncated[:], final[:] = 0.0, False, False, shown

    def _begin(self, i: int, seed: int | None = None) -> None:
        try:
            shown, _ = self.environments[i].reset(seed=seed)
        except Exception as error:
            raise self._failure(i, "reset", error) from error
        self._columns.observations[i] = np.reshape(shown, -1)

    def _step(self, i: int, action: NDArray[np.float32]) -> None:
        try:
            shown, reward, terminated, truncated, _ = self.environments[i].step(action)
        except Exception as error:
            raise self._failure(i, "step", error) from error
        columns = self._columns
        columns.observations[i] = columns.final_observations[i] = np.reshape(shown, -1)
        columns.rewards[i] = reward
        columns.terminated[i] = terminated
        columns.truncated[i] = truncated and not terminated
        if terminated or truncated:
            self._begin(i)

    def _failure(self, i: int, where: str, error: Exception) -> SimulatorError:
        return SimulatorError(
            f"Environment {self.first + i} of {self.name!r} failed in `{where}`: "
            f"{type(error).__name__}: {error}"
        )


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """Build what the first order names, then obey until the orders end."""
    server = Server(**json.loads(orders.readline()))
    send_json(answers, b"K", server.spaces._asdict())
    flags, width = server.count, server.spaces.action_size
    while order := orders.read(1):
        if order == b"R":
            server.reset(*struct.unpack("<q", orders.read(8)))
        else:
            active = np.frombuffer(orders.read(flags), np.bool_)
            actions = np.frombuffer(orders.read(4 * flags * width), np.float32)
            if actions.size < flags * width:
                break  # whoever was giving the order is gone
            server.step(active, actions.reshape(flags, width))
        answers.write(b"K" + server.rows.tobytes())
        answers.flush()


def send_json(answers: BinaryIO, letter: bytes, content: dict[str, Any]) -> None:
    """An answer in words."""
    text = json.dumps(content).encode()
    answers.write(letter + struct.pack("<i", len(text)) + text)
    answers.flush()


def main() -> None:
    """The worker's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who gives the orders
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    last_words = os.dup(2)
    with Path(os.devnull).open("r+b") as nowhere:  # where simulators' own prints go
        for stream in (0, 1, 2):
            os.dup2(nowhere.fileno(), stream)
    faulthandler.enable(last_words)
    try:
        serve(orders, answers)
    except UclearnError as error:
        refusal = {"kind": type(error).__name__, "message": str(error)}
        send_json(answers, b"E", refusal)
    except BrokenPipeError:
        os._exit(0)  # nobody is left to answer to
    except Exception:
        os.write(last_words, traceback.format_exc()[-4000:].encode())
        raise


if __name__ == "__main__":
    main()
