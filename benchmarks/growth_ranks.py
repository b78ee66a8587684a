"""One step by one process and by two, of the same batch: run by `benchmarks.growth` with torchrun.

The processes take turns: the first learns alone while the other waits, then both together. Each has
one thread, so that two have twice the cores of one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import torch

from benchmarks.growth import PLANS, Size, prepared
from uclearn.methods.contract import Step
from uclearn.methods.losses import cross_entropy
from uclearn.ranks import ALONE, Ranks, together
from uclearn.tasks import Batch
from uclearn.training import Plan
from uclearn.training.loop import train_step

WIDTHS = (400, 1600)
METHODS = ("finetuning", "ucl", "ewc", "vcl")
ROUNDS = 12
REPEATS = 3


class Counting(Ranks):
    """Ranks that know how many bytes they gave away, and how long that took."""

    bytes = 0
    seconds = 0.0

    def sum_(self, tensors: object) -> None:
        """As ever, with a watch."""
        given = list(tensors)  # type: ignore[call-overload]
        begin = time.perf_counter()
        super().sum_(given)
        Counting.seconds += time.perf_counter() - begin
        Counting.bytes += sum(t.numel() * t.element_size() for t in given)


def timed(case: Callable[[], object]) -> float:
    """Seconds of a call, mean of a few."""
    begin = time.perf_counter()
    for _ in range(REPEATS):
        case()
    return (time.perf_counter() - begin) / REPEATS


def compare(name: str, width: int, ranks: Ranks) -> dict[str, object]:
    """The best of several rounds each."""
    counting = Counting(ranks.rank, ranks.size)
    method, batch = prepared(name, Size((width, width)))
    plan = PLANS.get(name, Plan())
    optimizer = plan.make_optimizer(method.parameter_groups(plan.lr))
    rows = ranks.share(256)
    mine = Batch(batch.inputs[rows], batch.targets[rows], batch.task)

    def step(share: Batch, company: Ranks) -> None:
        where = Step(int(batch.task), share.inputs, 256, progress=0.5, examples=60_000)
        train_step(method, share, where, cross_entropy, optimizer, ranks=company)

    best = {"alone": float("inf"), "together": float("inf"), "exchange": float("inf")}
    for _ in range(ROUNDS):
        if ranks.is_first:
            best["alone"] = min(best["alone"], timed(lambda: step(batch, ALONE)))
        ranks.wait()
        Counting.seconds, Counting.bytes = 0.0, 0
        seconds = timed(lambda: step(mine, counting))
        if seconds < best["together"]:
            best.update(together=seconds, exchange=Counting.seconds / REPEATS)
        ranks.wait()
    return {"width": width, "method": name, "bytes": Counting.bytes // REPEATS, **best}


def main() -> None:
    """Every width and method; the first process prints, a line each."""
    torch.set_num_threads(1)
    with together() as ranks:
        for width in WIDTHS:
            for name in METHODS:
                found = compare(name, width, ranks)
                if ranks.is_first:
                    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
