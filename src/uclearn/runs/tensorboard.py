"""Runs as TensorBoard logs, made from their records; `tensorboard --logdir LOGS` shows them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from uclearn.errors import UclearnError
from uclearn.storage.records import Run, read_runs

_log = logging.getLogger("uclearn")


class MissingTensorBoardError(UclearnError, ImportError):
    """The extra is not installed."""


def export(folders: Sequence[Path], logs: Path) -> list[Path]:
    """Write one log per run below `folders` into `logs`; the logs are returned.

    The horizontal axis counts epochs over all tasks for losses, and tasks for scores; steps in
    environments where acting was learned.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingTensorBoardError(
            "TensorBoard logs need a package that is not installed. Install it with: "
            "pip install 'uclearn[tensorboard]'"
        ) from error
    written = []
    for top in folders:
        sound, damaged = read_runs(top)
        for place, why in damaged:
            _log.warning("Left out, since it is damaged: %s: %s", place, why)
        for run in sound:
            log = logs / run.folder.relative_to(top)
            writer: Any = SummaryWriter(str(log))
            for name, value, step in scalars(run):
                writer.add_scalar(name, value, step, walltime=0)
            writer.close()
            written.append(log)
    return written


def scalars(run: Run) -> list[tuple[str, float, int]]:
    """(name, value, step) of all that the run recorded."""
    found: list[tuple[str, float, int]] = []
    epochs = 0
    for event in run.events:
        told = told_by(event["event"], event, epochs)
        epochs += event["event"] == "epoch"
        if told is not None:
            found += [(name, value, told.step) for name, value in told.values.items()]
    return found


class Told(NamedTuple):
    """The numbers of one event."""

    values: dict[str, float]
    step: int
    axis: str
    """What steps count: epochs over all tasks, tasks, or steps in environments."""


def told_by(event: str, details: Mapping[str, Any], epochs: int) -> Told | None:
    """What an event says in numbers, `epochs` having passed before it; None: nothing. What was not
    measured is left out."""
    if event == "epoch":
        return Told(_known(details, "loss", "validation_loss"), epochs, "epochs")
    if event == "iteration":  # of learning by acting
        names = ("return", "policy_loss", "value_loss", "entropy", "clipped")
        return Told(_known(details, *names), int(details["steps"]), "steps")
    if event == "evaluation" and "means" in details:
        means = enumerate(details["means"])
        values = {f"return/task {task}": float(mean) for task, mean in means}
        return Told(values, int(details["steps"]), "steps")
    if event == "evaluation":
        return Told(_scores(details), int(details["task"]), "tasks")
    return None


def _known(details: Mapping[str, Any], *names: str) -> dict[str, float]:
    found = {name: details.get(name) for name in names}
    return {name: float(v) for name, v in found.items() if v is not None and v == v}  # no NaN


def _scores(details: Mapping[str, Any]) -> dict[str, float]:
    """Each task's score, and the mean of those learned."""
    named = {f"score/task {place}": score for place, score in enumerate(details["scores"])}
    learned = _known(named, *list(named)[: details["task"] + 1]).values()
    mean = {"score/mean of learned tasks": sum(learned) / len(learned)} if learned else {}
    return {**mean, **_known(named, *named)}
