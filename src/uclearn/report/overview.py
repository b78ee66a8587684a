"""What stands above all sections in Markdown: the paper's claims, and benchmarks at a glance."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from uclearn.paper.numbers import published
from uclearn.report.claims import Claim, claims
from uclearn.report.groups import Comparison, Group
from uclearn.report.labels import benchmark_name, method_name
from uclearn.report.rewards import alone_of, final_rewards, papers_of, rewards_by_group
from uclearn.report.settings import epochs_of
from uclearn.report.words import UNKNOWN, percent, reward_spread, spread

Sections = Mapping[str, Sequence[Comparison]]
"""By title, what is compared there."""

AT_A_GLANCE = ("ucl", "ewc", "si", "finetuning", "joint")
"""The methods in the table of all sections: UCL and what it is compared with most."""
GLANCE_HEADER = ("Benchmark", "Epochs", *map(method_name, AT_A_GLANCE), "UCL in the paper")


class Line(NamedTuple):
    """A benchmark in a section, with one length of training."""

    comparison: Comparison
    epochs: str
    name: str
    found: Sequence[str]
    """What each of `AT_A_GLANCE` reached."""
    printed: str
    """The paper's number for UCL."""
    section: str


def overview(sections: Sections) -> str:
    """Both."""
    return paragraphs(_all_claims(sections), _glance(sections))


def paragraphs(*parts: str) -> str:
    """Those that say something, with empty lines between them."""
    return "\n\n".join(part for part in parts if part)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; what stands in a cell stays in it.

    >>> print(table(["a", "b"], [["1|2", "3"]]))
    | a | b |
    |---|---|
    | 1\\|2 | 3 |
    """
    head, *body = ["| " + " | ".join(map(_in_cell, line)) + " |" for line in (header, *rows)]
    return "\n".join([head, "|" + "---|" * len(header), *body])


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _all_claims(sections: Sections) -> str:
    """A row for each claim on each benchmark: by the first section that decides it."""
    found: dict[tuple[str, str], tuple[Claim, str]] = {}
    for title, own in sections.items():
        for comparison in own:
            name = ", ".join([benchmark_name(comparison.benchmark), *comparison.marks])
            for claim in claims(comparison):
                known_by = found.get((name, claim.text))
                if known_by is None or (claim.is_decided and not known_by[0].is_decided):
                    found[name, claim.text] = (claim, title)
    if not found:
        return ""
    rows = [
        [one.text, name, one.verdict, one.difference, f"{one.evidence} ({title})"]
        for (name, _), (one, title) in sorted(found.items(), key=lambda entry: entry[0][0])
    ]
    verdicts = Counter(row[2].strip("*") for row in rows)
    note = (
        f"{verdicts['Holds']} hold, {verdicts['Does not hold']} do not, {verdicts['Not decided']} "
        "are not decided. Differences in percentage points with their 95 % interval where several "
        "seeds give one: an order is decided where it excludes 0, a number of the paper is reached "
        "where the mean is no less. Of several sections the first that decides a claim."
    )
    header = ["The paper says", "On", "Here", "Difference", "Of what (section)"]
    return paragraphs("## Claims", note, table(header, rows))


def _glance(sections: Sections) -> str:
    """All sections in one table; empty if there is none."""
    lines = glance(sections)
    if not lines:
        return ""
    rows = [[one.name, one.epochs, *one.found, one.printed, one.section] for one in lines]
    header = [*GLANCE_HEADER, "Section"]
    note = (
        "Mean accuracy over seeds ± half the 95 % interval, in reinforcement learning the sum of "
        "rewards. Of several settings of a method, the one with most seeds, then the best; all are "
        "in the sections."
    )
    classified = {one.comparison.benchmark for one in lines if one.comparison.classifies}
    numbers = {name: published(name, "ucl") for name in sorted(classified)}
    words = [f"{benchmark_name(k)}: {v.words}" for k, v in numbers.items() if v and v.words]
    remark = f"The paper’s numbers. {'. '.join(words)}." if words else ""
    return paragraphs("## At a glance", note, table(header, rows), remark)


def glance(sections: Sections) -> list[Line]:
    """A line for each length of training on each benchmark of each section, sorted by name."""
    found: list[Line] = []
    for title, own in sections.items():
        for one in own:
            if one.is_whole and one.classifies and one.compared == list(one.groups):
                found += _accuracies(title, one)
            elif one.is_whole and not one.classifies and one.tasks > 1:
                found += _rewards(title, one)
    return sorted(found, key=lambda line: (line.name, _as_number(line.epochs)))


def _accuracies(title: str, comparison: Comparison) -> Iterator[Line]:
    number = published(comparison.benchmark, "ucl")
    name = ", ".join([benchmark_name(comparison.benchmark), *comparison.marks])
    printed = percent(number.accuracy) if number else UNKNOWN
    for epochs in dict.fromkeys(map(epochs_words, comparison.groups)):
        as_long = [g for g in comparison.groups if epochs_words(g) == epochs]
        cells = [spread_of(g for g in as_long if g.method == method) for method in AT_A_GLANCE]
        yield Line(comparison, epochs, name, cells, printed, title)


def _rewards(title: str, comparison: Comparison) -> Iterator[Line]:
    """The sum of rewards of each method, by the fresh networks' scale if there is one."""
    if not any(runs for _, runs in rewards_by_group(comparison)):
        return
    alone, papers = alone_of(comparison), papers_of(comparison)
    sums = final_rewards(comparison, alone or papers)
    scale = f"fresh networks alone: {comparison.tasks}" if alone else papers.name
    cells = []
    for method in AT_A_GLANCE:
        own = [found for group, found in sums if group.method == method and found is not None]
        cells.append(reward_spread(max(own, key=lambda found: found.count, default=None)))
    name = f"{benchmark_name(comparison.benchmark)}: sum of rewards ({scale})"
    yield Line(comparison, UNKNOWN, name, cells, "figure only", title)


def spread_of(groups: Iterable[Group]) -> str:
    """What a method reached: of several settings, best first, the one with most seeds."""
    chosen = max(groups, key=lambda group: len(group.runs), default=None)
    return spread(chosen.accuracy if chosen else None)


def epochs_words(group: Group) -> str:
    """How many epochs a group had."""
    epochs = epochs_of(group.config)
    return UNKNOWN if epochs is None else str(epochs)


def _as_number(epochs: str) -> int:
    return int(epochs) if epochs.isdigit() else 0
