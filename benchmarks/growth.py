"""How the cost of a step grows: with width, depth, tasks, heads, and over several processes.

`python -m benchmarks.growth` measures everything anew, keeps the numbers beside this file and puts
the tables into docs/growth.md. Times are of one thread, as ratios to fine-tuning's step of the same
size (the methods take turns); memory is what a fresh process needs beyond what it had before the
network was made, at its peak.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.pages import filled
from benchmarks.timing import Bar, Case, best_times
from uclearn.methods.contract import Method, Step
from uclearn.methods.losses import cross_entropy
from uclearn.methods.registry import build
from uclearn.networks import mlp, run
from uclearn.runs.params import BYTES, parameter_table
from uclearn.storage.recorder import forget_peak, peak_memory
from uclearn.tasks import Batch, Data, Task, iterate
from uclearn.training import Plan
from uclearn.training.loop import train_step

RECORDS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "growth.md"
Records = list[dict[str, Any]]

QUICK = {"closed_form": True}
MOST_TASKS = 200
SETTINGS: dict[str, dict[str, Any]] = {
    "finetuning": {},
    "ucl": {**QUICK, "hold": "weights", "beta": 0.01, "lr_sigma": None},
    "ewc": QUICK,
    "si": QUICK,
    "mas": QUICK,
    "rwalk": QUICK,
    "lwf": {},
    "vcl": {},
    "hat": {"tasks": MOST_TASKS + 1},
}
PLANS = {"hat": Plan(optimizer="sgd", lr=0.05)}
"""Each method with the optimiser of its paper; Adam, where nothing is said."""


class Size(NamedTuple):
    """What is varied."""

    hidden: tuple[int, ...] = (400, 400)
    tasks: int = 1
    """Ended before the one that is timed."""
    heads: bool = False


AXES: dict[str, dict[int, Size]] = {
    "width": {width: Size((width, width)) for width in (100, 200, 400, 800, 1600)},
    "depth": {depth: Size((256,) * depth) for depth in (2, 4, 8, 16)},
    "tasks": {tasks: Size(tasks=tasks) for tasks in (1, 10, 50, MOST_TASKS)},
    "heads": {tasks + 1: Size(tasks=tasks, heads=True) for tasks in (1, 10, 50, MOST_TASKS)},
}


def some_data(task: int) -> Data:
    """A batch of random pictures; only the cost matters."""
    draw = torch.Generator().manual_seed(task)
    x = torch.rand(256, 784, generator=draw)
    return Data(x, torch.randint(10, (256,), generator=draw), task=task)


def prepared(name: str, size: Size) -> tuple[Method, Batch]:
    """A method that has ended some tasks and begun the next."""
    network = mlp(784, size.hidden, None if size.heads else 10)
    method = build(name, network, torch.zeros(1, 784), {name: SETTINGS[name]})
    for index in range(size.tasks):
        data = some_data(index)
        task = method.begin_task(Task(str(index), index, data, classes=10))
        one_step(method, data.batch(torch.arange(256)), PLANS.get(name, Plan()))()
        method.model.eval()
        method.end_task(task, lambda data=data: _losses(method, data))  # type: ignore[misc]
        method.model.train()
    data = some_data(size.tasks)
    method.begin_task(Task(str(size.tasks), size.tasks, data, classes=10))
    return method, data.batch(torch.arange(256))


def one_step(method: Method, batch: Batch, plan: Plan) -> Case:
    """A step of the batch's task, with the optimiser made once."""
    optimizer = plan.make_optimizer(method.parameter_groups(plan.lr))
    step = Step(int(batch.task), batch.inputs, 256, progress=0.5, examples=60_000)

    def case() -> None:
        train_step(method, batch, step, cross_entropy, optimizer)

    return case


def step_times(size: Size, rounds: int = 12, repeats: int = 3) -> dict[str, float]:
    """Seconds of a step of each method, side by side."""
    cases = {name: one_step(*prepared(name, size), PLANS.get(name, Plan())) for name in SETTINGS}
    return best_times(cases, rounds, repeats)


def memory(name: str, size: Size) -> int:
    """Bytes that a process of its own needs at most, beyond those it began with."""
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        return pool.apply(_own_memory, (name, size))


def _own_memory(name: str, size: Size) -> int:
    one_step(*prepared("finetuning", Size((1,))), Plan())()  # what torch loads at the first step
    forget_peak()
    before = peak_memory()
    case = one_step(*prepared(name, size), PLANS.get(name, Plan()))
    for _ in range(5):
        case()
    after = peak_memory()
    assert before is not None
    assert after is not None
    return after - before


def _losses(method: Method, data: Data) -> Iterator[torch.Tensor]:
    for batch in iterate(data, 256):
        yield cross_entropy(run(method.model, batch.inputs, batch.task), batch.targets)


# -- bars ------------------------------------------------------------------------------------


