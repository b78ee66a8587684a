"""The same runs as tables in Markdown, for a README, a pull request or RESULTS.md.

Each folder makes a section. A file `about.md` in it stands at the section's beginning, with a
heading of its own if it has one: what was asked and how it was run, in words; all numbers come from
the runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from uclearn.measures.accuracy import known
from uclearn.measures.statistics import Estimate, estimate
from uclearn.paper.numbers import published
from uclearn.report.claims import Claim, claims, reward_claims, spreads
from uclearn.report.groups import Comparison, Group, collect, comparisons
from uclearn.report.labels import benchmark_name, departures, method_name
from uclearn.report.rewards import (
    alone_of,
    at_the_end,
    final_rewards,
    papers_of,
    reference_rows,
    rewards_by_group,
    task_names,
    when_learned,
)
from uclearn.report.sections.accuracy import ablation_families
from uclearn.report.sections.tables import commands
from uclearn.report.settings import epochs_of
from uclearn.report.words import (
    UNKNOWN,
    count,
    difference,
    duration,
    percent,
    reward_spread,
    spread,
)

ABOUT_NAME = "about.md"
_AT_A_GLANCE = ("ucl", "ewc", "si", "finetuning", "joint")
"""The methods in the table of all sections: UCL and what it is compared with most."""

_PREFACE = (
    "Written by `uclearn report` from the records of the runs; no number is typed by hand. "
    "Average accuracy after the last task: the mean over seeds, ± half the width of its 95 % "
    "interval (Student’s t); one seed gives none. *Learned* is the accuracy on each task right "
    "after it was learned, *forgot* how much of that is lost at the end, both on average. "
    "*Points* are percentage points against the reference (marked), paired by seed, with their "
    "95 % interval. The paper: “Uncertainty-based Continual Learning with Adaptive "
    "Regularization”, NeurIPS 2019."
)


def markdown(folders: Sequence[Path]) -> str:
    """The whole document on all runs below `folders`."""
    sections = [_section(folder) for folder in folders]
    overview = _glance({title: own for title, own, _ in sections}) if len(sections) > 1 else ""
    return _paragraphs("# Results", _PREFACE, overview, *(text for *_, text in sections)) + "\n"


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _section(folder: Path) -> tuple[str, list[Comparison], str]:
    """Of a folder: its title, what is compared there, and the whole text."""
    found = collect([folder])
    compared = comparisons(found.complete)
    words = folder.resolve().name.replace("-", " ").replace("_", " ")
    title, about, file = words[:1].upper() + words[1:], "", folder / ABOUT_NAME
    if file.exists():
        about = file.read_text(encoding="utf-8")
    if about.startswith("# "):
        title, _, about = about.removeprefix("# ").partition("\n")
    left_out = f"Not complete and left out: {count(len(found.incomplete), 'run')}."
    parts = [f"## {title}", about.strip(), *map(_comparison, compared)]
    return title, compared, _paragraphs(*parts, left_out if found.incomplete else "")


def _comparison(comparison: Comparison) -> str:
    heading = f"### {comparison.name}" + (f" ({comparison.mark})" if comparison.mark else "")
    if not comparison.classifies:
        parts = [_rewards(comparison), _claims(reward_claims(comparison))]
    elif comparison.is_whole:
        ablations = [_ablations(comparison, family) for family in ablation_families(comparison)]
        held = _claims(claims(comparison))
        parts = [_numbers(comparison), held, *ablations, _nodes(comparison)]
    else:
        parts = [_numbers(comparison)]
    return _paragraphs(heading, *parts, _commands(comparison))


def _numbers(comparison: Comparison) -> str:
    header = ["Method", "Epochs", "Seeds", "Accuracy", "Points", "Learned", "Forgot", "Paper"]
    rows = [_row(comparison, group) for group in comparison.groups]
    return table([*header, "Not as in the paper", "Time per run"], rows)


def _row(comparison: Comparison, group: Group) -> list[str]:
    has_number = comparison.is_whole and not group.is_ablation
    number = published(comparison.benchmark, group.method) if has_number else None
    apart = departures(group.runs[0].config, comparison.tasks, number) if number else []
    seconds = [summary.seconds for summary in group.summaries]
    return [
        group.label,
        _epochs(group),
        str(len(group.runs)),
        f"**{spread(group.accuracy)}**",
        "reference"
        if group is comparison.reference
        else difference(group.against(comparison.reference)),
        spread(estimate(list(group.learning_accuracies.values())), width=False),
        spread(estimate(list(group.forgettings.values())), width=False),
        percent(number.accuracy) if number else UNKNOWN,
        "; ".join(apart) or UNKNOWN,
        duration(sum(seconds) / len(seconds)),
    ]


def _rewards(comparison: Comparison) -> str:
    """What runs of reinforcement learning earned."""
    groups = rewards_by_group(comparison)
    if not any(runs for _, runs in groups):
        return "These runs hold no accuracies."
    names, alone, papers = task_names(groups), alone_of(comparison), papers_of(comparison)
    scales = {"Sum": alone, "Sum, the paper’s way": papers} if len(names) > 1 else {}
    known = {title: scale for title, scale in scales.items() if scale is not None}
    sums = [
        {id(group): reward_spread(total) for group, total in final_rewards(comparison, scale)}
        for scale in known.values()
    ]
    rows = []
    for group, runs in groups:
        pairs = [
            f"{fmean(when_learned(r, k) for r in runs):.0f} → "
            f"{fmean(at_the_end(r, k) for r in runs):.0f}"
            for k in range(len(names))
        ]
        totals = [found[id(group)] for found in sums]
        time = duration(fmean(summary.seconds for summary in group.summaries))
        rows.append([group.label, str(len(runs)), *pairs, *totals, time])
    empty = [""] * (len(known) + 1)
    rows += [[name, "", *levels, *empty] for name, *levels in reference_rows(alone)]
    note = "Mean return of each task right after it was learned → after the last task."
    if alone:
        note += f" Sum: over tasks, after the last one; on each, {alone.words}"
    if known:
        note += (
            f" The paper’s way: {papers.words} A task with a narrow range outweighs all others in "
            "that sum."
        )
    return f"{table(['Method', 'Seeds', *names, *known, 'Time per run'], rows)}\n\n{note}"


def _claims(found: Sequence[Claim]) -> str:
    return "\n".join(f"- {claim.verdict}: {claim.text} {claim.evidence}" for claim in found)


def _ablations(comparison: Comparison, family: Sequence[Group]) -> str:
    """Accuracy on each task after the last one was learned: where an ablation loses it."""
    tasks = [str(k + 1) for k in range(comparison.tasks)]
    rows = []
    for group in family:
        columns = zip(*(matrix[-1] for matrix in group.matrices), strict=True)
        means = [*(estimate(known(column)) for column in columns), group.accuracy]
        rows.append([group.label, *(spread(mean, width=False) for mean in means)])
    return table(["After the last task, on task", *tasks, "Mean"], rows)


def _nodes(comparison: Comparison) -> str:
    """How the uncertainties of the reference moved."""
    found = spreads(comparison.reference)
    if not found:
        return ""
    tasks = len(next(iter(found.values())))
    shown = sorted({0, min(1, tasks - 1), tasks // 2, tasks - 1})
    header = ["σ / initial σ: 1 %, median, 99 %", *(f"after task {k + 1}" for k in shown)]
    rows = [
        [f"layer {name}", *(" · ".join(f"{v:.2f}" for v in course[k]) for k in shown)]
        for name, course in found.items()
    ]
    words = f"Uncertainties of {comparison.reference.label}, over the nodes of all seeds."
    return _paragraphs(words, table(header, rows))


def _commands(comparison: Comparison) -> str:
    made = dict.fromkeys(command for group in comparison.groups for command in commands(group))
    inner = "\n".join(f"    {command}" for command in made)
    return f"<details><summary>Commands</summary>\n\n{inner}\n\n</details>"


def _glance(sections: Mapping[str, Sequence[Comparison]]) -> str:
    """All sections in one table (by title what they compare), a row for each length of training;
    empty if there is none."""
    shown = [
        (title, comparison)
        for title, own in sections.items()
        for comparison in own
        if comparison.is_whole
        and comparison.classifies
        and comparison.compared == list(comparison.groups)
    ]
    if not shown:
        return ""
    rows = [row for title, comparison in shown for row in _rows(title, comparison)]
    header = ["Benchmark", "Epochs", *map(method_name, _AT_A_GLANCE), "UCL in the paper", "Section"]
    note = (
        "Mean accuracy over seeds ± half the 95 % interval. Of several settings of a method, the "
        "one with most seeds, then the best; all are in the sections."
    )
    numbers = {name: published(name, "ucl") for name in sorted({c.benchmark for _, c in shown})}
    words = [f"{benchmark_name(k)}: {v.words}" for k, v in numbers.items() if v and v.words]
    remark = f"The paper’s numbers. {'. '.join(words)}." if words else ""
    return _paragraphs("## At a glance", note, table(header, sorted(rows, key=_order)), remark)


def _rows(title: str, comparison: Comparison) -> Iterator[list[str]]:
    number = published(comparison.benchmark, "ucl")
    name = ", ".join([benchmark_name(comparison.benchmark), *comparison.marks])
    for epochs in dict.fromkeys(map(_epochs, comparison.groups)):
        yield [
            name,
            epochs,
            *(spread(_chosen(comparison, method, epochs)) for method in _AT_A_GLANCE),
            percent(number.accuracy) if number else UNKNOWN,
            title,
        ]


def _chosen(comparison: Comparison, method: str, epochs: str) -> Estimate | None:
    found = [g for g in comparison.groups if g.method == method and _epochs(g) == epochs]
    return max(found, key=lambda group: len(group.runs)).accuracy if found else None


def _epochs(group: Group) -> str:
    epochs = epochs_of(group.config)
    return UNKNOWN if epochs is None else str(epochs)


def _order(row: Sequence[str]) -> tuple[str, int]:
    name, epochs, *_ = row
    return name, int(epochs) if epochs.isdigit() else 0


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
