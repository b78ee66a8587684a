"""Tuning by Optuna (extra `tune`), with the honesty of `sweep`: each trial is a run on the first
tasks, judged by validation data. The test data are never looked at.

A trial that does worse than the median of the others after the first tasks is stopped. The study
is kept in a database: the same call goes on with it and makes only the trials that are missing. A
trial that was killed is repeated with the same values, and its run goes on from its checkpoint.
Several processes, on any machines that share the folder and the database, can work on one study.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from uclearn.choices import check_choice
from uclearn.errors import SettingError
from uclearn.ranks import present
from uclearn.runs.sweep import Space
from uclearn.runs.trials import Maker, Trial, Tuning, life, one_at_a_time
from uclearn.storage.files import FolderBusyError

__all__ = ["SAMPLERS", "Maker", "Tried", "Tuning", "tried", "tune"]

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
    check_choice("sampler", sampler, SAMPLERS)
    if present().size > 1:
        raise SettingError("`tune` is made by one process: start it without torchrun.")
    with _quiet() as optuna:
        with one_at_a_time(maker.out):
            study = _open(optuna, tuning, maker, storage, prune)
            _take_up_abandoned(optuna, study, tuning, maker.out)
            if sampler == "grid":
                trials = min(trials, _enqueue_grid(study, tuning.searched(), trials))

        def begin() -> Trial | None:
            with one_at_a_time(maker.out):
                begun = len(_counting(study))
                if begun >= trials:
                    return None
                # a seed for each trial: interrupted or not, the same values are tried
                study.sampler = _sampler(optuna, sampler, seed=begun)
                return Trial(optuna, study, tuning, maker)

        for trial in iter(begin, None):
            trial.make()
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
            with life(out, study.study_name, trial.number):
                optuna.trial.Trial(study, trial._trial_id).set_user_attr(_REPEATED, True)
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
                if set(trial.params) == set(tuning.searched()):
                    study.enqueue_trial(trial.params)
        except FolderBusyError:
            continue  # it is alive


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
