"""Tuning by Optuna (extra `tune`), with the honesty of `sweep`: each trial is a run on the first
tasks, judged by validation data. The test data are never looked at.

A trial that does worse than the median of the others after the first tasks is stopped. The study
is kept in a database: the same call goes on with it and makes only the trials that are missing. A
trial that was killed is repeated with the same values, and its run goes on from its checkpoint.
Several processes, on any machines that share the folder and the database, can work on one study.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from types import ModuleType
from typing import Any, NamedTuple

from uclearn.errors import SettingError
from uclearn.experiments.config import Configuration
from uclearn.experiments.grid import GridObserver, Result, run_all
from uclearn.experiments.spaces import Space, default_space
from uclearn.experiments.sweep import FIRST_TASKS, Candidate, candidates, judge
from uclearn.ranks import present
from uclearn.storage.lock import FolderBusyError, FolderLock
from uclearn.storage.records import read_run
from uclearn.storage.telling import StoppedError

SAMPLERS = ("tpe", "random", "grid", "cmaes")
"""How values are chosen: by what did well, at random, evenly, or by evolution."""
DATABASE = "study.db"
_REPEATED = "repeated"
_BEFORE_PRUNING = 4
"""Trials that the median is taken of at the least."""


class Tried(NamedTuple):
    """A trial, as the study has it."""

    number: int
    values: dict[str, Any]
    state: str
    """complete, pruned, fail or running."""
    accuracy: float | None
    """On validation data, over tasks and seeds; of a pruned trial over the tasks it learned."""
    note: str = ""


@dataclass(frozen=True)
class Tuning:
    """What is tuned, and how; the same tuning is the same study."""

    benchmark: str
    method: str
    space: Space = field(default_factory=dict)
    """Empty: the method's default, see `uclearn.experiments.spaces`."""
    preset: str = "best"
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
        return f"{self.benchmark}-{self.method}-{digest}"


@dataclass(frozen=True)
class Maker:
    """Where the runs of trials are made, and who is told."""

    out: Path
    data: Path | None = None
    observer: GridObserver | None = None
    checkpoint_seconds: float = 30.0
    command: str | None = None

    def make(self, config: Configuration, observer: GridObserver) -> Result:
        """One run, in this process."""

        def tell(config: Configuration, event: str, details: dict[str, Any]) -> None:
            if self.observer is not None:
                self.observer(config, event, details)
            observer(config, event, details)

        (result,) = run_all(
            {self.folder(config): config},
            data=self.data,
            observer=tell,
            checkpoint_seconds=self.checkpoint_seconds,
            command=self.command,
        )
        return result

    def folder(self, config: Configuration) -> Path:
        """Of a run."""
        return self.out / config.folder_name()


def tune(
    tuning: Tuning,
    maker: Maker,
    trials: int,
    *,
    sampler: str = "tpe",
    storage: str | None = None,
    prune: bool = True,
) -> list[Tried]:
    """Make trials until the study has so many; all of them, the best first.

    Args:
        tuning: what is tuned.
        maker: where runs are made.
        trials: how many there shall be, with those of earlier calls.
        sampler: one of `SAMPLERS`.
        storage: the URL of a database as Optuna takes it; None: an SQLite file in the folder.
        prune: stop trials that do worse than the median after their first tasks.
    """
    if sampler not in SAMPLERS:
        raise SettingError(f"`sampler` must be one of {', '.join(SAMPLERS)}, got {sampler!r}.")
    if present().size > 1:
        raise SettingError("`tune` is made by one process: start it without torchrun.")
    maker.out.mkdir(parents=True, exist_ok=True)
    with _quiet() as optuna:
        study = _open(optuna, tuning, maker, storage, prune)
        _take_up_abandoned(optuna, study, tuning, maker.out)
        if sampler == "grid":
            trials = min(trials, _enqueue_grid(study, tuning.searched(), trials))
        while len(_counting(study)) < trials:
            # a seed for each trial: interrupted or not, the same values are tried
            study.sampler = _sampler(optuna, sampler, seed=len(_counting(study)))
            _Trial(optuna, study, tuning, maker).make()
        return tried(study)


