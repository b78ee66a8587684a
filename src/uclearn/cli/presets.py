"""`uclearn benchmarks` and `presets`: what there is to learn; every setting, its value and where it
comes from."""

from __future__ import annotations

from json import dumps
from typing import Any

from uclearn.cli import options
from uclearn.cli.own import Own
from uclearn.cli.printing import print_json, print_table

_NO_DATA = "comes with the package"


def presets(
    benchmark: options.Benchmark = options.DEFAULT_BENCHMARK,
    method: options.Method = None,
    preset: options.Preset = None,
    json: options.Json = False,
    *,
    own: Own,
) -> None:
    """Show all settings of a method on a benchmark, and where each value comes from.

    Any of them can be changed by --set KEY=VALUE in the other commands.
    """
    from uclearn.runs.resolve import resolve, settable
    from uclearn.runs.supervised import preset as sourced

    name, which = method or "ucl", preset or "default"
    changed: dict[str, Any] = {}
    subject = own.subject(benchmark, changed)
    document = resolve(subject, name, preset=which, overrides=changed).model_dump(mode="json")
    values = {**document, **document["settings"]}
    sources = {key: source for key, (_, source) in sourced(subject, name, which).items()}
    rows = []
    for key in settable(name):
        group, _, setting = key.partition(".")
        value = values[group][setting] if setting else values[group]
        rows.append({"key": key, "value": value, "source": sources.get(key, "default")})
    if json:
        print_json(rows)
        return
    print_table(
        ("setting", "value", "source"),
        (
            (row["key"], "none" if row["value"] is None else dumps(row["value"]), row["source"])
            for row in rows
        ),
        title=f"{name} on {benchmark}, preset {which}",
    )


def benchmarks() -> None:
    """List the benchmarks: their tasks, and the data they need."""
    from rich.console import Console

    from uclearn.tasks.benchmarks import BENCHMARKS

    entries, problems = BENCHMARKS.sound()
    rows = (
        (each.name, str(each.tasks), each.description, ", ".join(each.data) or _NO_DATA)
        for each in entries.values()
    )
    print_table(("benchmark", "tasks", "what", "data"), rows, right=("tasks",))
    for problem in problems:
        Console(stderr=True, soft_wrap=True).print(problem)
