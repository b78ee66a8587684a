"""A whole epoch of a run, training and judging: UCL in our trainer against UCL written the plain
way and judged as often as the authors' program judges (`benchmarks.plain_ucl`), in the fifth of ten
tasks, where a run has half of its judging behind it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.plain_ucl import Network, Trainer
from benchmarks.timing import Bar, Case, best_times
from uclearn import UCL
from uclearn.gaussian import Sampling
from uclearn.methods.losses import cross_entropy
from uclearn.networks import mlp
from uclearn.tasks import Data, Task
from uclearn.tasks.transforms import Normalise, Permute, Then
from uclearn.training import Plan
from uclearn.training.loop import TaskLoop
from uclearn.training.precision import Precision, best_on

BATCHES = 40
EARLIER = 4
"""Tasks before the one that is learned."""
LIMITS: dict[Precision, float] = {"float32": 1 / 4, "bfloat16": 1 / 6}


def pictures() -> Data:
    """Random bytes, prepared as those of Permuted MNIST are: only the cost matters."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(256, (256 * BATCHES, 784), generator=draw, dtype=torch.uint8)
    prepare = Then((Normalise(0.1307, 0.3081), Permute(torch.randperm(784, generator=draw))))
    return Data(x, torch.randint(10, (len(x),), generator=draw), prepare=prepare)


def plain_epoch(data: Data) -> Case:
    """The plain way; its floats lie ready."""
    batch = data.batch(torch.arange(len(data)))
    return Trainer(Network((784, 400, 400, 10), 0.06), batch.inputs, batch.targets, EARLIER).epoch


def our_epoch(data: Data, sampling: Sampling, precision: Precision) -> Case:
    """Ours, from bytes; of a second task, so that all terms of the penalty are on."""
    network = mlp(784, (400, 400), 10)
    example = torch.zeros(1, 784)
    method = UCL(
        network,
        example,
        hold="weights",
        beta=0.03,
        sigma=0.06,
        lr_sigma=0.001,
        sampling=sampling,
        closed_form=True,
    )
    method.end_task()
    # a better epoch is copied, a worse one is not: patience that never ends slows nothing down
    plan = Plan(epochs=10**9, patience=10**9, precision=precision)
    loop = TaskLoop(method, Task("some", 0, data, classes=10), plan, cross_entropy)
    return lambda: loop.run_epoch(lambda *_: None)


def measure() -> Iterator[Bar]:
    """The bars of a whole run; those of bfloat16 only where it is native."""
    torch.set_num_threads(2)
    data = pictures()
    digits: list[Precision] = ["float32"]
    if best_on(torch.device("cpu")) == "bfloat16":
        digits.append("bfloat16")
    cases = {"plain": plain_epoch(data)}
    limits = {}
    for precision in digits:
        for sampling in ("weight", "local"):
            name = f"{sampling}, {precision}"
            cases[name] = our_epoch(data, sampling, precision)
            limits[name] = LIMITS[precision]
    times = best_times(cases, rounds=8, repeats=1)
    for name, limit in limits.items():
        detail = f"{times[name] * 1e3:.0f} ms against {times['plain'] * 1e3:.0f} ms"
        ratio = times[name] / times["plain"]
        yield Bar(f"epoch and judging, UCL {name} / as the authors do it", ratio, limit, detail)
