"""Noise read from a table must teach as well as fresh noise: accuracy over three seeds, paired."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.timing import Bar
from uclearn import UCL
from uclearn.errors import DataError
from uclearn.gaussian import NoiseKind
from uclearn.networks import mlp
from uclearn.tasks import TaskSequence
from uclearn.tasks.benchmarks import load_tasks
from uclearn.training import Plan, learn
from uclearn.training.metrics import average_accuracy

SEEDS = (0, 1, 2)


def accuracy(tasks: TaskSequence, noise: NoiseKind, seed: int) -> float:
    """Average accuracy in percent after all tasks."""
    network = mlp(784, (400, 400), 10, seed=seed)
    method = UCL(
        network,
        torch.zeros(1, 784),
        hold="weights",
        beta=0.03,
        sigma=None,
        ratio=0.5,
        lr_sigma=None,
        means="draw",
        sampling="weight",
        noise=noise,
        closed_form=True,
        seed=seed,
    )
    outcome = learn(method, tasks, Plan(epochs=3, seed=seed))
    return 100 * average_accuracy(outcome.accuracy_matrix)


def measure() -> Iterator[Bar]:
    """How many points the table loses on three tasks of Permuted MNIST, where MNIST is there."""
    torch.set_num_threads(2)
    try:
        sequences = [load_tasks("permuted-mnist", seed, tasks=3) for seed in SEEDS]
    except DataError:
        return
    fresh, table = (
        [accuracy(tasks, noise, seed) for tasks, seed in zip(sequences, SEEDS, strict=True)]
        for noise in ("fresh", "table")
    )
    lost = sum(f - t for f, t in zip(fresh, table, strict=True)) / len(SEEDS)
    each = ", ".join(f"{f:.2f} / {t:.2f}" for f, t in zip(fresh, table, strict=True))
    yield Bar(
        "points of accuracy lost by noise from a table", lost, 0.3, f"fresh / table: {each} %"
    )
