"""Run folders with plausible contents, written by the same recorder as real ones."""

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uclearn.measures.accuracy import Table, mean
from uclearn.storage.recorder import open_run
from uclearn.storage.records import Summary

LAYERS = {"0": 40, "2": 40, "4": 10}


def config(
    method: str = "ucl",
    seed: int = 0,
    *,
    benchmark: str = "permuted-digits",
    settings: Mapping[str, Any] | None = None,
    preset: str = "best",
    epochs: int = 20,
    scale: float | None = None,
    tasks: int = 5,
) -> dict[str, Any]:
    """A resolved configuration as `uclearn run` stores it."""
    return {
        "benchmark": benchmark,
        "method": method,
        "preset": preset,
        "seed": seed,
        "tasks": tasks,
        "plan": {"epochs": epochs, "batch_size": 64, "seed": seed},
        "settings": {method: dict(settings or {})},
        "scale": scale,
    }


def matrix(tasks: int, learns: float, forgets: float, seed: int) -> list[list[float | None]]:
    """R[i][j]: task j is learned to about `learns` and loses `forgets` with each later task."""
    noise = random.Random(seed)
    rows: list[list[float | None]] = []
    for i in range(tasks):
        learned = [learns - forgets * (i - j) + noise.uniform(-0.01, 0.01) for j in range(i + 1)]
        rows.append([min(1.0, max(0.0, value)) for value in learned])
        rows[-1] += [0.1] * (tasks - i - 1)  # a single head guesses at tasks to come
    return rows


def nodes(tasks: int, seed: int, pace: float = 0.15) -> list[dict[str, Any]]:
    """The `nodes` events of UCL: with each task some more nodes of a layer become certain."""
    noise = random.Random(seed + 100)
    becomes_certain = {
        name: [noise.expovariate(pace) if name != "4" else 0.0 for _ in range(size)]
        for name, size in LAYERS.items()
    }

    def sigma(at: float, task: int) -> float:
        free = 0.05 * 1.12 ** (task + 1)
        return round(free if at > task else 0.04 * 0.8 ** (task - at) + 0.002, 4)

    return [
        {
            "task": task,
            "layers": {
                name: {"sigma_init": 0.05, "sigma": [sigma(at, task) for at in starts]}
                for name, starts in becomes_certain.items()
            },
        }
        for task in range(tasks)
    ]


def write_run(
    folder: Path,
    wanted: Mapping[str, Any],
    scores: Table,
    *,
    node_events: Sequence[Mapping[str, Any]] = (),
    complete: bool = True,
    seconds: float = 12.5,
    parameters: int = 1000,
    extra: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
) -> Path:
    """A run with the accuracy matrix `scores`; not `complete`: stopped after its last event."""
    with open_run(folder, wanted, "a test") as run:
        for task, row in enumerate(scores):
            run.append("epoch", {"task": task, "epoch": 0, "loss": 0.5 / (task + 1)})
            run.append("evaluation", {"task": task, "scores": list(row)})
            for event in node_events[task : task + 1]:
                run.append("nodes", event)
        if complete:
            run.finish(
                Summary(
                    config=wanted,
                    accuracy_matrix=scores,
                    average_accuracy=mean(scores[-1]) if scores else None,
                    forgetting=_forgetting(scores),
                    seconds=seconds,
                    peak_memory=300 * 2**20,
                    parameters_kept=parameters,
                    versions=versions or {"uclearn": "0.1.0"},
                    machine={"system": "Linux", "processor": "A processor", "processors": 2},
                    extra=extra or {},
                )
            )
    return folder


def write_comparison(folder: Path, seeds: int = 3, tasks: int = 5) -> Path:
    """UCL, EWC, fine-tuning and the three ablations on one benchmark, as a grid would leave it."""
    methods = {
        "ucl": (0.97, 0.03, 2000),
        "ewc": (0.95, 0.06, 3000),
        "finetuning": (0.97, 0.14, 1000),
    }
    for seed in range(seeds):
        for method, (learns, forgets, parameters) in methods.items():
            write_run(
                folder / method / str(seed),
                config(
                    method, seed, tasks=tasks, settings=_switches() if method == "ucl" else None
                ),
                matrix(tasks, learns, forgets, seed),
                node_events=nodes(tasks, seed) if method == "ucl" else (),
                parameters=parameters,
                seconds=10 + seed + parameters / 500,
            )
        for off, forgets in {"upper_freeze": 0.08, "freeze": 0.1, "inflate": 0.05}.items():
            write_run(
                folder / f"ucl-without-{off}" / str(seed),
                config("ucl", seed, tasks=tasks, settings=_switches() | {off: False}),
                matrix(tasks, 0.96, forgets, seed),
                node_events=nodes(tasks, seed, pace=0.3),
                parameters=2000,
            )
    return folder


def _switches() -> dict[str, Any]:
    return {"beta": 0.03, "upper_freeze": True, "freeze": True, "inflate": True}


def _forgetting(scores: Table) -> float | None:
    last = len(scores) - 1
    falls = [
        max(row[j] or 0.0 for row in scores[j:last]) - (scores[last][j] or 0.0) for j in range(last)
    ]
    return math.fsum(falls) / last if last > 0 else None
