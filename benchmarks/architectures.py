"""Networks of other kinds than fully connected ones: do they keep what they learned?

`python -m benchmarks.architectures`: a network with batch norms, convolutions without norms and
with either kind, a recurrent network and a transformer of torch's own layers read five sets of
digits, each with its pixels in another order, through one output layer, with settings by rule. The
last two are given the rows of a picture one after the other, and most of their weights belong to no
layer whose nodes could be followed. It writes a table of docs/rules.md; what is known is not run
again. Half an hour on one core.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.pages import filled
from benchmarks.pretrained import trained
from uclearn.methods.contract import Method
from uclearn.methods.registry import build
from uclearn.tasks.benchmarks import load_tasks
from uclearn.tasks.task import Task
from uclearn.training.plan import Plan
from uclearn.training.session import evaluate

TASKS = 5
ROWS = 8
PLAN = Plan(epochs=15, batch_size=64, lr=0.003, schedule="cosine")
RECORDS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "rules.md"

Records = list[dict[str, Any]]


class Recurrent(nn.Module):
    """A GRU, whose last state is read."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.GRU(ROWS, 64, batch_first=True)
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, classes)."""
        states, _ = self.memory(x.reshape(len(x), ROWS, ROWS))
        said: Tensor = self.last(states[:, -1])
        return said


class Encoder(nn.Module):
    """Two layers of a transformer, whose places are averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(ROWS, 64)
        self.place = nn.Parameter(0.1 * torch.randn(1, ROWS, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, classes)."""
        x = self.first(x.reshape(len(x), ROWS, ROWS)) + self.place
        said: Tensor = self.last(self.layers(x).mean(1))
        return said


def normalised() -> nn.Module:
    """Two hidden layers with batch norms."""
    hidden = [nn.Linear(64, 100), nn.BatchNorm1d(100), nn.ReLU()]
    hidden += [nn.Linear(100, 100), nn.BatchNorm1d(100), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(100, 10))


def convolutions(norm: Callable[[int], nn.Module] = lambda _: nn.Identity()) -> nn.Module:
    """Two of them, with whatever follows each."""
    layers: list[nn.Module] = [nn.Unflatten(1, (1, ROWS, ROWS))]
    for inputs, width in itertools.pairwise((1, 16, 32)):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), norm(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(4), nn.Flatten(), nn.Linear(4 * 32, 10))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "batch norms": normalised,
    "convolutions": convolutions,
    "convolutions, group norms": lambda: convolutions(lambda width: nn.GroupNorm(4, width)),
    "convolutions, batch norms": lambda: convolutions(nn.BatchNorm2d),
    "GRU": Recurrent,
    "TransformerEncoder": Encoder,
}
SEEDS = dict.fromkeys(NETWORKS, (0, 1, 2)) | {"TransformerEncoder": (0,)}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fine-tuning": ("finetuning", {}),
    "EWC": ("ewc", {}),
    "UCL": ("ucl", {}),
    "UCL, batch_norm='per-task'": ("ucl", {"batch_norm": "per-task"}),
    "UCL, batch_norm='shared'": ("ucl", {"batch_norm": "shared"}),
}


def record(name: str, label: str, seed: int) -> dict[str, Any]:
    """What one method makes of one network."""
    method_name, settings = METHODS[label]
    sequence = load_tasks("permuted-digits", seed, tasks=TASKS)
    torch.manual_seed(seed)
    example = sequence[0].train.batch(torch.tensor([0, 1])).inputs
    method = build(method_name, NETWORKS[name](), example, {method_name: settings})
    judged = learned_and_kept(method, sequence, PLAN)
    return {"network": name, "method": label, "seed": seed, **judged}


def learned_and_kept(method: Method, tasks: Iterable[Task], plan: Plan) -> dict[str, float]:
    """Mean accuracy right after each task, and after the last."""
    tasks, learned = list(tasks), []
    for task in tasks:
        trained(method, task, plan)
        learned.append(evaluate(method, task))
    kept = mean(evaluate(method, task) for task in tasks)
    return {"learned": round(mean(learned), 4), "kept": round(kept, 4)}


def runs() -> list[tuple[str, str, int]]:
    """Kinds of statistics are compared where there are some."""
    pairs = itertools.product(NETWORKS, METHODS)
    every = ((name, label, seed) for name, label in pairs for seed in SEEDS[name])
    return [run for run in every if "batch_norm" not in run[1] or run[0] == "batch norms"]


def completed(
    path: Path,
    told_apart_by: Sequence[str],
    runs: Iterable[tuple[Any, ...]],
    record: Callable[..., dict[str, Any]],
) -> Records:
    """The records in a file; those of `runs` that it lacks are made, and kept one by one."""
    records: Records = json.loads(path.read_text()) if path.exists() else []
    known = {tuple(one[field] for field in told_apart_by) for one in records}
    for run in runs:
        if run not in known:
            records.append(record(*run))
            print(records[-1], flush=True)
            path.write_text(json.dumps(records, indent=1) + "\n")
    return records


def main() -> None:
    """Measure what is missing, keep the numbers beside this file, write the page."""
    torch.set_num_threads(1)
    records = completed(RECORDS, ("network", "method", "seed"), runs(), record)
    PAGE.write_text(filled(PAGE.read_text(), {"architectures": table(records)}))


def table(records: Records) -> str:
    """In Markdown."""
    lines = ["| network | method | after five tasks | right after each |", "|---|---|---|---|"]
    for name, label in itertools.product(NETWORKS, METHODS):
        found = [one for one in records if (one["network"], one["method"]) == (name, label)]
        if found:
            kept, learned = (mean(one[key] for one in found) for key in ("kept", "learned"))
            lines.append(f"| {name} | {label} | {100 * kept:.1f} | {100 * learned:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
