"""The sections of a document in one table: UCL beside what it is compared with most."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from uclearn.measures.statistics import Estimate
from uclearn.paper.numbers import published
from uclearn.report.groups import Group, Study
from uclearn.report.labels import benchmark_name, method_name
from uclearn.report.tables import spread, table
from uclearn.report.words import UNKNOWN, percent

_METHODS = ("ucl", "ewc", "si", "finetuning", "joint")


def glance(sections: Mapping[str, Sequence[Study]]) -> str:
    """By section title its studies, a row for each length of training; empty if there is none."""
    shown = [
        (title, study)
        for title, studies in sections.items()
        for study in studies
        if study.is_whole and study.classifies and study.compared == list(study.groups)
    ]
    if not shown:
        return ""
    rows = [row for title, study in shown for row in _rows(title, study)]
    header = ["Benchmark", "Epochs", *map(method_name, _METHODS), "UCL in the paper", "Section"]
    note = (
        "Mean accuracy over seeds ± half the 95 % interval. Of several settings of a method, the "
        "one with most seeds, then the best; all are in the sections."
    )
    parts = ["## At a glance", note, table(header, sorted(rows, key=_order))]
    return "\n\n".join([*parts, *_remarks(study for _, study in shown)])


def _remarks(studies: Iterable[Study]) -> Iterator[str]:
    """What belongs to the paper's numbers."""
    numbers = {study.benchmark: published(study.benchmark, "ucl") for study in studies}
    words = [f"{benchmark_name(k)}: {v.words}" for k, v in sorted(numbers.items()) if v and v.words]
    if words:
        yield f"The paper’s numbers. {'. '.join(words)}."


def _rows(title: str, study: Study) -> Iterator[list[str]]:
    number = published(study.benchmark, "ucl")
    name = ", ".join([benchmark_name(study.benchmark), *study.marks])
    for epochs in dict.fromkeys(map(_epochs, study.groups)):
        yield [
            name,
            epochs,
            *(spread(_chosen(study, method, epochs)) for method in _METHODS),
            percent(number.accuracy) if number else UNKNOWN,
            title,
        ]


def _chosen(study: Study, method: str, epochs: str) -> Estimate | None:
    found = [g for g in study.groups if g.method == method and _epochs(g) == epochs]
    return max(found, key=lambda group: len(group.runs)).accuracy if found else None


def _epochs(group: Group) -> str:
    return str((group.config.get("plan") or {}).get("epochs", UNKNOWN))


def _order(row: Sequence[str]) -> tuple[str, int]:
    name, epochs, *_ = row
    return name, int(epochs) if epochs.isdigit() else 0
