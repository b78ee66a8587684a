"""A network that has learned something before: what of it is left after five further tasks.

`python -m benchmarks.pretrained` trains a small residual network with batch norms and a small
transformer on 50 classes of CIFAR-100 (kept in `--cache`, so that it is done once), then lets each
method learn five tasks of ten further classes, each with a head of its own, with settings by rule.
It writes the table of docs/rules.md. Results are kept as they come, and what is known is not run
again. About 40 minutes on one core.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.pages import filled
from uclearn import UCL
from uclearn.gaussian import use_samples
from uclearn.methods.contract import Method
from uclearn.methods.losses import cross_entropy
from uclearn.methods.registry import build
from uclearn.networks import MultiHead, he_start, run
from uclearn.tasks import Task, TaskSequence, iterate
from uclearn.tasks.builders import CIFAR_SCALE
from uclearn.tasks.data import Data
from uclearn.tasks.sources import cifar
from uclearn.tasks.task import split
from uclearn.training.loop import TaskLoop, mean_score
from uclearn.training.plan import Plan
from uclearn.training.session import evaluate

OLD = 50
RECORDS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "rules.md"
BEFORE = Plan(epochs=12, batch_size=128, lr=0.002, schedule="cosine", warmup=0.1)
AFTER = Plan(epochs=3, batch_size=64, lr=0.001, schedule="cosine")
LEARNED = 2500
"""Examples of each further task."""
LOOKED_AT = 4096
"""Of the old classes, by methods that are shown what the network was trained on."""
METHODS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "fine-tuning": ("finetuning", {}, False),
    "EWC": ("ewc", {}, True),
    "LwF": ("lwf", {}, True),
    "UCL, not told": ("ucl", {}, False),
    "UCL, pretrained, shown nothing": ("ucl", {"pretrained": True}, False),
    "UCL, pretrained": ("ucl", {"pretrained": True}, True),
}
"""By label the method, its settings, and whether it is shown data of the old classes."""

Records = list[dict[str, Any]]


class Residual(nn.Module):
    """Two convolutions with batch norms beside a short cut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.first_norm, self.second_norm = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.short: nn.Module = nn.Identity()
        if before != after:
            self.short = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width)."""
        inner = self.first_norm(self.first(x)).relu()
        said: Tensor = self.second_norm(self.second(inner)) + self.short(x)
        return said.relu()


def residual_network() -> MultiHead:
    """Three stages of 24, 48 and 96 channels."""
    trunk = nn.Sequential(
        nn.Conv2d(3, 24, 3, 2, 1, bias=False),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        Residual(24, 24, 1),
        Residual(24, 48, 2),
        Residual(48, 96, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return MultiHead(he_start(trunk, torch.Generator().manual_seed(0)), 96)


class Attention(nn.Module):
    """A layer of a transformer, norms first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.norm, self.inner_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, places, width)."""
        seen = self.norm(x)
        parts = (layer(seen) for layer in (self.query, self.key, self.value))
        apart = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        heard = nn.functional.scaled_dot_product_attention(*apart)
        x = x + self.out(heard.transpose(1, 2).flatten(2))
        said: Tensor = x + self.down(nn.functional.gelu(self.up(self.inner_norm(x))))
        return said


class Transformer(nn.Module):
    """Pictures cut into 8 x 8 places."""

    def __init__(self, width: int = 64, depth: int = 4) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, 4, 4)
        self.place = nn.Embedding(64, width)
        self.layers = nn.Sequential(*(Attention(width, 4) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("places", torch.arange(64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width)."""
        x = self.cut(x).flatten(2).transpose(1, 2) + self.place(self.get_buffer("places"))
        said: Tensor = self.norm(self.layers(x))
        return said.mean(1)


def transformer() -> MultiHead:
    """Four layers, 64 wide."""
    torch.manual_seed(0)
    trunk = Transformer()
    nn.init.normal_(trunk.place.weight, std=0.02)
    return MultiHead(trunk, 64)


NETWORKS: dict[str, Callable[[], MultiHead]] = {"residual": residual_network, "vit": transformer}


