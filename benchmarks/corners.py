"""Where methods cost most: UCL in a narrow network, LwF with many heads."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.growth import MOST_TASKS, Size, one_step, prepared
from benchmarks.timing import Bar, best_times
from uclearn.training import Plan

CORNERS = (
    ("ucl", Size((100, 100)), "at width 100", 1.35),
    ("lwf", Size(tasks=MOST_TASKS, heads=True), f"with {MOST_TASKS + 1} heads", 1.3),
)


def measure() -> Iterator[Bar]:
    """A step of the trainer, one thread, against fine-tuning's."""
    torch.set_num_threads(1)
    for name, size, where, limit in CORNERS:
        cases = {each: one_step(*prepared(each, size), Plan()) for each in ("finetuning", name)}
        times = best_times(cases, rounds=15, repeats=3)
        detail = f"{times[name] * 1e3:.2f} ms against {times['finetuning'] * 1e3:.2f} ms"
        ratio = times[name] / times["finetuning"]
        yield Bar(f"a step of {name} {where} / of fine-tuning", ratio, limit, detail)
