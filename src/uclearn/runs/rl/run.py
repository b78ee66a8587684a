"""One run of reinforcement learning, from configuration to summary, recorded and resumable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from uclearn.methods.contract import Method
from uclearn.methods.registry import build
from uclearn.rl.session import Outcome, learn
from uclearn.rl.tasks import widest
from uclearn.runs.kept import parameters_kept
from uclearn.runs.kinds import begun_document, stored_config
from uclearn.runs.memory_use import forget_peak, peak_memory
from uclearn.runs.rl.config import RLConfig
from uclearn.runs.run import finished_summary
from uclearn.session import Observer
from uclearn.storage.checkpoint import CHECKPOINT_NAME, previous_of
from uclearn.storage.recorder import environment, open_run
from uclearn.storage.records import Summary, read_summary


def run(
    config: RLConfig,
    folder: Path,
    progress: Observer | None = None,
    *,
    workers: int = 2,
    command: str | None = None,
) -> Summary:
    """Make the run in `folder`, go on with it, or return its summary if it is done.

    Args:
        config: all that decides the result.
        folder: where it is recorded; made if absent. Another process at work there is an error.
        progress: told what happens (see `uclearn.rl.session.learn`).
        workers: processes that step the environments; they change no result.
        command: what was typed, to be noted in the summary.
    """
    summary = read_summary(folder)
    if summary is not None and stored_config(folder) == config.fingerprint():
        return summary
    document = begun_document(folder, config)
    with open_run(folder, document, f"uclearn rl run {config.folder_name()}") as recorder:
        if recorder.summary is not None:
            return recorder.summary
        forget_peak()
        method = build_method(config)
        outcome = learn(
            method,
            config.environments(),
            config.make_plan(workers),
            folder=folder,
            journal=recorder,
            observer=progress,
        )
        recorder.finish(_summary(document, config, method, outcome, command))
        previous_of(folder / CHECKPOINT_NAME).unlink(missing_ok=True)  # it has served its purpose
    return finished_summary(folder)


def build_method(config: RLConfig) -> Method:
    """The method around a policy that is wide enough for all tasks."""
    width = widest(config.environments())
    settings = config.keyword_arguments(tasks=config.task_count())
    return build(config.method, config.make_policy(width), torch.zeros(2, width), settings)


def _summary(
    document: Mapping[str, Any],
    config: RLConfig,
    method: Method,
    outcome: Outcome,
    command: str | None,
) -> Summary:
    made = environment()
    return Summary(
        config=document,
        accuracy_matrix=[],
        average_accuracy=None,
        forgetting=None,
        seconds=outcome.seconds,
        peak_memory=peak_memory(),
        parameters_kept=parameters_kept(method),
        versions=made["versions"],
        git_commit=made["git_commit"],
        machine=made["machine"],
        extra={
            "task_names": list(config.environments()),
            "rewards": {
                "task": [found.task for found in outcome.evaluations],
                "steps": [found.steps for found in outcome.evaluations],
                "returns": [[round(v, 3) for v in means] for means in outcome.curve()],
            },
            "threads": torch.get_num_threads(),
            **({} if command is None else {"command": command}),
        },
    )