def tasks() -> TaskSequence:
    """50 classes, then five times ten."""
    files = cifar.load_cifar100()
    train, test = (Data(part.inputs, part.labels, prepare=CIFAR_SCALE) for part in files)
    groups = [range(OLD), *(range(first, first + 10) for first in range(OLD, 100, 10))]
    return split(train, test, groups, name="pretrained")


def trained(method: Method, task: Task, plan: Plan) -> None:
    """Learn a task."""
    loop = TaskLoop(method, method.begin_task(task), plan, cross_entropy)
    while not loop.done:
        loop.run_epoch(lambda *_: None)
    loop.finish()


def pretrained(name: str, old: Task, cache: Path) -> MultiHead:
    """The network that knows the old classes."""
    network, place = NETWORKS[name](), cache / f"{name}.pt"
    network.add_head(OLD)
    if not place.exists():
        method = Method(network)
        torch.manual_seed(0)
        trained(method, old, BEFORE)
        cache.mkdir(parents=True, exist_ok=True)
        torch.save(method.model.state_dict(), place)
    network.load_state_dict(torch.load(place))
    return network


def some(task: Task, count: int) -> Task:
    """About so many examples of a task to train on, evenly spaced."""
    step = max(1, len(task.train) // count)
    return replace(task, train=task.train.subset(torch.arange(0, len(task.train), step)))


def shown(method: Method, old: Task) -> None:
    """Tell a method what the network was trained on: the end of that task."""
    looked_at = some(old, LOOKED_AT)
    batches = list(iterate(looked_at.train, AFTER.batch_size))
    if isinstance(method, UCL):
        method.end_task(inputs=[batch.inputs for batch in batches])
        return
    method.end_task(
        looked_at,
        lambda: (cross_entropy(run(method.model, b.inputs, b.task), b.targets) for b in batches),
    )


def noisy(method: Method, task: Task) -> float:
    """Accuracy while weights are drawn, as in training."""
    assert task.test is not None
    with torch.no_grad(), method.inference(task.index) as network, use_samples(network):
        return mean_score(network, task.test)


def record(name: str, label: str, sequence: TaskSequence, cache: Path) -> dict[str, Any]:
    """What one method makes of one network."""
    method_name, settings, is_shown = METHODS[label]
    old, *further = sequence
    network = pretrained(name, old, cache)
    torch.manual_seed(0)
    example = old.train.batch(torch.tensor([0, 1])).inputs
    method = build(method_name, network, example, {method_name: settings})
    if is_shown:
        shown(method, old)
    found = {"network": name, "method": label, "before": evaluate(method, old)}
    found["noisy"] = noisy(method, old)
    learned = []
    for task in further:
        trained(method, some(task, LEARNED), AFTER)
        learned.append(evaluate(method, task))
    new = [evaluate(method, task) for task in further]
    return {**found, "old": evaluate(method, old), "learned": mean(learned), "new": mean(new)}


def main() -> None:
    """Measure what is missing, keep the numbers beside this file, write the page."""
    parser = argparse.ArgumentParser(description="Pretrained networks and five further tasks.")
    parser.add_argument("--cache", type=Path, default=Path("pretrained"))
    cache: Path = parser.parse_args().cache
    torch.set_num_threads(1)
    records: Records = json.loads(RECORDS.read_text()) if RECORDS.exists() else []
    known = {(one["network"], one["method"]) for one in records}
    sequence = tasks()
    for name in NETWORKS:
        for label in METHODS:
            if (name, label) not in known:
                records.append(record(name, label, sequence, cache))
                RECORDS.write_text(json.dumps(records, indent=1) + "\n")
                PAGE.write_text(filled(PAGE.read_text(), {"pretrained": table(records)}))


def table(records: Records) -> str:
    """In Markdown."""
    lines = [
        "| network | method | the 50 old classes before, in training mode | after five tasks | the "
        "new tasks right after each | after all |",
        "|---|---|---|---|---|---|",
    ]
    found = {(one["network"], one["method"]): one for one in records}
    for key in itertools.product(NETWORKS, METHODS):
        if (one := found.get(key)) is not None:
            numbers = (one["noisy"], one["old"], one["learned"], one["new"])
            shares = " | ".join(f"{100 * number:.1f}" for number in numbers)
            lines.append(f"| {' | '.join(key)} | {shares} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