def measure() -> Iterator[Bar]:
    """A step after 200 tasks costs what it cost after one, and so does the state."""
    torch.set_num_threads(2)
    for name in SETTINGS:
        early, late = (prepared(name, Size(tasks=tasks)) for tasks in (1, MOST_TASKS))
        plan = PLANS.get(name, Plan())
        times = best_times({"early": one_step(*early, plan), "late": one_step(*late, plan)}, 15)
        sizes = [sum(t.numel() for t in m.state_dict().values()) for m, _ in (early, late)]
        yield Bar(
            f"{name}: a step after {MOST_TASKS} tasks / after one",
            times["late"] / times["early"],
            1.05,
        )
        yield Bar(f"{name}: state after {MOST_TASKS} tasks / after one", sizes[1] / sizes[0], 1.0)


# -- records and tables ----------------------------------------------------------------------


def record() -> Records:
    """Everything, one thread each."""
    torch.set_num_threads(1)
    found: Records = []
    for axis, sizes in AXES.items():
        for value, size in sizes.items():
            used = {name: memory(name, size) for name in SETTINGS}  # before threads exist
            found += [
                {"axis": axis, "value": value, "method": name, "memory": used[name]}
                for name in SETTINGS
            ]
    for axis, sizes in AXES.items():
        for value, size in sizes.items():
            times = step_times(size)
            for one in found:
                if (one["axis"], one["value"]) == (axis, value):
                    one["seconds"] = times[one["method"]]
            print(f"{axis} {value}: a plain step takes {1e3 * times['finetuning']:.2f} ms")
    return found


def over_ranks() -> Records:
    """What `benchmarks.growth_ranks` finds with two real processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, "-m", "benchmarks.growth_ranks"],
        cwd=Path(__file__).parents[1],
        check=True,
        capture_output=True,
        text=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def growth_table(records: Records, axis: str, what: str) -> str:
    """A row for each method: how its time (against fine-tuning's) or memory goes along the axis."""
    cells: dict[str, Callable[[dict[str, Any], dict[str, Any]], str]] = {
        "time": lambda one, plain: f"{one['seconds'] / plain['seconds']:.2f}",
        "memory": lambda one, _: f"{one['memory'] / 1e6:.0f}",
    }
    own = [one for one in records if one["axis"] == axis]
    plain = {one["value"]: one for one in own if one["method"] == "finetuning"}
    lines = [f"| {axis} | {' | '.join(str(value) for value in plain)} |"]
    lines.append("|---" * (len(plain) + 1) + "|")
    if what == "time":
        steps = (f"{1e3 * one['seconds']:.2f} ms" for one in plain.values())
        lines.append(f"| a plain step | {' | '.join(steps)} |")
    for name in dict.fromkeys(one["method"] for one in own):
        if what == "time" and name == "finetuning":
            continue
        row = (cells[what](one, plain[one["value"]]) for one in own if one["method"] == name)
        lines.append(f"| {name} | {' | '.join(row)} |")
    return "\n".join(lines)


def ranks_table(records: Records) -> str:
    """Two processes against one."""
    lines = [
        "| width | method | one process | two processes | of that, exchange | message |",
        "|---|---|---|---|---|---|",
    ]
    for one in records:
        cells = (
            str(one["width"]),
            one["method"],
            f"{1e3 * one['alone']:.2f} ms",
            f"{one['together'] / one['alone']:.2f} of it",
            f"{one['exchange'] / one['together']:.0%}",
            f"{one['bytes'] / 1e6:.2f} MB",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def large_table() -> str:
    """On paper: what `uclearn params permuted-mnist --hidden 8192x16 --ranks 8` says."""
    lines = [
        "| method | kept | while learning, each GPU | sent per step by each GPU |",
        "|---|---|---|---|",
    ]
    for row in parameter_table("permuted-mnist", hidden=[8192] * 16):
        held = row.footprint
        cells = (held.kept, held.learning, held.traffic(ranks=8))
        lines.append(
            f"| {row.label} | {' | '.join(f'{BYTES * cell / 1e9:.1f} GB' for cell in cells)} |"
        )
    return "\n".join(lines)


def tables(records: dict[str, Records]) -> dict[str, str]:
    """All of the page, by name."""
    steps = records["steps"]
    return {
        **{f"time against {axis}": growth_table(steps, axis, "time") for axis in AXES},
        **{f"memory against {axis}": growth_table(steps, axis, "memory") for axis in AXES},
        "ranks": ranks_table(records["ranks"]),
        "large": large_table(),
    }


def main() -> None:
    """Measure, keep the numbers, and write the tables of the page."""
    records = {"steps": record(), "ranks": over_ranks()}
    RECORDS.write_text(json.dumps(records, indent=1) + "\n")
    PAGE.write_text(filled(PAGE.read_text(), tables(records)))


if __name__ == "__main__":
    main()
