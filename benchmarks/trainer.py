"""What our trainer and the other methods cost per step, and whether that grows with the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.timing import Bar, Case, best_times
from uclearn.methods.contract import Method, Step
from uclearn.methods.registry import build
from uclearn.networks import mlp
from uclearn.tasks import Batch, Data, Task, iterate
from uclearn.training import Plan
from uclearn.training.loop import TaskLoop, train_step
from uclearn.training.losses import cross_entropy

BATCHES = 20
QUICK = {"closed_form": True}
HELD: dict[str, dict[str, Any]] = {"ewc": QUICK, "si": QUICK, "mas": QUICK, "hat": {"tasks": 60}}
ADAM = Plan()
PLANS = {"hat": Plan(optimizer="sgd", lr=0.05)}
"""Each method with the optimiser of its paper."""


def some_data(task: int = 0, batches: int = BATCHES) -> Data:
    """Random pictures; only the cost matters."""
    draw = torch.Generator().manual_seed(task)
    x = torch.rand(256 * batches, 784, generator=draw)
    return Data(x, torch.randint(10, (len(x),), generator=draw), task=task)


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


def prepared(name: str, settings: dict[str, Any], tasks: int) -> tuple[Method, Batch]:
    """A method that has ended `tasks` tasks and begun the next."""
    method = build(name, mlp(784, (400, 400), 10), torch.zeros(1, 784), {name: settings})
    for index in range(tasks):
        data = some_data(index, batches=1)
        task = method.begin_task(Task(str(index), index, data, classes=10))
        one_step(method, data.batch(torch.arange(256)), index)()
        method.model.eval()
        method.end_task(task, lambda data=data: losses(method, data))  # type: ignore[misc]
        method.model.train()
    data = some_data(tasks, batches=1)
    method.begin_task(Task(str(tasks), tasks, data, classes=10))
    return method, data.batch(torch.arange(256))


def losses(method: Method, data: Data) -> Iterator[torch.Tensor]:
    """Per-example losses, as a trainer gives them to `end_task`."""
    for batch in iterate(data, 256):
        yield cross_entropy(method.model(batch.inputs), batch.targets)


def one_step(method: Method, batch: Batch, task: int, plan: Plan = ADAM) -> Case:
    """A step of the present task, with the optimiser made once."""
    optimizer = plan.make_optimizer(method.parameter_groups(plan.lr))
    step = Step(task=task, inputs=batch.inputs, batch_size=256, progress=0.5, examples=60_000)

    def case() -> None:
        train_step(method, batch, step, cross_entropy, optimizer)

    return case


def measure() -> Iterator[Bar]:
    """The bars of the trainer."""
    torch.set_num_threads(2)
    data = some_data()
    times = best_times({"bare": bare_epoch(data), "ours": our_epoch(data)}, rounds=10, repeats=1)
    detail = f"{times['ours'] / BATCHES * 1e3:.2f} ms a step"
    yield Bar("fine-tuning in our trainer / bare loop", times["ours"] / times["bare"], 1.05, detail)

    for name, settings in HELD.items():
        plan = PLANS.get(name, ADAM)
        times = best_times(
            {
                "plain": one_step(*prepared("finetuning", {}, 1), 1, plan),
                "held": one_step(*prepared(name, settings, 1), 1, plan),
            }
        )
        detail = f"{times['held'] * 1e3:.2f} ms against {times['plain'] * 1e3:.2f} ms"
        ratio = times["held"] / times["plain"]
        yield Bar(f"a step of {name} / of fine-tuning, {plan.optimizer}", ratio, 1.25, detail)
    yield from _growth()


def _growth() -> Iterator[Bar]:
    names: dict[str, dict[str, Any]] = {**HELD, "ucl": QUICK, "rwalk": QUICK, "lwf": {}, "vcl": {}}
    names["vcl"] = {"samples": 2}
    for name, settings in names.items():
        early, late = prepared(name, settings, 1), prepared(name, settings, 49)
        sizes = [sum(t.numel() for t in m.state_dict().values()) for m, _ in (early, late)]
        times = best_times(
            {"task 2": one_step(*early, 1), "task 50": one_step(*late, 49)}, rounds=15
        )
        ratio = times["task 50"] / times["task 2"]
        yield Bar(f"{name}: a step of task 50 / of task 2", ratio, 1.05)
        yield Bar(f"{name}: state after task 49 / after task 1", sizes[1] / sizes[0], 1.0)
