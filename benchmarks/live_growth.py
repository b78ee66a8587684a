"""What a model in use takes on disk and in memory over many updates.

    python -m benchmarks.live_growth            # 100 updates of one network

Three lives are measured: every update goes on with one task, or begins a task with a head and a
canary of its own, or is rejected. It writes the table of docs/live.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.pages import filled
from uclearn.live.gate import Gate
from uclearn.live.journal import JOURNAL_NAME
from uclearn.live.learner import Learner
from uclearn.networks import mlp
from uclearn.training.plan import Plan

LOOKS = (1, 10, 50, 100)
"""After so many updates."""
RECORDS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "live.md"
KINDS = ("one task", "new tasks", "rejected")
_EXAMPLES, _CANARY = 120, 20


def measure(kind: str, updates: int, width: int = 400) -> list[dict[str, Any]]:
    """Sizes in bytes after some of the updates; `kind` is one of `KINDS`."""
    folder = Path(tempfile.mkdtemp(prefix="uclearn-growth-"))
    found = []
    try:
        plan = Plan(epochs=1, batch_size=40)
        gate = Gate(max_drop=0.5, canary=_CANARY, max_total=1)
        strict = Gate(max_drop=0.0, canary=_CANARY, rule="possible")
        for number in range(1, updates + 1):
            draw = torch.Generator().manual_seed(number)
            x = torch.randn(_EXAMPLES, 20, generator=draw)
            data = (x, (x[:, 0] > 0).long())
            going_on = "first" if kind == "one task" and number > 1 else None
            name = "first" if number == 1 else f"update {number}"
            new = partial(Learner, mlp(20, (width,), None), plan=plan)
            with Learner.open(folder, new=new) as one:
                used = gate if kind != "rejected" or number == 1 else strict
                one.learn(data, name, task=going_on, gate=used)
                if number in LOOKS:
                    found.append({"updates": number, **_held(one)})
            if number in LOOKS:
                found[-1] |= _sizes(folder)
    finally:
        shutil.rmtree(folder)
    return found


def _held(learner: Learner) -> dict[str, int]:
    """What an open learner holds: tensors of its method, and all of this process."""
    state = learner.method.state_dict().values()
    weights = sum(tensor.numel() * tensor.element_size() for tensor in state)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"state": weights, "process": pages * resource.getpagesize()}


def _sizes(folder: Path) -> dict[str, int]:
    every = {path.name: path.stat().st_size for path in folder.iterdir()}
    return {
        "folder": sum(every.values()),
        "checkpoint": every["checkpoint.safetensors"],
        "journal": every[JOURNAL_NAME],
        "files": len(every),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=100)
    given = parser.parse_args(arguments)
    found = {kind: measure(kind, given.updates) for kind in KINDS}
    RECORDS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), {"growth": table(found)}))


def table(found: Mapping[str, Sequence[Mapping[str, int]]]) -> str:
    """As it stands in the documentation."""
    lines = ["| | updates | folder | state | journal | weights and memory | process |"]
    lines.append("|---|---|---|---|---|---|---|")
    for kind, rows in found.items():
        for row in rows:
            sizes = [row[key] for key in ("folder", "checkpoint", "journal", "state", "process")]
            numbers = " | ".join(f"{size / 1000:,.0f}" for size in sizes)
            lines.append(f"| {kind} | {row['updates']} | {numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
