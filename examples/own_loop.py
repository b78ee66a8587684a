"""What fine-tuning forgets and UCL keeps, in a training loop of your own.

Five tasks in a row: read handwritten digits (8x8 pixels), each time with the pixels in another
order. To a network that does not know that pixels have neighbours, each order is a new script. One
network learns the five one after the other and never sees an earlier one again; in the end it is
asked to read all of them. We do that twice, from the same start: with plain fine-tuning, and with
UCL beside the network. The training loop is the same ten lines for both.

    python examples/own_loop.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import uclearn
from uclearn.tasks.sources import digits

TASKS, EPOCHS, BATCH, LEARNING_RATE = 5, 10, 32, 0.004


class Task(NamedTuple):
    """Pixels, (examples, 64), and the digits they show, to learn from and to be tested on."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


def permuted_digits(count: int, seed: int = 0) -> list[Task]:
    """The digits `count` times over, each time with the pixels in another order."""
    generator = torch.Generator().manual_seed(seed)
    images, labels = digits.load()
    shuffled = torch.randperm(len(images), generator=generator)
    x, y = images[shuffled].flatten(1) / 16, labels[shuffled]
    orders = [torch.randperm(64, generator=generator) for _ in range(count)]
    return [Task(x[:1400, order], y[:1400], x[1400:, order], y[1400:]) for order in orders]


def network() -> nn.Module:
    """An ordinary network. It knows nothing of continual learning."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)
    )


def learn(method: uclearn.Method, task: Task) -> None:
    """Your training loop. What is new: `parameter_groups`, `penalty` and `end_task`."""
    optimizer = torch.optim.Adam(method.parameter_groups(lr=LEARNING_RATE))
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(task.x)).split(BATCH):
            loss = F.cross_entropy(method.model(task.x[rows]), task.y[rows])
            loss = loss + method.penalty(batch_size=len(rows))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    method.end_task()


def accuracy(method: uclearn.Method, task: Task) -> float:
    """The share of test digits that are read correctly."""
    with method.inference() as net, torch.no_grad():
        right: Tensor = net(task.x_test).argmax(dim=1) == task.y_test
    return right.float().mean().item()


class Result(NamedTuple):
    """Accuracy on each task: right after it was learned, and after all tasks."""

    fresh: list[float]
    final: list[float]

    @property
    def average(self) -> float:
        """What is there in the end."""
        return sum(self.final) / len(self.final)

    @property
    def forgotten(self) -> float:
        """What was there once and is gone, as an average over all tasks but the last."""
        lost = [before - after for before, after in zip(self.fresh, self.final, strict=True)]
        return sum(lost[:-1]) / (len(lost) - 1)


def learn_all(method: uclearn.Method, tasks: Sequence[Task]) -> Result:
    """One task after the other, none of them twice."""
    torch.manual_seed(1)  # the same order of examples for every method
    fresh = []
    for task in tasks:
        learn(method, task)
        fresh.append(accuracy(method, task))
    return Result(fresh, [accuracy(method, task) for task in tasks])


def compare() -> dict[str, Result]:
    """Fine-tuning and UCL, side by side."""
    tasks, net = permuted_digits(TASKS), network()
    fine_tuning = uclearn.Method(net)
    ucl = uclearn.UCL(net, example=tasks[0].x[:1], beta=0.03, sigma=0.15, lr_sigma=0.01)
    return {
        "fine-tuning": learn_all(fine_tuning, tasks),
        "UCL": learn_all(ucl, tasks),
    }


def table(results: dict[str, Result]) -> str:
    """Percentages, one row per method."""
    names = "".join(f"{f'task {number + 1}':>8}" for number in range(TASKS))
    lines = [f"{'':12}{names}{'average':>11}"]
    for name, result in results.items():
        cells = "".join(f"{value:8.0%}" for value in result.final)
        lines.append(f"{name:12}{cells}{result.average:11.0%}")
    return "\n".join(lines)


def main() -> None:
    """Learn, and tell."""
    print(f"Learning {TASKS} orders of the pixels, one after the other: some 15 seconds.\n")
    results = compare()
    print("Digits read correctly in the end, in the order of each task:\n")
    print(table(results))
    forgotten = {name: f"{result.forgotten * 100:.0f}" for name, result in results.items()}
    print(
        f"\nOf what the network could do right after a task, fine-tuning forgets "
        f"{forgotten['fine-tuning']} points, UCL {forgotten['UCL']}."
    )


if __name__ == "__main__":
    main()
