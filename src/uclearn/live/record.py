"""What a learner learned, as a run among runs: for `uclearn runs`, `report` and `watch`.

A task is judged by its canary, the examples that were set apart from it and never trained on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uclearn.errors import TaskError
from uclearn.measures.accuracy import average_accuracy, forgetting, learning_accuracy
from uclearn.storage.recorder import environment, open_run, peak_memory
from uclearn.storage.records import Summary
from uclearn.training.nodes import parameter_count

if TYPE_CHECKING:
    from uclearn.live.learner import Learner


def write(learner: Learner, place: Path, name: str) -> Path:
    """Write the run of `learner`, or write it anew, and say where."""
    kept = [line for line in learner.journal if line["event"] == "update" and _is_kept(line)]
    rows = matrix(kept, list(learner.tasks))
    config: dict[str, Any] = {
        "benchmark": re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") or "learner",
        "method": learner.method_name,
        "seed": learner.plan.seed,
        "program": "Learner",
        "settings": {learner.method_name.partition("+")[0]: dict(learner.settings)},
        "plan": {k: v for k, v in asdict(learner.plan).items() if k != "checkpoint_seconds"},
    }
    folder = place / str(config["benchmark"]) / f"{learner.method_name}-learner" / "seed-0"
    made = environment()
    with open_run(folder, config, "recording a learner") as recorder:
        recorder.rewind(0)
        for task, row in enumerate(rows):
            recorder.append("evaluation", {"task": task, "scores": row})
            if nodes := kept[task]["nodes"] if len(kept) == len(rows) else None:
                recorder.append("nodes", {"task": task, "layers": nodes})
        recorder.finish(
            Summary(
                config=config,
                accuracy_matrix=rows,
                average_accuracy=average_accuracy(rows),
                forgetting=forgetting(rows) if len(rows) > 1 else None,
                seconds=sum(line["seconds"] for line in kept),
                peak_memory=peak_memory(),
                parameters_kept=parameter_count(learner.method),
                versions=made["versions"],
                git_commit=made["git_commit"],
                machine=made["machine"],
                extra={
                    "task_names": list(learner.tasks),
                    "learning_accuracy": learning_accuracy(rows),
                },
            )
        )
    return folder


def matrix(kept: Sequence[Mapping[str, Any]], tasks: Sequence[str]) -> list[list[float]]:
    """By task, what every task's canary says after it was learned (and gone on with, if it was);
    NaN for tasks to come.

    >>> first = {"task": "a", "accuracy": 1.0, "compared": []}
    >>> second = {"task": "b", "accuracy": 0.9, "compared": [{"task": "a", "after": 0.5}]}
    >>> matrix([first, second], ["a", "b"])
    [[1.0, nan], [0.5, 0.9]]
    """
    known: dict[str, float] = {}
    rows: dict[int, list[float]] = {}
    for line in kept:
        known |= {old["task"]: old["after"] for old in line["compared"]}
        if line["accuracy"] is None or line["task"] not in tasks:
            raise TaskError(
                f"The update {line['name']!r} had no examples set apart, so there is nothing to "
                "record. Learn with a `gate`: `learner.learn(data, name, gate=Gate())`."
            )
        known[line["task"]] = line["accuracy"]
        rows[len(known) - 1] = [known.get(task, math.nan) for task in tasks]
    if not rows:
        raise TaskError("This learner has learned nothing yet. Call `learn` first.")
    return [rows[place] for place in sorted(rows)]


def _is_kept(line: Mapping[str, Any]) -> bool:
    return bool(line["decision"] != "rejected")
