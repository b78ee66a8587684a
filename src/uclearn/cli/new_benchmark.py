"""`uclearn new-benchmark`: a package of one's own with a benchmark that every command knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from uclearn.errors import SettingError

_PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
dependencies = ["uclearn"]

# This line is what makes the name known to every command of uclearn.
[project.entry-points."uclearn.benchmarks"]
{name} = "{module}:BENCHMARK"

[tool.hatch.build.targets.wheel]
only-include = ["{module}.py"]
"""

_MODULE = '''"""The benchmark {name}: what it is, and how its tasks are made.

    pip install -e .            once, here
    uclearn run {name}          and whatever else takes a benchmark
"""

import torch

from uclearn.tasks import Data, TaskSequence, permuted
from uclearn.tasks.benchmarks import Benchmark

FEATURES, CLASSES, TASKS = 16, 4, 5


def examples(count, seed):
    """Stands for your own data: (inputs, labels). Labels count from 0."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    inputs = torch.randn(count, FEATURES, generator=draw)
    inputs[torch.arange(count), labels] += 3
    return inputs, labels


def build(seed, folder, tasks) -> TaskSequence:
    """The first `tasks` tasks. The same seed must give the same tasks.

    `folder` is where data sets lie (the option --data, else UCLEARN_DATA; None: neither).
    `uclearn.tasks` also has `split` (some classes in each task), and `Task` and `TaskSequence`
    for tasks of any other kind.
    """
    train, test = (Data(*examples(count, k)) for k, count in enumerate((400, 100)))
    return permuted(train, test, tasks, seed, name="{name}")


BENCHMARK = Benchmark(
    name="{name}",
    description="one line for `uclearn benchmarks`",
    # All of this has to be known without making the tasks:
    tasks=TASKS,
    classes=(CLASSES,) * TASKS,  # of each task
    heads=False,  # True: an output layer for each task
    input_shape=(FEATURES,),  # of one example as the network sees it
    build=build,
    # What suits it; every setting that `uclearn presets {name}` lists can stand here.
    settings={{"plan.epochs": 10, "plan.batch_size": 64, "network.hidden": (64, 64)}},
)
'''


def new_benchmark(
    name: Annotated[str, typer.Argument(help="Of the benchmark, as my-tasks.")],
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where. Default: a folder of that name.")
    ] = None,
) -> None:
    """Write a small package with a benchmark of your own, for you to change."""
    from uclearn.storage.files import write_text
    from uclearn.tasks.benchmarks import BENCHMARKS

    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise SettingError(
            f"`name` must be small letters, digits and single dashes, as my-tasks, got {name!r}."
        )
    if name in BENCHMARKS:
        raise SettingError(f"`name` must be a new one: there is a benchmark {name!r} already.")
    place = Path(name) if folder is None else folder
    module = name.replace("-", "_")
    texts = {"pyproject.toml": _PROJECT, f"{module}.py": _MODULE}
    for file in texts:
        if (place / file).exists():
            raise SettingError(f"{place / file} is there already. Choose another --folder.")
    place.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        write_text(place / file, text.format(name=name, module=module))
    typer.echo(f"Written to {place}. Next: pip install -e {place}; uclearn run {name}")
