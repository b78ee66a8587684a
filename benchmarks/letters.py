"""Letters with other letters behind them: what do convolutions keep in short tasks?

`python -m benchmarks.letters`: the small notMNIST (`UCLEARN_DATA`), each letter with a fainter one
behind it, in three views (as they are, turned, as a mirrored negative), a head for each view, 1,500
pictures and 6 epochs a task, settings by rule. One of the sets on which rules were developed: no
benchmark has convolutions that are trained for so few steps. It writes a table of docs/rules.md;
what is known is not run again. A quarter of an hour on one core.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.architectures import Records, completed, learned_and_kept
from benchmarks.pages import filled
from uclearn.methods.registry import build
from uclearn.methods.ucl import rules
from uclearn.networks import MultiHead
from uclearn.tasks import Data, Task
from uclearn.tasks.sources import notmnist
from uclearn.training.plan import Plan

SEEDS = (0, 1)
TRAIN, TEST = 1_500, 2_000
FAINT = 0.55
PLAN = Plan(epochs=6, batch_size=64, schedule="cosine")
RECORDS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "rules.md"
METHODS: dict[str, tuple[str, float]] = {
    "fine-tuning": ("finetuning", rules.MEASURED_OF_PLACES),
    "EWC": ("ewc", rules.MEASURED_OF_PLACES),
    "LwF": ("lwf", rules.MEASURED_OF_PLACES),
    "UCL, 0.3 of what is measured": ("ucl", 0.3),
    "UCL": ("ucl", rules.MEASURED_OF_PLACES),
}
"""By label the method, and what UCL counts of the measured strength of convolutions."""


def _turned(x: Tensor) -> Tensor:
    return x.rot90(1, (1, 2))


def _mirrored_negative(x: Tensor) -> Tensor:
    return 1 - x.flip(2)


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "as they are": lambda x: x,
    "turned": _turned,
    "mirrored negative": _mirrored_negative,
}


def views(seed: int) -> list[Task]:
    """The same letters in other views, drawn and paired anew for each."""
    letters = notmnist.load()
    x, y = letters.inputs.float() / 255, letters.labels.long()
    chance, tasks = torch.Generator().manual_seed(seed), []
    for index, (name, view) in enumerate(VIEWS.items()):
        before, behind = (torch.randperm(len(x), generator=chance) for _ in range(2))
        both = torch.maximum(x[before], FAINT * x[behind])
        pictures = F.pad(view(both), (2, 2, 2, 2)).unsqueeze(1) * 2 - 1
        train, test = (
            Data(pictures[rows], y[before][rows], task=index)
            for rows in (slice(TRAIN), slice(TRAIN, TRAIN + TEST))
        )
        tasks.append(Task(name, index, train, test=test, classes=10))
    return tasks


def network() -> MultiHead:
    """Six convolutions of 16 to 64 channels, and dropout."""
    layers: list[nn.Module] = []
    for inputs, width in itertools.pairwise((1, 16, 32, 64)):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU()]
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(64 * 16, 128), nn.ReLU(), nn.Dropout(0.5)]
    return MultiHead(nn.Sequential(*layers), 128)


def record(label: str, seed: int) -> dict[str, Any]:
    """What one method keeps."""
    name, rules.MEASURED_OF_PLACES = METHODS[label]
    torch.manual_seed(seed)
    method = build(name, network(), torch.zeros(1, 1, 32, 32), {})
    return {"method": label, "seed": seed, **learned_and_kept(method, views(seed), PLAN)}


def main() -> None:
    """Measure what is missing, keep the numbers beside this file, write the page."""
    torch.set_num_threads(1)
    runs = itertools.product(METHODS, SEEDS)
    records = completed(RECORDS, ("method", "seed"), runs, record)
    PAGE.write_text(filled(PAGE.read_text(), {"letters": table(records)}))


def table(records: Records) -> str:
    """In Markdown."""
    lines = ["| method | after three views | right after each |", "|---|---|---|"]
    for label in METHODS:
        found = [one for one in records if one["method"] == label]
        if found:
            kept, learned = (mean(one[key] for one in found) for key in ("kept", "learned"))
            lines.append(f"| {label} | {100 * kept:.1f} | {100 * learned:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
