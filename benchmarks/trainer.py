"""What our trainer and the other methods cost per step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from benchmarks.growth import PLANS, Size, one_step, prepared
from benchmarks.timing import Bar, Case, best_times
from uclearn.methods.losses import cross_entropy
from uclearn.methods.registry import build
from uclearn.networks import mlp
from uclearn.tasks import Data, Task
from uclearn.training import Plan
from uclearn.training.loop import TaskLoop

BATCHES = 20
HELD = ("ewc", "si", "mas", "hat")


def some_data() -> Data:
    """Random pictures; only the cost matters."""
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(256 * BATCHES, 784, generator=draw)
    return Data(x, torch.randint(10, (len(x),), generator=draw))


def bare_epoch(data: Data) -> Case:
    """An epoch of a hand-written loop over the same tensors, in the same kind of order."""
    network = mlp(784, (400, 400), 10).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    order = torch.Generator().manual_seed(0)

    def epoch() -> None:
        for rows in torch.randperm(len(data), generator=order).split(256):
            loss = F.cross_entropy(network(data.inputs[rows]), data.targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return epoch


def our_epoch(data: Data) -> Case:
    """The same in our trainer, with fine-tuning."""
    task = Task("some", 0, data, classes=10)
    method = build("finetuning", mlp(784, (400, 400), 10), None)
    loop = TaskLoop(method, task, Plan(epochs=10**9), cross_entropy)

    def epoch() -> None:
        loop.run_epoch(lambda *_: None)

    return epoch


def measure() -> Iterator[Bar]:
    """The bars of the trainer."""
    torch.set_num_threads(2)
    data = some_data()
    times = best_times({"bare": bare_epoch(data), "ours": our_epoch(data)}, rounds=10, repeats=1)
    detail = f"{times['ours'] / BATCHES * 1e3:.2f} ms a step"
    yield Bar("fine-tuning in our trainer / bare loop", times["ours"] / times["bare"], 1.05, detail)

    for name in HELD:
        plan = PLANS.get(name, Plan())
        times = best_times(
            {
                "plain": one_step(*prepared("finetuning", Size()), plan),
                "held": one_step(*prepared(name, Size()), plan),
            }
        )
        detail = f"{times['held'] * 1e3:.2f} ms against {times['plain'] * 1e3:.2f} ms"
        ratio = times["held"] / times["plain"]
        yield Bar(f"a step of {name} / of fine-tuning, {plan.optimizer}", ratio, 1.25, detail)
