"""Runs as tasks of a Ray cluster (extra `cluster`).

All machines must see the output folder and the data under the same paths and have the same version
of uclearn installed.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from uclearn.errors import SettingError
from uclearn.runs.engines import JobListener
from uclearn.runs.engines.dispatch import PATIENCE, RETRIES, Dispatch, RemoteOutcome
from uclearn.runs.job import Job, execute

_SECONDS_TO_ANSWER = 5.0


@dataclass(frozen=True)
class RayEngine:
    """A Ray cluster; a run is a task that takes `threads` CPUs and `gpus` GPUs."""

    address: str | None = None
    """`host:port` of its head; None: the one that RAY_ADDRESS names or that runs on this machine,
    else one that is started for these runs."""
    threads: int = 1
    gpus: float = 0
    retries: int = RETRIES
    patience: float = PATIENCE

    def run(self, jobs: Sequence[Job], at_once: int | None, listener: JobListener) -> None:
        """Let the cluster make them."""
        with _connected(self.address) as ray:
            _check_room(ray, self.threads, self.gpus)
            tasks = _Tasks(ray, self.threads, self.gpus)
            Dispatch(tasks, listener, self.retries, self.patience).run(jobs, at_once)


def make_quietly(job: Job) -> RemoteOutcome:
    """Make the run on the machine that Ray chose; its news stand in its folder."""
    return execute(job, lambda event, details: None)


class _Tasks:
    """Jobs as tasks of Ray; handles are references to what they return."""

    def __init__(self, ray: ModuleType, threads: int, gpus: float) -> None:
        self.ray = ray
        # a lost run is submitted again by whoever sees it, so that it can be told
        self.make: Any = ray.remote(make_quietly).options(
            num_cpus=threads, num_gpus=gpus, max_retries=0
        )

    def submit(self, job: Job) -> Any:
        return self.make.remote(job)

    def collect(self, handles: Sequence[Any], seconds: float) -> dict[Any, RemoteOutcome]:
        ready, _ = self.ray.wait(list(handles), num_returns=1, timeout=seconds)
        return {handle: self._outcome(handle) for handle in ready}

    def _outcome(self, handle: Any) -> RemoteOutcome:
        gone = self.ray.exceptions
        try:
            state, message = self.ray.get(handle)
            return state, message
        except gone.TaskCancelledError:
            return "stopped", "stopped as asked"
        except gone.RayTaskError as error:  # before `execute`, which catches everything else
            return "failed", " ".join(str(error.cause).split())
        except gone.RayError as error:
            return "lost", " ".join(str(error).split())

    def cancel(self, handle: Any) -> None:
        self.ray.cancel(handle)


@contextmanager
def _connected(address: str | None) -> Iterator[ModuleType]:
    try:
        import ray
    except ImportError as error:
        raise SettingError(
            'Ray is not installed: pip install "uclearn[cluster]", on all machines of the cluster.'
        ) from error
    if ray.is_initialized():  # by the program that calls us: it stays as it is
        yield ray
        return
    _check_answers(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
    try:
        ray.init(
            address=address,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise SettingError(
            f"The Ray cluster at {address or 'its default address'} cannot be used: "
            f"{' '.join(str(error).split())}"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_answers(address: str | None) -> None:
    """Ray itself waits for minutes for a machine that does not answer."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if address is None or not (colon and port.isdecimal()):
        return  # a word such as `auto`: Ray finds out at once
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise SettingError(
            f"No Ray cluster answers at `address` {address}: {error}. Start one by `ray start "
            "--head --port=6379` and name it as HOST:6379."
        ) from error


def _check_room(ray: ModuleType, threads: int, gpus: float) -> None:
    """A task that fits on no machine would wait for ever."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(has.get("CPU", 0) >= threads and has.get("GPU", 0) >= gpus for has in machines):
        return
    largest = ", ".join(f"{has.get('CPU', 0):g} and {has.get('GPU', 0):g}" for has in machines)
    raise SettingError(
        f"`threads` {threads} and `gpus` {gpus:g} for each run fit on no machine of the Ray "
        f"cluster. CPUs and GPUs of its machines: {largest}. Ask for less."
    )
