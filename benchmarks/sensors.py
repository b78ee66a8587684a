"""Tasks that no network is ever sure of: classes, labels and numbers from noisy sensors.

`python -m benchmarks.sensors`: 24 sensors see six hidden causes through noise; in each of five
tasks they are wired in another order. A network with one output layer learns, in a loop of its own
with torch's own losses, which of four classes it is, which of four labels hold, or the value of
four numbers (or of one). With settings by rule. It writes a table of docs/rules.md; what is known
is not run again. A few minutes on one core.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.architectures import Records, completed
from benchmarks.pages import filled
from uclearn.methods.registry import build

TASKS, EPOCHS, BATCH, EXAMPLES = 5, 40, 64, 512
CAUSES, SENSORS = 6, 24
SEEDS = (0, 1, 2)
RECORDS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "rules.md"
METHODS = {"fine-tuning": "finetuning", "EWC": "ewc", "UCL": "ucl"}


class Kind(NamedTuple):
    """What is learned."""

    answers: int
    target: Callable[[Tensor], Tensor]
    """Of what the causes amount to, (batch, 4)."""
    loss: Callable[..., Tensor]
    score: Callable[[Tensor, Tensor], Tensor]


def _right(said: Tensor, wanted: Tensor) -> Tensor:
    return (said.argmax(1) == wanted).float().mean()


def _each_right(said: Tensor, wanted: Tensor) -> Tensor:
    return ((said > 0) == (wanted > 0)).float().mean()


def _explained(said: Tensor, wanted: Tensor) -> Tensor:
    return 1 - (said - wanted).square().mean() / wanted.var()


KINDS = {
    "classes": Kind(4, lambda z: z.argmax(1), F.cross_entropy, _right),
    "labels": Kind(4, lambda z: (z > 0).float(), F.binary_cross_entropy_with_logits, _each_right),
    "four numbers": Kind(4, torch.tanh, F.mse_loss, _explained),
    "one number": Kind(1, lambda z: torch.tanh(z[:, :1]), F.mse_loss, _explained),
}
NETWORKS: dict[str, Callable[[], list[nn.Module]]] = {
    "plain": lambda: [nn.ReLU()],
    "layer norms": lambda: [nn.LayerNorm(64), nn.GELU()],
}

Examples = tuple[Tensor, Tensor]


def tasks(kind: Kind, seed: int) -> list[tuple[Examples, Examples]]:
    """To learn from and to be judged by."""
    chance = torch.Generator().manual_seed(1000 + seed)
    mixing = torch.randn(CAUSES, SENSORS, generator=chance)
    meaning = torch.randn(CAUSES, 4, generator=chance)
    causes = torch.randn(2 * EXAMPLES, CAUSES, generator=chance)
    seen = causes @ mixing + 0.3 * torch.randn(2 * EXAMPLES, SENSORS, generator=chance)
    seen = ((seen - seen.mean(0)) / seen.std(0)).relu()
    wanted = kind.target(causes @ meaning)
    made = []
    for _ in range(TASKS):
        wired = seen[:, torch.randperm(SENSORS, generator=chance)]
        pairs = zip(wired.split(EXAMPLES), wanted.split(EXAMPLES), strict=True)
        train, test = pairs
        made.append((train, test))
    return made


def record(kind_name: str, network: str, label: str, seed: int) -> dict[str, Any]:
    """The mean score right after each task, and after the last."""
    kind = KINDS[kind_name]
    torch.manual_seed(seed)
    between = NETWORKS[network]
    net = nn.Sequential(
        *(nn.Linear(SENSORS, 64), *between()),
        *(nn.Linear(64, 64), *between()),
        nn.Linear(64, kind.answers),
    )
    method = build(METHODS[label], net, torch.zeros(1, SENSORS))
    sequence = tasks(kind, seed)
    steps = EPOCHS * (EXAMPLES // BATCH)
    learned = []
    for train, test in sequence:
        method.task_steps = steps
        optimizer = torch.optim.Adam(method.parameter_groups(lr=1e-3))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        method.model.train()
        for _ in range(EPOCHS):
            for chosen in torch.randperm(EXAMPLES).split(BATCH):
                inputs, targets = (each[chosen] for each in train)
                loss = kind.loss(method.model(inputs), targets)
                optimizer.zero_grad()
                (loss + method.penalty(batch_size=BATCH)).backward()
                optimizer.step()
                schedule.step()
        x, y = train

        def losses(x: Tensor = x, y: Tensor = y) -> Any:
            for inputs, targets in zip(x.split(BATCH), y.split(BATCH), strict=True):
                each = kind.loss(method.model(inputs), targets, reduction="none")
                yield each.flatten(1).mean(1) if each.dim() > 1 else each

        method.end_task(losses=losses, inputs=x.split(BATCH))
        learned.append(_score(kind, method, test))
    kept = mean(_score(kind, method, test) for _, test in sequence)
    own = {"kind": kind_name, "network": network, "method": label, "seed": seed}
    return {**own, "learned": round(mean(learned), 4), "kept": round(kept, 4)}


@torch.no_grad()
def _score(kind: Kind, method: Any, test: Examples) -> float:
    with method.inference() as network:
        return float(kind.score(network(test[0]), test[1]))


def main() -> None:
    """Measure what is missing, keep the numbers beside this file, write the page."""
    torch.set_num_threads(1)
    runs = itertools.product(KINDS, NETWORKS, METHODS, SEEDS)
    records = completed(RECORDS, ("kind", "network", "method", "seed"), runs, record)
    PAGE.write_text(filled(PAGE.read_text(), {"sensors": table(records)}))


def table(records: Records) -> str:
    """In Markdown; scores after five tasks, in brackets right after each."""
    lines = [f"| learned | network | {' | '.join(METHODS)} |", "|---" * (2 + len(METHODS)) + "|"]
    for kind, network in itertools.product(KINDS, NETWORKS):
        cells = []
        for label in METHODS:
            wanted = (kind, network, label)
            found = [r for r in records if (r["kind"], r["network"], r["method"]) == wanted]
            kept, learned = (100 * mean(one[key] for one in found) for key in ("kept", "learned"))
            cells.append(f"{kept:.1f} ({learned:.1f})")
        lines.append(f"| {kind} | {network} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
