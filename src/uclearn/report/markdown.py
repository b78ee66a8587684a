"""The same runs as tables in Markdown, for a README, a pull request or RESULTS.md.

Each folder makes a section. A file `about.md` in it stands at the section's beginning, with a
heading of its own if it has one: what was asked and how it was run, in words; all numbers come from
the runs. A folder that is called like a stage of the reproduction begins with what that says.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from uclearn.measures.accuracy import known
from uclearn.measures.statistics import estimate
from uclearn.paper.numbers import Published
from uclearn.paper.studies import RL_STUDIES, STUDIES
from uclearn.report.claims import Claim, claims, spreads
from uclearn.report.groups import (
    Collection,
    Comparison,
    Group,
    check_labels,
    collect,
    comparisons,
    relabelled,
)
from uclearn.report.html import filled_columns
from uclearn.report.labels import departures
from uclearn.report.overview import epochs_words, overview, paragraphs, table
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
from uclearn.report.sections.tables import commands, comparable
from uclearn.report.words import (
    UNKNOWN,
    count,
    difference,
    duration,
    listing,
    percent,
    reward_spread,
    spread,
)

ABOUT_NAME = "about.md"
_PREFACE = (
    "Written by `uclearn report` from the records of the runs; no number is typed by hand. "
    "Average accuracy after the last task: the mean over seeds, ± half the width of its 95 % "
    "interval (Student’s t); one seed gives none. *Learned* is the accuracy on each task right "
    "after it was learned, *forgot* how much of that is lost at the end, both on average. "
    "*Points* are percentage points against the reference (marked), paired by seed, with their "
    "95 % interval. The paper: “Uncertainty-based Continual Learning with Adaptive "
    "Regularization”, NeurIPS 2019."
)


def markdown(folders: Sequence[Path], labels: Mapping[str, str] | None = None) -> str:
    """The whole document on all runs below `folders`; `labels` are other names for groups."""
    every = comparisons(collect(folders).complete) if labels else []
    check_labels(every, labels or ())
    sections = [_section(folder, labels or {}) for folder in folders]
    compared = {title: own for title, own, _ in sections} if len(sections) > 1 else {}
    texts = [overview(compared), *(text for *_, text in sections)]
    return paragraphs("# Results", _PREFACE, *texts) + "\n"


def _section(folder: Path, labels: Mapping[str, str]) -> tuple[str, list[Comparison], str]:
    """Of a folder: its title, what is compared there, and the whole text."""
    found = collect([folder])
    compared = relabelled(comparisons(found.complete), labels)
    name, file = folder.resolve().name, folder / ABOUT_NAME
    words = name.replace("-", " ").replace("_", " ")
    title, about = words[:1].upper() + words[1:], ""
    known = {**STUDIES, **RL_STUDIES}.get(name)
    if known is not None:
        title, about = known.title, known.note
    if file.exists():
        about = file.read_text(encoding="utf-8")
    if about.startswith("# "):
        title, _, about = about.removeprefix("# ").partition("\n")
    parts = [f"## {title}", about.strip(), *map(_comparison, compared), *_left_out(found)]
    return title, compared, paragraphs(*parts)


def _left_out(found: Collection) -> Iterator[str]:
    if found.incomplete:
        yield f"Not complete and left out: {count(len(found.incomplete), 'run')}."
    if found.unreadable:
        told = [f"- `{place}`: {why}" for place, why in found.unreadable]
        yield "\n".join([f"Damaged and left out: {count(len(told), 'run')}.", "", *told])


def _comparison(comparison: Comparison) -> str:
    heading = f"### {comparison.name}" + (f" ({comparison.mark})" if comparison.mark else "")
    held = _claims(claims(comparison))
    if not comparison.classifies:
        parts = [_rewards(comparison), held]
    elif comparison.is_whole:
        ablations = [_ablations(comparison, family) for family in ablation_families(comparison)]
        parts = [_numbers(comparison), held, *ablations, _nodes(comparison)]
    else:
        parts = [_numbers(comparison)]
    return paragraphs(heading, *parts, _commands(comparison))


def _numbers(comparison: Comparison) -> str:
    """A row for each group; what is the same in all of them stands above, once."""
    header = ["Method", "Epochs", "Seeds", "Accuracy", "Points", "Learned", "Forgot", "Paper"]
    header += ["Not as in the paper", "Time per run"]
    apart = [_departures(comparison, group) for group in comparison.groups]
    told = [found for found in apart if found is not None]
    shared = [note for note in (told or [[]])[0] if all(note in found for found in told)]
    rows = []
    for group, found in zip(comparison.groups, apart, strict=True):
        own = [note for note in found or [] if note not in shared]
        rows.append(_row(comparison, group, "; ".join(own) or UNKNOWN))
    same = {
        k: rows[0][k] for k in (1, 2, 8) if len(rows) > 1 and len({row[k] for row in rows}) == 1
    }
    things = ((1, "epochs"), (2, "seed" if same.get(2) == "1" else "seeds"))
    said = [f"{same[k]} {word}" for k, word in things if k in same]
    above = [
        f"All with {listing(said)}." if said else "",
        f"Not as in the paper: {'; '.join(shared)}." if shared else "",
    ]
    kept = [k for k in filled_columns(rows) if k not in same]
    body = table([header[k] for k in kept], [[row[k] for k in kept] for row in rows])
    return paragraphs(" ".join(words for words in above if words), body)


def _departures(comparison: Comparison, group: Group) -> list[str] | None:
    """In what a group is not the paper's experiment; None where the paper has no number."""
    number = _number(comparison, group)
    return departures(group.runs[0].config, comparison.tasks, number) if number else None


def _number(comparison: Comparison, group: Group) -> Published | None:
    return comparable(comparison, group) if comparison.is_whole else None


def _row(comparison: Comparison, group: Group, apart: str) -> list[str]:
    number = _number(comparison, group)
    seconds = [summary.seconds for summary in group.summaries]
    return [
        group.label,
        epochs_words(group),
        str(len(group.runs)),
        f"**{spread(group.accuracy)}**",
        "reference"
        if group is comparison.reference
        else difference(group.against(comparison.reference)),
        spread(estimate(list(group.learning_accuracies.values())), width=False),
        spread(estimate(list(group.forgettings.values())), width=False),
        percent(number.accuracy) if number else UNKNOWN,
        apart,
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
    rows = [[one.text, one.verdict, one.difference, one.evidence] for one in found]
    return table(["The paper says", "Here", "Difference", "Of what"], rows) if rows else ""


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
    return paragraphs(words, table(header, rows))


def _commands(comparison: Comparison) -> str:
    made = dict.fromkeys(command for group in comparison.groups for command in commands(group))
    inner = "\n".join(f"    {command}" for command in made)
    return f"<details><summary>Commands</summary>\n\n{inner}\n\n</details>"
