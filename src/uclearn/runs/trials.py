"""What is tuned, and its trials: values are suggested, runs are made, the study is told.

The first run reports its accuracy after each task, and is stopped where the study says that it is
hopeless.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from uclearn.errors import SettingError
from uclearn.measures.accuracy import mean
from uclearn.runs.config import Configuration
from uclearn.runs.engines.local import LocalEngine
from uclearn.runs.grid import GridObserver, Result, run_all
from uclearn.runs.job import Job
from uclearn.runs.sweep import FIRST_TASKS, Candidate, Space, candidates, default_space, judge
from uclearn.session import StoppedError
from uclearn.storage.files import FolderBusyError, FolderLock
from uclearn.storage.records import read_run
from uclearn.tasks.benchmarks import Named
from uclearn.tasks.benchmarks import benchmark as described

_LONGEST_WAIT = 60.0
"""Seconds; what is done one at a time takes a fraction of one."""


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and how; the same tuning is the same study."""

    benchmark: Named
    method: str
    space: Space = field(default_factory=dict)
    """Empty: the method's default, see `uclearn.runs.sweep`."""
    preset: str = "default"
    tasks: int | None = FIRST_TASKS
    """Judged by the first so many; None: by all, which nobody can do who learns one by one."""
    seeds: int = 1
    """Runs for each trial."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Settings that all trials share, by dotted key."""

    def searched(self) -> Space:
        """The space, or the default one."""
        space = self.space or default_space(self.benchmark, self.method, self.preset)
        if not space:
            raise SettingError(
                f"{self.method} has no setting that is tuned by default. Say what to search, as "
                "--space plan.lr=1e-4..1e-2:log."
            )
        return space

    def candidate(self, values: Mapping[str, Any]) -> Candidate:
        """The runs of one trial."""
        grid = {key: [value] for key, value in values.items()}
        (found,) = candidates(
            self.benchmark,
            self.method,
            grid,
            preset=self.preset,
            seeds=self.seeds,
            tasks=self.tasks,
            overrides=self.overrides,
        )
        return found

    def name(self) -> str:
        """Of the study: whatever can change a trial's result stands behind it."""
        space = {key: list(each) for key, each in self.searched().items()}
        content = [space, self.preset, self.tasks, self.seeds, dict(self.overrides)]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
        return f"{described(self.benchmark).name}-{self.method}-{digest}"


@dataclass(frozen=True)
class Maker:
    """Where the runs of trials are made, and who is told."""

    out: Path
    data: Path | None = None
    observer: GridObserver | None = None
    checkpoint_seconds: float = 30.0
    command: str | None = None
    threads: int | None = None
    """Cores for each run; None: all."""

    def make(self, config: Configuration, observer: GridObserver) -> Result:
        """One run, in this process."""

        def tell(config: Configuration, event: str, details: dict[str, Any]) -> None:
            if self.observer is not None:
                self.observer(config, event, details)
            observer(config, event, details)

        job = Job(
            config,
            self.folder(config),
            data=self.data,
            checkpoint_seconds=self.checkpoint_seconds,
            command=self.command,
        )
        (result,) = run_all([job], observer=tell, on=LocalEngine(self.threads))
        return result

    def folder(self, config: Configuration) -> Path:
        """Of a run."""
        return self.out / config.folder_name()


class Trial:
    """One trial, from its values to its end: complete, pruned or failed.

    Args:
        optuna: the package.
        study: what the trial belongs to.
        tuning: what is tuned.
        maker: makes the runs.
    """

    def __init__(self, optuna: ModuleType, study: Any, tuning: Tuning, maker: Maker) -> None:
        self.optuna, self.study, self.tuning, self.maker = optuna, study, tuning, maker
        self.trial = study.ask()
        self.lock = life(maker.out, study.study_name, self.trial.number)
        self.lock.acquire()
        self.values = {
            key: each.suggest(self.trial, key) for key, each in tuning.searched().items()
        }
        self.reported: set[int] = set()
        self.pruned = False

    def make(self) -> None:
        """Make its runs and tell the study; where the user stops them, the study is told nothing,
        and the trial is taken up by the next call."""
        try:
            candidate = self.tuning.candidate(self.values)
            results = self._runs(candidate)
            if results is not None:
                self._end(candidate, results)
        except SettingError as error:  # values that do not go together
            self._fail(str(error))
        finally:
            self.lock.release()

    def _runs(self, candidate: Candidate) -> list[Result] | None:
        """The first run is watched and may be the last; None: the trial is over."""
        results: list[Result] = []
        for config in candidate.configs:
            result = self.maker.make(config, self._watch if not results else _ignore)
            if self.pruned:
                self.study.tell(self.trial, state=self.optuna.trial.TrialState.PRUNED)
                return None
            if result.state == "stopped":
                raise StoppedError(result.message)
            if result.state in ("failed", "busy"):
                self._fail(result.message)
                return None
            if not results:
                self._report(config)
            results.append(result)
        return results

    def _end(self, candidate: Candidate, results: list[Result]) -> None:
        (judged,) = judge([candidate], results)
        if judged.accuracy is None:
            self._fail("it has no accuracy")
            return
        self.trial.set_user_attr("forgetting", judged.forgetting)
        self.study.tell(self.trial, judged.accuracy)

    def _fail(self, note: str) -> None:
        self.trial.set_user_attr("note", note)
        self.study.tell(self.trial, state=self.optuna.trial.TrialState.FAIL)

    def _watch(self, config: Configuration, event: str, details: dict[str, Any]) -> None:
        if event != "evaluation":
            return
        self._report(config)
        last = details["task"] + 1 == config.task_count()
        if not last and self.trial.should_prune():
            self.pruned = True
            raise StoppedError("It did worse than the median of the other trials.")

    def _report(self, config: Configuration) -> None:
        """What the run has recorded, which may have begun in another process."""
        for event in read_run(self.maker.folder(config)).events:
            if event["event"] == "evaluation" and event["task"] not in self.reported:
                self.reported.add(event["task"])
                accuracy = mean(event["scores"][: event["task"] + 1])
                if accuracy is not None:
                    self.trial.report(accuracy, step=event["task"])


def _ignore(config: Configuration, event: str, details: dict[str, Any]) -> None:
    pass


def life(out: Path, study: str, number: int) -> FolderLock:
    """The lock that whoever makes a trial holds; it goes when that process dies."""
    folder = out / ".trials" / f"{study}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    return FolderLock(folder, f"uclearn tune, trial {number}")


@contextmanager
def one_at_a_time(out: Path) -> Iterator[None]:
    """Within: no other process begins a trial, so that none is begun twice and none too many."""
    folder = out / ".trials"
    folder.mkdir(parents=True, exist_ok=True)
    lock, deadline = FolderLock(folder, "uclearn tune"), time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            lock.acquire()
            break
        except FolderBusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.release()
