"""What the data cost: memory of ten permuted tasks, time to the first batch, time of a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from benchmarks.timing import Bar, best_times
from benchmarks.ucl_step import plain_step
from uclearn.errors import DataError
from uclearn.networks import mlp
from uclearn.tasks import Data
from uclearn.tasks.benchmarks import BENCHMARKS, load_tasks


def measure() -> Iterator[Bar]:
    """The bars of the data; sets that are not on this machine are left out."""
    torch.set_num_threads(2)
    for name in BENCHMARKS:
        try:
            load_tasks(name, seed=0)  # the cache is warm from here on
        except DataError:
            continue
        begin = time.perf_counter()
        tasks = load_tasks(name, seed=0)
        tasks[0].train.batch(torch.arange(min(256, len(tasks[0].train))))
        yield Bar(f"{name}: seconds to the first batch", time.perf_counter() - begin, 3.0)
        if name == "permuted-mnist":
            yield from _permuted(name)


def _permuted(name: str) -> Iterator[Bar]:
    tasks = load_tasks(name, seed=0)
    stored = {}
    for task in tasks:
        for part in (task.train, task.test):
            assert isinstance(part, Data)
            for tensor in (part.inputs, part.targets, part.rows):
                if tensor is not None:
                    stored[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
    floats = 70_000 * 784 * 4
    yield Bar(
        "10 permuted tasks / one float copy of MNIST, bytes", sum(stored.values()) / floats, 0.4
    )
    rows = torch.randperm(60_000)[:256]
    batch = tasks[3].train.batch(rows)
    times = best_times(
        {
            "batch": lambda: tasks[3].train.batch(rows),
            "step": plain_step(mlp(784, (400, 400), 10), batch.inputs, batch.targets),
        }
    )
    yield Bar(
        "a permuted, normalised batch / a training step", times["batch"] / times["step"], 0.10
    )
