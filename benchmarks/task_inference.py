"""How often task inference is right: split MNIST, five pairs of digits, a head for each.

`python -m benchmarks.task_inference` makes the table of docs/live.md anew. What is measured needs
no label of a task: the head with the lowest entropy is taken (see `uclearn.live.infer_task`), for
single examples and for batches of 16 that are known to come from one task.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from benchmarks.timing import Bar
from uclearn.errors import DataError
from uclearn.live.infer_task import InferenceAccuracy, inference_accuracy
from uclearn.live.learner import Learner
from uclearn.networks import mlp
from uclearn.tasks.benchmarks import load_tasks
from uclearn.training import Plan

SEEDS = (0, 1, 2)
RECORDS = Path(__file__).with_suffix(".json")
SETTINGS: dict[str, dict[str, Any]] = {
    "finetuning": {},
    "ewc": {"strength": 4000.0, "fisher_batch": 20},
    "ucl": {"beta": 0.0001, "ratio": 0.5, "means": "draw", "closed_form": True},
}


def taught(method: str, seed: int) -> tuple[Learner, Any]:
    """A learner that was shown all five tasks, three epochs each, and the tasks."""
    tasks = load_tasks("split-mnist", seed)
    own: dict[str, Any] = {"seed": seed} if method == "ucl" else {}
    network = mlp(784, (256, 256), None, seed=seed)
    learner = Learner(network, method, plan=Plan(epochs=3, seed=seed), **SETTINGS[method], **own)
    for task in tasks:
        learner.learn(task.train, task.name)
    return learner, tasks


def accuracy(method: str, seed: int, draws: tuple[int, ...]) -> list[InferenceAccuracy]:
    """On the test data of all tasks, for each number of draws."""
    learner, tasks = taught(method, seed)
    sets = [task.test for task in tasks]
    return [inference_accuracy(learner.method, sets, draws=count) for count in draws]


def measure() -> Iterator[Bar]:
    """The share of examples whose task UCL does not find, where MNIST is there."""
    torch.set_num_threads(2)
    try:
        load_tasks("split-mnist", 0)
    except DataError:
        return
    (found,) = accuracy("ucl", 0, (0,))
    detail = f"label {100 * found.label:.1f} %, told the task {100 * found.label_told:.1f} %"
    yield Bar("tasks of single digits not found by entropy", 1 - found.task, 0.5, detail)


def record() -> list[dict[str, Any]]:
    """Every method with every seed."""
    found = []
    for method in SETTINGS:
        draws = (0, 20) if method == "ucl" else (0,)
        for seed in SEEDS:
            for count, each in zip(draws, accuracy(method, seed, draws), strict=True):
                found.append({"method": method, "draws": count, "seed": seed, **asdict(each)})
    return found


def table(records: list[dict[str, Any]]) -> str:
    """In Markdown: the mean over seeds, and in brackets the lowest and highest, in percent."""
    lines = [
        "| method | draws | task found | task and label | label, task told | task of 16 together |",
        "|---|---|---|---|---|---|",
    ]
    for method, draws in dict.fromkeys((one["method"], one["draws"]) for one in records):
        own = [one for one in records if (one["method"], one["draws"]) == (method, draws)]
        cells = [
            _cell([one[key] for one in own]) for key in ("task", "label", "label_told", "batch")
        ]
        lines.append(f"| {method} | {draws} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: list[float]) -> str:
    low, high = 100 * min(values), 100 * max(values)
    return f"{100 * fmean(values):.1f} ({low:.1f} to {high:.1f})"


def main() -> None:
    """Measure, keep the numbers beside this file, print the table."""
    records = record()
    RECORDS.write_text(json.dumps(records, indent=1) + "\n")
    print(table(records))


if __name__ == "__main__":
    main()
