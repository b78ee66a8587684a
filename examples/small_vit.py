"""A small vision transformer that was trained before, and what is left of it after further tasks.

It has learned to read digits. Then it learns letters, three tasks of them, each with an output
layer of its own, and never sees a digit again. With `UCLEARN_DATA` those are MNIST's digits and
notMNIST's letters; without, the small digits that come with this library, four of them before and
two in each further task. The training loop is your own, and the same for every method.

    python examples/small_vit.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor, nn

import uclearn
from uclearn.methods.losses import cross_entropy
from uclearn.methods.registry import build
from uclearn.networks import MultiHead
from uclearn.tasks import Data, Task
from uclearn.tasks.sources import digits, idx, notmnist

BEFORE, AFTER, BATCH = 8, 4, 16
"""Epochs over what is learned before and later, and examples of a batch."""
EXAMPLES = (4_000, 1_200)
"""To learn from at most: of the old task, and of each further one."""
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fine-tuning": ("finetuning", {}),
    "EWC": ("ewc", {"fisher_batch": 20}),  # positions have no closed rule
    "LwF": ("lwf", {}),
    "UCL": ("ucl", {"pretrained": True}),
}
"""By label the method; every setting else is by rule."""


def parts() -> list[tuple[str, Tensor, Tensor]]:
    """By name the pictures, (examples, 1, height, width) from 0 to 1, and labels of each task."""
    if os.environ.get("UCLEARN_DATA"):
        read, letters = idx.load("mnist").train, notmnist.load()
        images, labels = read.inputs, read.labels
        found = [("digits", images, labels)]
        for group in ("ABC", "DEF", "GHIJ"):
            found.append(_of("ABCDEFGHIJ", group, letters.inputs, letters.labels))
    else:
        images, labels = digits.load()
        groups = ("0123", "45", "67", "89")
        found = [_of("0123456789", group, images, labels) for group in groups]
    brightest = float(images.max())
    return [(name, x.float().unsqueeze(1) / brightest, y.long()) for name, x, y in found]


def _of(alphabet: str, group: str, x: Tensor, y: Tensor) -> tuple[str, Tensor, Tensor]:
    """The classes of a group, their labels counted from 0."""
    first = alphabet.index(group[0])
    mine = (y >= first) & (y < first + len(group))
    return group, x[mine], y[mine] - first


def tasks() -> list[Task]:
    """What was learned before, and three further tasks; a fifth of each judges."""
    generator, made = torch.Generator().manual_seed(0), []
    for index, (name, x, y) in enumerate(parts()):
        order = torch.randperm(len(x), generator=generator)
        test, train = order[: len(x) // 5], order[len(x) // 5 :][: EXAMPLES[index > 0]]
        train_data, test_data = (Data(x[rows], y[rows], task=index) for rows in (train, test))
        made.append(Task(name, index, train_data, test=test_data, classes=int(y.max()) + 1))
    return made


class Trunk(nn.Module):
    """What of a ViT is left without its output layer: a vector for each picture."""

    def __init__(self, size: int) -> None:
        super().__init__()
        config = transformers.ViTConfig(
            image_size=size,
            patch_size=size // 4,
            num_channels=1,
            hidden_size=64,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=128,
        )
        self.vit = transformers.ViTModel(config, add_pooling_layer=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 64)."""
        seen: Tensor = self.vit(x).last_hidden_state
        return seen.mean(1)


def batches(data: Data) -> Iterator[tuple[Tensor, Tensor]]:
    """One epoch, shuffled."""
    for rows in torch.randperm(len(data)).split(BATCH):
        yield data.inputs[rows], data.targets[rows]


def learn(method: uclearn.Method, task: Task, epochs: int) -> None:
    """Your training loop, with the hooks that methods may need."""
    method.begin_task(task)  # adds an output layer
    method.task_steps = epochs * -(-len(task.train) // BATCH)
    optimizer = torch.optim.Adam(method.parameter_groups(lr=1e-3))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, method.task_steps)
    method.train()
    assert isinstance(task.train, Data)
    for _ in range(epochs):
        for x, y in batches(task.train):
            step: Any = {"task": task.index, "inputs": x, "batch_size": len(x)}
            method.begin_step(**step)
            loss = cross_entropy(method.model(x, task=task.index), y).mean()
            loss = loss + method.penalty(**step)
            optimizer.zero_grad()
            loss.backward()
            method.adjust_gradients(**step)
            optimizer.step()
            method.end_step(**step)
            schedule.step()


def end(method: uclearn.Method, task: Task) -> None:
    """A task is over; the method takes of it what it needs."""
    assert isinstance(task.train, Data)
    some = list(zip(task.train.inputs.split(BATCH), task.train.targets.split(BATCH), strict=True))

    def losses() -> Iterator[Tensor]:
        return (cross_entropy(method.model(x, task=task.index), y) for x, y in some)

    method.end_task(task, losses, inputs=[x for x, _ in some])


@torch.no_grad()
def accuracy(method: uclearn.Method, task: Task) -> float:
    """Of what was never trained on."""
    assert isinstance(task.test, Data)
    with method.inference(task.index) as network:
        said = [network(x, task=task.index).argmax(1) for x in task.test.inputs.split(512)]
    return float((torch.cat(said) == task.test.targets).float().mean())


class Story(NamedTuple):
    """Of one method: accuracy on each task right after it was learned, and in the end."""

    fresh: list[float]
    final: list[float]


def trained_before(old: Task) -> MultiHead:
    """The network that knows the old task."""
    torch.manual_seed(0)
    assert isinstance(old.train, Data)
    method = uclearn.Method(MultiHead(Trunk(old.train.inputs.shape[-1]), 64))
    learn(method, old, BEFORE)
    assert isinstance(method.model, MultiHead)
    return method.model


def story(label: str, network: MultiHead, sequence: list[Task]) -> Story:
    """Three further tasks, one after the other."""
    name, settings = METHODS[label]
    old, *further = sequence
    assert isinstance(old.train, Data)
    torch.manual_seed(1)
    method = build(name, network, old.train.inputs[:2], {name: settings})
    end(method, old)  # shown what the network was trained on
    fresh = [accuracy(method, old)]
    for task in further:
        learn(method, task, AFTER)
        end(method, task)
        fresh.append(accuracy(method, task))
    return Story(fresh, [accuracy(method, task) for task in sequence])


def compare() -> tuple[list[Task], dict[str, Story]]:
    """What each method makes of it."""
    sequence = tasks()
    network = trained_before(sequence[0])
    return sequence, {label: story(label, network, sequence) for label in METHODS}


def table(sequence: list[Task], told: dict[str, Story]) -> str:
    """Accuracies in the end (and right after), one row per method, in Markdown."""
    names = " | ".join(task.name for task in sequence)
    lines = [f"| right in the end (right after learning it) | {names} | mean |"]
    lines.append(f"|---|{'---|' * (len(sequence) + 1)}")
    for label, one in told.items():
        pairs = zip(one.final, one.fresh, strict=True)
        cells = " | ".join(f"{100 * last:.1f} ({100 * first:.1f})" for last, first in pairs)
        average = 100 * sum(one.final) / len(one.final)
        lines.append(f"| {label} | {cells} | {average:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Learn, and tell."""
    print("A small ViT learns to read digits, then three further tasks: some minutes.\n")
    print(table(*compare()))


if __name__ == "__main__":
    main()
