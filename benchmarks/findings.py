"""The tables of docs/findings.md: methods side by side, from the records in results/."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figures import Stages
from uclearn.paper.numbers import published
from uclearn.report.groups import Comparison, Group
from uclearn.report.labels import benchmark_name, method_name
from uclearn.report.overview import epochs_words, spread_of, table
from uclearn.report.settings import changed_in, epochs_of
from uclearn.report.words import UNKNOWN, percent

_METHODS = (
    *("ucl", "ewc", "si", "mas", "rwalk", "lwf", "hat", "vcl", "vcl+coreset"),
    *("finetuning+replay", "finetuning", "joint"),
)
_BROAD = ("permuted-mnist", "row-permuted-mnist", "split-mnist", "split-notmnist")
_OTHER = "plan.precision=float32"
"""Runs that were made to compare with bfloat16 stand in a section of their own."""


def findings(stages: Stages) -> dict[str, str]:
    """By the name of their place in the page."""
    return {"few epochs": few_epochs(stages), "nothing tuned": nothing_tuned(stages)}


def few_epochs(stages: Stages) -> str:
    """All methods with the paper's settings: a row for each, a column for each benchmark."""
    by_name = {one.benchmark: one for one in stages["broad"]}
    compared = [by_name[name] for name in _BROAD]
    rows = []
    for method in _METHODS:
        cells = [spread_of(one.by_method.get(method, ())) for one in compared]
        if set(cells) != {UNKNOWN}:
            rows.append([method_name(method), *cells])
    return table(["", *(_heading(one) for one in compared)], rows)


def nothing_tuned(stages: Stages) -> str:
    """Runs with every setting by rule: a row for each benchmark and length, a column for each
    method that was run so anywhere."""
    found: dict[tuple[str, str, int], dict[str, list[Group]]] = {}
    for one, group in _by_rule(stages):
        name = ", ".join([benchmark_name(one.benchmark), *one.marks])
        row = found.setdefault((name, one.benchmark, epochs_of(group.config) or 0), {})
        row.setdefault(group.method, []).append(group)
    methods = [method for method in _METHODS if any(method in row for row in found.values())]
    rows = []
    for (name, benchmark, epochs), row in sorted(found.items(), key=lambda entry: entry[0]):
        number = published(benchmark, "ucl")
        cells = [spread_of(row.get(method, ())) for method in methods]
        rows.append([name, str(epochs), *cells, percent(number.accuracy) if number else UNKNOWN])
    header = ["", "Epochs", *map(method_name, methods), "UCL in the paper"]
    return table(header, rows)


def _by_rule(stages: Stages) -> Iterator[tuple[Comparison, Group]]:
    for own in stages.values():
        for one in own:
            if one.classifies and one.is_whole:
                for group in one.groups:
                    other_products = _OTHER in changed_in(group.runs[0].config)
                    if group.config.get("preset") == "default" and not other_products:
                        yield one, group


def _heading(comparison: Comparison) -> str:
    (epochs,) = {epochs_words(group) for group in comparison.compared}
    return f"{benchmark_name(comparison.benchmark)}, {epochs} epochs"