def tried(study: Any) -> list[Tried]:
    """The trials of a study that count, the best first."""
    found = [
        Tried(
            trial.number,
            dict(trial.params),
            trial.state.name.lower(),
            trial.value,
            str(trial.user_attrs.get("note", "")),
        )
        for trial in _counting(study)
    ]
    order = ("complete", "pruned", "running", "fail")
    return sorted(found, key=lambda each: (order.index(each.state), -(each.accuracy or 0)))


class _Trial:
    """One trial, from its values to its end."""

    def __init__(self, optuna: ModuleType, study: Any, tuning: Tuning, maker: Maker) -> None:
        self.optuna, self.study, self.tuning, self.maker = optuna, study, tuning, maker
        self.trial = study.ask()
        self.reported: set[int] = set()
        self.pruned = False

    def make(self) -> None:
        with _alive(self.maker.out, self.study.study_name, self.trial.number):
            values = {
                key: each.suggest(self.trial, key) for key, each in self.tuning.searched().items()
            }
            try:
                candidate = self.tuning.candidate(values)
            except SettingError as error:  # values that do not go together
                self._fail(str(error))
                return
            results = self._runs(candidate)
            if results is not None:
                self._end(candidate, results)

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
                seen = event["scores"][: event["task"] + 1]
                self.trial.report(fmean(seen), step=event["task"])


def _ignore(config: Configuration, event: str, details: dict[str, Any]) -> None:
    pass


def _open(
    optuna: ModuleType, tuning: Tuning, maker: Maker, storage: str | None, prune: bool
) -> Any:
    # forgetting shows after the second task at the earliest
    median = optuna.pruners.MedianPruner(n_startup_trials=_BEFORE_PRUNING, n_warmup_steps=1)
    place = storage or f"sqlite:///{(maker.out / DATABASE).absolute()}"
    try:
        return optuna.create_study(
            study_name=tuning.name(),
            storage=place,
            direction="maximize",
            load_if_exists=True,
            pruner=median if prune else optuna.pruners.NopPruner(),
        )
    except Exception as error:  # whatever database and driver may say
        raise SettingError(
            f"The study cannot be kept in `storage` {place}: {' '.join(str(error).split())}"
        ) from error


def _counting(study: Any) -> list[Any]:
    """Trials that were begun and are not to be repeated."""
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state.name != "WAITING" and _REPEATED not in trial.user_attrs
    ]


def _take_up_abandoned(optuna: ModuleType, study: Any, tuning: Tuning, out: Path) -> None:
    """Trials whose processes have died are repeated, with their values, as new ones."""
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        try:
            with _alive(out, study.study_name, trial.number):
                optuna.trial.Trial(study, trial._trial_id).set_user_attr(_REPEATED, True)
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
                if set(trial.params) == set(tuning.searched()):
                    study.enqueue_trial(trial.params)
        except FolderBusyError:
            continue  # it is alive


@contextmanager
def _alive(out: Path, study: str, number: int) -> Iterator[None]:
    """Whoever makes a trial holds a lock, which goes when its process dies."""
    folder = out / ".trials" / f"{study}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    with FolderLock(folder, f"uclearn tune, trial {number}"):
        yield


def _enqueue_grid(study: Any, space: Space, trials: int) -> int:
    """Even steps, as many as the trials suffice for; how many combinations there are."""
    each = max(2, int(trials ** (1 / len(space)) + 1e-9))
    points = [one.points(each) for one in space.values()]
    combinations = [dict(zip(space, values, strict=True)) for values in itertools.product(*points)]
    for values in combinations[:trials]:
        study.enqueue_trial(values, skip_if_exists=True)
    return len(combinations)


def _sampler(optuna: ModuleType, name: str, seed: int) -> Any:
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=5)
    if name == "cmaes":
        try:
            import cmaes  # noqa: F401
        except ImportError as error:
            raise SettingError(
                "The sampler cmaes needs a package that is not installed: pip install "
                '"uclearn[tune]"'
            ) from error
        return optuna.samplers.CmaEsSampler(seed=seed, n_startup_trials=2)
    return optuna.samplers.RandomSampler(seed=seed)


@contextmanager
def _quiet() -> Iterator[ModuleType]:
    """Optuna, which logs every trial unless it is asked not to."""
    try:
        import optuna
    except ImportError as error:
        raise SettingError('Optuna is not installed: pip install "uclearn[tune]"') from error
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(before)
