"""A model in use, taught from files: a month of data each."""

from __future__ import annotations

import csv
from pathlib import Path

import torch

from tests.cli.terminal import Said, Uclearn
from tests.live.months import month

FAST = ("--hidden", "12", "--lr", "0.02", "--epochs", "12", "--batch-size", "16")


def write(path: Path, number: int, labels: tuple[str, str] = ("ok", "worn")) -> None:
    """A month with features of very different scales, the label in the middle."""
    x, y = month(number)
    x = x * torch.tensor([1.0, 1000.0, 0.001, 1.0]) + torch.tensor([0.0, 500.0, 0.0, -3.0])
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["force", "speed", "fault", "sway", "heat"])
        for row, label in zip(x.tolist(), y.tolist(), strict=True):
            writer.writerow([*row[:2], labels[label], *row[2:]])


def teach(uclearn: Uclearn, name: str, *words: str) -> Said:
    """Learn a month, by its name."""
    return uclearn(
        "learn", "m", "--data", f"{name}.csv", "--name", name, "--label", "fault", *words
    )
