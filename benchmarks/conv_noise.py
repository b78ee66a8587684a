"""Noise of convolutions: one draw for each position, one for each node, or one of the weights?

`sampling="local"` draws fresh noise for every position of a convolution, `"weight"` draws the
weights, so that the noise of all positions of all examples goes together. In between lies one draw
for each node and example, shared by its positions. `python -m benchmarks.conv_noise` learns pairs
of letters (the small notMNIST at 14 x 14 pixels) with UCL's defaults in all three ways, with two
small networks, and writes the table of docs/mathematics.md. Results are kept as they come, and what
is known is not run again. A few minutes on one core.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.pages import filled
from uclearn import UCL
from uclearn.gaussian.layers import GaussianConv2d, Sampling
from uclearn.networks import MultiHead, he_start
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.tasks.benchmarks import load_tasks
from uclearn.tasks.data import generator
from uclearn.training.plan import Plan
from uclearn.training.session import learn

RECORDS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "mathematics.md"
SEEDS = (0, 1, 2)
LEARNED = 600
"""Examples of each task."""
PLAN = Plan(epochs=8, batch_size=64, schedule="cosine")
WAYS = {
    "position": "one for each position (`local`)",
    "node": "one for each node and example",
    "weight": "one of the weights (`weight`)",
}
NETWORKS = {"pooled": "averaged over all positions", "flat": "every position by itself"}
"""What enters the heads."""

Records = list[dict[str, Any]]


def network(kind: str, seed: int) -> MultiHead:
    """Three convolutions."""
    layers: list[nn.Module] = []
    for before, after in ((1, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if before < 32 else []
    layers += [nn.AdaptiveAvgPool2d(1)] if kind == "pooled" else []
    trunk = he_start(nn.Sequential(*layers, nn.Flatten()), torch.Generator().manual_seed(seed))
    return MultiHead(trunk, 32 if kind == "pooled" else 32 * 3 * 3, seed)


def tasks(seed: int) -> TaskSequence:
    """Five pairs of letters, few of each."""
    pairs = load_tasks("split-notmnist", seed=seed)
    return TaskSequence("letters", [_small(task, seed) for task in pairs], True)


def _small(task: Task, seed: int) -> Task:
    assert task.test is not None
    order = torch.randperm(len(task.train), generator=generator(seed, task.name))[:LEARNED]
    train = _pictures(task.train.batch(order))
    test = _pictures(task.test.batch(torch.arange(len(task.test))))
    return Task(task.name, task.index, train, test=test, classes=task.classes)


def _pictures(batch: Any) -> Data:
    return Data(F.avg_pool2d(batch.inputs.view(-1, 1, 28, 28), 2), batch.targets)


@contextmanager
def drawn_by(way: str) -> Iterator[None]:
    """Within, local noise of convolutions is drawn so."""
    usual = GaussianConv2d._local

    def by_node(self: GaussianConv2d, input: Tensor, *others: Any) -> Tensor:
        under_means = self.apply_weight(input, self.weight, self.bias)
        drawn = torch.randn(*under_means.shape[:2], 1, 1)
        return under_means + self.sigma.view(-1, 1, 1) * self.length(input) * drawn

    if way == "node":
        GaussianConv2d._local = by_node  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        GaussianConv2d._local = usual  # type: ignore[method-assign]


def outcome(kind: str, way: str, seed: int) -> dict[str, Any]:
    """Accuracies after the last task, and of each task when it was learned."""
    torch.manual_seed(seed)
    sampling: Sampling = "weight" if way == "weight" else "local"
    method = UCL(network(kind, seed), torch.zeros(1, 1, 14, 14), sampling=sampling, seed=seed)
    with drawn_by(way):
        rows = learn(method, tasks(seed), PLAN).accuracy_matrix
    own = [float(row[k]) for k, row in enumerate(rows)]
    return {"final": mean(float(value) for value in rows[-1]), "learned": mean(own)}


def table(records: Records) -> str:
    """As it stands in the documentation."""
    lines = [
        "| what enters the heads | a draw | after the last task | when learned |",
        "|---|---|---|---|",
    ]
    for kind, words in NETWORKS.items():
        for way, called in WAYS.items():
            own = [r for r in records if (r["network"], r["way"]) == (kind, way)]
            if own:
                each = " | ".join(_spread([r[key] for r in own]) for key in ("final", "learned"))
                lines.append(f"| {words} | {called} | {each} |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    told = f"{100 * mean(values):.1f}"
    return f"{told} ({100 * min(values):.1f} to {100 * max(values):.1f})"


def main() -> None:
    """Run what is missing, and write the table."""
    records: Records = json.loads(RECORDS.read_text()) if RECORDS.exists() else []
    for seed in SEEDS:
        for kind in NETWORKS:
            for way in WAYS:
                run = {"network": kind, "way": way, "seed": seed}
                if any(run.items() <= record.items() for record in records):
                    continue
                records.append({**run, **outcome(kind, way, seed)})
                print(records[-1], flush=True)
                RECORDS.write_text(json.dumps(records, indent=1) + "\n")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), {"conv noise": table(records)}))


if __name__ == "__main__":
    main()
