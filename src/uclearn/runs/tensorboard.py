"""Runs as TensorBoard logs, made from their records; `tensorboard --logdir LOGS` shows them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uclearn.errors import UclearnError
from uclearn.storage.records import Run, read_runs

_log = logging.getLogger("uclearn")


class MissingTensorBoardError(UclearnError, ImportError):
    """The extra is not installed."""


def export(folders: Sequence[Path], logs: Path) -> list[Path]:
    """Write one log per run below `folders` into `logs`; the logs are returned.

    The horizontal axis counts epochs over all tasks for losses, and tasks for scores.
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
        if event["event"] == "epoch":
            losses = [name for name in ("loss", "validation_loss") if event.get(name) is not None]
            found += [(name, float(event[name]), epochs) for name in losses]
            epochs += 1
        elif event["event"] == "evaluation":
            found += scores(event)
    return found


def scores(event: Mapping[str, Any]) -> list[tuple[str, float, int]]:
    """(name, value, task) of an evaluation: each task's score, and the mean of those learned."""
    task = int(event["task"])
    known = [None if s is None or s != s else s for s in event["scores"]]  # NaN: not measured
    learned = [score for score in known[: task + 1] if score is not None]
    each = [
        (f"score/task {place}", float(score), task)
        for place, score in enumerate(known)
        if score is not None
    ]
    return [("score/mean of learned tasks", sum(learned) / max(len(learned), 1), task), *each]
