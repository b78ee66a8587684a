"""One run, from a configuration to its summary: recorded, resumable, the same for the same seed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from uclearn.errors import DataError
from uclearn.measures.accuracy import (
    average_accuracy,
    backward_transfer,
    forgetting,
    forward_transfer,
    learning_accuracy,
)
from uclearn.methods.contract import Method
from uclearn.ranks import Ranks, choose_device, present
from uclearn.runs.config import RunConfig
from uclearn.runs.kept import parameters_kept
from uclearn.runs.kinds import begun_document, stored_config
from uclearn.runs.memory_use import forget_peak, peak_memory
from uclearn.runs.nodes import node_digest, node_states
from uclearn.runs.prepare import Prepared, prepare
from uclearn.storage.checkpoint import CHECKPOINT_NAME, previous_of
from uclearn.storage.recorder import RunRecorder, environment, open_run
from uclearn.storage.records import (
    Summary,
    read_run,
    read_summary,
)
from uclearn.training.session import Observer, Outcome, learn


def run(
    config: RunConfig,
    folder: Path,
    data: Path | None = None,
    progress: Observer | None = None,
    *,
    checkpoint_seconds: float = 30.0,
    command: str | None = None,
    device: str | None = None,
) -> Summary:
    """Make the run in `folder`, go on with it, or return its summary if it is done.

    Processes that learn one model (see `uclearn.ranks`) all call this; the first alone writes.

    Args:
        config: all that decides the result.
        folder: where it is recorded; made if absent. Another process at work there is an error.
        data: the folder that holds the data sets.
        progress: told what happens (see `uclearn.training.learn`).
        checkpoint_seconds: how much work a crash may cost.
        command: what was typed, to be noted in the summary.
        device: as torch names it; None: a GPU if there is one, else the CPU.
    """
    ranks, place = present(), choose_device(device)
    if _together_done(folder, config, ranks):
        return finished_summary(folder)
    document = begun_document(folder, config)
    with _opened(folder, document, config, ranks) as recorder:
        if ranks.any(recorder is not None and recorder.summary is not None)[0]:
            return finished_summary(folder)
        forget_peak()
        prepared = prepare(config, data, place)
        outcome = learn(
            prepared.method,
            prepared.tasks,
            config.make_plan(checkpoint_seconds),
            folder=folder,
            journal=None if recorder is None else _Journal(recorder, prepared.method),
            observer=progress,
        )
        if recorder is not None:
            nodes = node_digest(read_run(folder).events)
            recorder.finish(_summary(document, prepared, outcome, command, nodes))
            # it has served its purpose
            previous_of(folder / CHECKPOINT_NAME).unlink(missing_ok=True)
        ranks.wait()  # until the summary stands
    return finished_summary(folder)


def _together_done(folder: Path, config: RunConfig, ranks: Ranks) -> bool:
    """Whether the run was complete when the first process looked."""
    done = ranks.is_first and read_summary(folder) is not None
    return ranks.any(done and stored_config(folder) == config.fingerprint())[0]


@contextmanager
def _opened(
    folder: Path, document: Mapping[str, Any], config: RunConfig, ranks: Ranks
) -> Iterator[RunRecorder | None]:
    """The run's record, for the first process; the others have none."""
    if not ranks.is_first:
        yield None
        return
    with open_run(folder, document, f"uclearn run {config.folder_name()}") as recorder:
        yield recorder


def finished_summary(folder: Path) -> Summary:
    """The summary of a run that is done, as it stands on the disk."""
    summary = read_summary(folder)
    if summary is None:
        raise DataError(f"The run in {folder} is not complete. `uclearn resume {folder}` goes on.")
    return summary


class _Journal:
    """A run's record that also notes, with every evaluation, what is known of the nodes."""

    def __init__(self, recorder: RunRecorder, method: Method) -> None:
        self._recorder, self._method = recorder, method

    @property
    def position(self) -> int:
        return self._recorder.position

    def append(self, event: str, details: dict[str, Any], /) -> None:
        self._recorder.append(event, details)
        if event == "evaluation" and (states := node_states(self._method)) is not None:
            told, layers = states
            self._recorder.append(told, {"task": details["task"], **layers})

    def rewind(self, position: int, /) -> None:
        self._recorder.rewind(position)


def _summary(
    document: Mapping[str, Any],
    prepared: Prepared,
    outcome: Outcome,
    command: str | None,
    nodes: dict[str, list[list[float]]],
) -> Summary:
    rows = outcome.accuracy_matrix
    several = len(rows) > 1
    made = environment()
    return Summary(
        config=document,
        accuracy_matrix=[[_or_none(value) for value in row] for row in rows],
        average_accuracy=average_accuracy(rows),
        forgetting=forgetting(rows) if several else None,
        seconds=outcome.seconds,
        peak_memory=peak_memory(),
        parameters_kept=parameters_kept(prepared.method),
        versions=made["versions"],
        git_commit=made["git_commit"],
        machine=made["machine"],
        extra={
            "learning_accuracy": learning_accuracy(rows),
            "backward_transfer": backward_transfer(rows) if several else None,
            "forward_transfer": _or_none(forward_transfer(rows, outcome.untrained))
            if several
            else None,
            "task_names": [task.name for task in prepared.tasks],
            "threads": torch.get_num_threads(),
            **_where(prepared.method),
            **({"nodes": nodes} if nodes else {}),
            **({} if command is None else {"command": command}),
        },
    )


def _where(method: Method) -> dict[str, Any]:
    """What is not one process on a CPU."""
    size, device = present().size, next(method.parameters()).device
    return {
        **({"processes": size} if size > 1 else {}),
        **({} if device.type == "cpu" else {"device": device.type}),
    }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
