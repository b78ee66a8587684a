"""Runs as jobs of a Slurm cluster, by submitit (extra `cluster`).

All machines must see the output folder, the data and the Python environment under the same paths.
A job that is preempted or reaches its time limit is queued again and goes on from its checkpoint.
What the jobs print stands in a folder `.submitit` beside the runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from uclearn.errors import SettingError
from uclearn.runs.engines import JobListener
from uclearn.runs.engines.dispatch import PATIENCE, RETRIES, Dispatch, RemoteOutcome
from uclearn.runs.job import Job, execute
from uclearn.runs.resolve import parse_setting

_OF_ANY_CLUSTER = ("name", "timeout_min", "mem_gb", "stderr_to_stdout")
_HAVE_THEIR_OWN = {
    "cpus_per_task": "--threads",
    "gpus_per_node": "--gpus",
    "nodes": "one machine makes a run",
    "tasks_per_node": "one process makes a run",
}


def parse_slurm(texts: Iterable[str]) -> dict[str, Any]:
    """`key=value` as for `--set`; `cluster=local` makes the jobs processes on this machine, to try
    settings out.

    >>> parse_slurm(["partition=gpu", "time=120"])
    {'partition': 'gpu', 'time': 120}
    """
    settings = dict(parse_setting(text) for text in texts)
    for key in settings:
        if key in _HAVE_THEIR_OWN:
            raise SettingError(f"`slurm` {key} cannot be set: {_HAVE_THEIR_OWN[key]}.")
    return settings


@dataclass(frozen=True)
class SlurmEngine:
    """A Slurm cluster; a run is a job with `threads` CPUs and `gpus` GPUs."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1
    gpus: float = 0
    retries: int = RETRIES
    patience: float = PATIENCE

    def run(self, jobs: Sequence[Job], at_once: int | None, listener: JobListener) -> None:
        """Let the cluster make them."""
        above = os.path.commonpath([job.folder.absolute().parents[1] for job in jobs])
        submitted = _Jobs(self._executor(Path(above) / ".submitit"))
        Dispatch(submitted, listener, self.retries, self.patience).run(jobs, at_once)

    def _executor(self, folder: Path) -> Any:
        submitit = _submitit()
        own = dict(self.settings)
        cluster = own.pop("cluster", "slurm")
        if int(self.gpus) != self.gpus:
            raise SettingError(f"`gpus` must be a whole number for Slurm, got {self.gpus}.")
        try:
            executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
            executor.update_parameters(**self._parameters(own))
        except (RuntimeError, ValueError, NameError, AssertionError, TypeError) as error:
            raise SettingError(
                f"Slurm cannot be used with these settings: {' '.join(str(error).split())}"
            ) from error
        return executor

    def _parameters(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """As submitit spells them: what only Slurm has begins with its name."""
        named = {key if key in _OF_ANY_CLUSTER else f"slurm_{key}": own[key] for key in own}
        gpus = {"gpus_per_node": int(self.gpus)} if self.gpus else {}
        return {"name": "uclearn", "cpus_per_task": self.threads, **gpus, **named}


class Making:
    """What a job does; on being preempted it asks to be queued again."""

    def __call__(self, job: Job) -> RemoteOutcome:
        """Make the run on the machine that Slurm chose; its news stand in its folder."""
        return execute(job, lambda event, details: None)

    def checkpoint(self, job: Job) -> Any:
        """Called by submitit in good time before the job is ended."""
        return _submitit().helpers.DelayedSubmission(self, job)


class _Jobs:
    """Our jobs as jobs of submitit; handles are its jobs."""

    def __init__(self, executor: Any) -> None:
        self.executor = executor

    def submit(self, job: Job) -> Any:
        return self.executor.submit(Making(), job)

    def collect(self, handles: Sequence[Any], seconds: float) -> dict[Any, RemoteOutcome]:
        over = {job: self._outcome(job) for job in handles if job.done()}
        if not over:
            time.sleep(seconds)
        return over

    def _outcome(self, job: Any) -> RemoteOutcome:
        error = job.exception()
        if error is None:
            state, message = job.result()
            return state, message
        said = str(error).strip().partition("\n")[0]  # the rest is the end of its log
        failed = isinstance(error, _submitit().core.utils.FailedJobError)
        return ("failed" if failed else "lost"), said

    def cancel(self, job: Any) -> None:
        job.cancel()


def _submitit() -> ModuleType:
    try:
        import submitit
    except ImportError as error:
        raise SettingError(
            'submitit is not installed: pip install "uclearn[cluster]", on all machines.'
        ) from error
    return submitit
