"""The ordeals, each tried so many times."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from tests.soak.damage import damage
from tests.soak.disturbances import full_disk, jumping_clock, network_folder, nothing
from tests.soak.trials import COMMANDS, Disturb, LostError, Trial, attempt
from uclearn.storage import index

DAMAGES = 50
"""Files damaged for each time of the others: they cost a blink."""


@dataclass
class Row:
    """What became of one ordeal."""

    name: str
    tried: int = 0
    lost: list[str] = field(default_factory=list)
    note: str = ""


def soak(folder: Path, chance: random.Random, times: int) -> Iterator[Row]:
    """All of them; `times` each, for each command where there are several."""
    torch.set_num_threads(1)
    calm = {kind: Calm(kind, folder) for kind in COMMANDS}
    for kind in COMMANDS:
        yield repeated(f"killed: {kind}", calm[kind], folder, chance, times, nothing, kills=True)
    for name, disturb in (
        ("full disk", full_disk),
        ("jumping clock", jumping_clock),
        ("slow, failing network", network_folder),
    ):
        for kind in ("run", "learn"):
            yield repeated(f"{name}: {kind}", calm[kind], folder, chance, times, disturb)
    for kind in ("run", "learn"):
        yield two_writers(calm[kind], folder, times)
    yield _damaged(folder / "damage", chance, times)


class Calm:
    """What a command ends with that nobody disturbs, and how long it takes."""

    def __init__(self, kind: str, folder: Path) -> None:
        trial, began = Trial(kind, folder / f"calm-{kind}"), time.monotonic()
        trial.disturbed(random.Random(0), nothing, None)
        self.kind, self.seconds = kind, time.monotonic() - began
        self.seconds /= len(COMMANDS[kind])
        self.ended = trial.ended()


def repeated(
    name: str,
    calm: Calm,
    folder: Path,
    chance: random.Random,
    times: int,
    disturb: Disturb,
    *,
    kills: bool = False,
) -> Row:
    """A command tried so many times, disturbed each time."""
    row, interrupted = Row(name), 0
    for number in range(times):
        row.tried += 1
        try:
            trial = Trial(calm.kind, folder / f"{name}-{number}".replace(" ", "-"))
            interrupted += trial.disturbed(chance, disturb, calm.seconds if kills else None)
            _compare(trial.ended(), calm.ended)
        except (LostError, Exception) as error:
            row.lost.append(f"{number}: {error!r}")
    row.note = f"{interrupted} interruptions"
    return row


def _compare(ended: Any, calm: Any) -> None:
    if ended != calm:
        raise LostError("it ended otherwise than one never disturbed")


def two_writers(calm: Calm, folder: Path, times: int) -> Row:
    """Two of the same at once: one works, the other waits, is refused, or finds it done."""
    row, refused = Row(f"two writers: {calm.kind}"), 0
    for number in range(times):
        row.tried += 1
        try:
            trial = Trial(calm.kind, folder / f"two-{calm.kind}-{number}")
            for words in COMMANDS[calm.kind]:
                second = os.fork()
                if second == 0:
                    os._exit(attempt(words, trial.folder, None, nothing, 0.0) % 256)
                attempt(words, trial.folder, None, nothing, 0.0)
                code = os.waitstatus_to_exitcode(os.waitpid(second, 0)[1])
                refused += code != 0
            trial.disturbed(random.Random(0), nothing, None)
            _compare(trial.ended(), calm.ended)
        except (LostError, Exception) as error:
            row.lost.append(f"{number}: {error!r}")
    row.note = f"{refused} refused"
    return row


def _damaged(folder: Path, chance: random.Random, times: int) -> Row:
    with mock.patch.object(index, "WORTH_IT", 2):  # so that there is one to be damaged
        found, lost = damage(folder, chance, DAMAGES * times)
    told = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
    return Row("damage, by reader", sum(found.values()) + len(lost), lost, told)
