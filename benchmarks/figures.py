"""The paper's figures from the records in results/, with the paper's numbers where it prints them.

Of several stages that ran a benchmark the one with most methods is drawn, and beside it UCL with
nothing tuned, wherever that was run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean

from benchmarks.drawing import Line, Panel, drawn
from uclearn.measures.accuracy import Number, Table, average_course, course, known, mean_course
from uclearn.paper.numbers import published
from uclearn.report.claims import spreads
from uclearn.report.groups import Comparison, Group
from uclearn.report.labels import benchmark_name, method_name
from uclearn.report.rewards import (
    Rewards,
    alone_of,
    cumulative_by_seed,
    papers_of,
    rewards_by_group,
    task_names,
)
from uclearn.report.sections.accuracy import ablation_families
from uclearn.report.settings import epochs_of

Stages = Mapping[str, Sequence[Comparison]]
"""By title of the section in RESULTS.md, what is compared there."""

_DRAWN = ("ucl", "ewc", "si", "vcl", "vcl+coreset", "hat", "finetuning", "joint")
_STYLES = (0, 1, 2, 3, 5, 4, 7, 6)
"""The colours that the report gives them, too."""
_UNTUNED = 10
"""UCL's colour, dashed."""
_SMALL_COLUMNS = 3


def figures(stages: Stages) -> dict[str, str]:
    """By file name the text of each figure."""
    made = {
        "figure-3": (_averages(stages, "permuted-mnist", "row-permuted-mnist"), 2),
        "figure-4": (_uncertainties(stages, "permuted-mnist"), 3),
        "figure-5": (_ablations(stages), _SMALL_COLUMNS),
        "figure-6": (
            [*_by_task(stages, "split-mnist"), *_by_task(stages, "split-notmnist")],
            _SMALL_COLUMNS,
        ),
        "figure-7": (_averages(stages, "split-cifar100", "split-cifar10-100", "omniglot"), 3),
        "figure-8": (_sums(stages, "paper", "paper-4"), 2),
        "figure-9": (_returns(stages, "paper", "paper-4"), _SMALL_COLUMNS),
    }
    return {
        f"{name}.svg": drawn(CAPTIONS[name], panels, columns)
        for name, (panels, columns) in made.items()
    }


CAPTIONS = {
    "figure-3": "Figure 3: average accuracy over the tasks learned so far, in percent",
    "figure-4": "Figure 4: σ / initial σ of UCL’s nodes, median and from 1 % to 99 %",
    "figure-5": "Figure 5: UCL without one of its terms on Permuted MNIST, task by task",
    "figure-6": "Figure 6: Split MNIST and Split notMNIST, task by task",
    "figure-7": "Figure 7: average accuracy over the tasks learned so far, in percent",
    "figure-8": "Figure 8: reinforcement learning, sum of rewards over the tasks met so far",
    "figure-9": "Figure 9: reinforcement learning, return of each task",
}


def _whole(stages: Stages, benchmark: str) -> list[Comparison]:
    """All that is the full experiment on a benchmark, the one with most methods first."""
    number = published(benchmark, "ucl")
    found = [
        one
        for own in stages.values()
        for one in own
        if one.benchmark == benchmark and one.is_whole and one.classifies
        if number is None or one.tasks == number.tasks
    ]
    return sorted(found, key=lambda one: -len({group.method for group in one.compared}))


def _chosen(stages: Stages, benchmark: str) -> list[tuple[str, int, Group]]:
    """What is drawn: label, style and group."""
    found = _whole(stages, benchmark)
    if not found:
        return []
    drawn_groups = []
    for method in _DRAWN:
        own = [group for group in found[0].compared if group.method == method]
        if own:
            group = max(own, key=lambda group: len(group.runs))
            style = _STYLES[_DRAWN.index(method)]
            drawn_groups.append((method_name(method), style, group))
    untuned = [
        group
        for one in found
        for group in one.compared
        if group.method == "ucl" and _is_untuned(group)
    ]
    if untuned and all(group not in untuned for *_, group in drawn_groups):
        best = max(untuned, key=lambda group: (epochs_of(group.config) or 0, len(group.runs)))
        drawn_groups.append(("UCL, nothing tuned", _UNTUNED, best))
    return drawn_groups


def _is_untuned(group: Group) -> bool:
    return group.config.get("preset") == "default"


def _titled(benchmark: str, found: Sequence[tuple[str, int, Group]]) -> str:
    """What is drawn, and whether nothing of it is tuned."""
    untuned = all(_is_untuned(group) for *_, group in found)
    return benchmark_name(benchmark) + ", nothing tuned" * untuned


def _told(benchmark: str, label: str, style: int, group: Group) -> str:
    """Ours, how it was made, and what the paper prints, which of one method is said once."""
    found = group.accuracy
    ours = "–" if found is None else f"{100 * found.mean:.1f}"
    number = published(benchmark, group.method)
    printed = number.accuracy if number and style != _UNTUNED else None
    paper = "" if printed is None else f"; paper {100 * printed:.1f}"
    epochs = epochs_of(group.config)
    seeds = f"{len(group.runs)} seed" + ("s" if len(group.runs) > 1 else "")
    return f"{label}: {ours} ({epochs} epochs, {seeds}){paper}"


def _line(group: Group, style: int, read: Callable[[Table], list[Number]], said: str = "") -> Line:
    seeds = [read(matrix) for matrix in group.matrices]
    columns = [known(values) for values in zip(*seeds, strict=True)]
    several = len(seeds) > 1
    return Line(
        style,
        range(1, len(columns) + 1),
        mean_course(seeds),
        [min(column, default=None) for column in columns] if several else (),
        [max(column, default=None) for column in columns] if several else (),
        said,
    )


def _missing(title: str, command: str) -> Panel:
    return Panel(title, missing=f"Not run yet: uclearn {command}")


_COMMANDS = {
    "split-cifar100": "reproduce cifar100",
    "split-cifar10-100": "reproduce cifar10-100",
    "paper": "rl reproduce rl-eight",
    "paper-4": "rl reproduce rl-four",
}


def _averages(stages: Stages, *benchmarks: str) -> list[Panel]:
    panels = []
    for benchmark in benchmarks:
        found = _chosen(stages, benchmark)
        if not found:
            command = _COMMANDS.get(benchmark, f"compare {benchmark}")
            panels.append(_missing(benchmark_name(benchmark), command))
            continue
        lines = [
            _line(group, style, average_course, _told(benchmark, label, style, group))
            for label, style, group in found
        ]
        title, mark = _titled(benchmark, found), _whole(stages, benchmark)[0].mark
        named = f"{title}, {mark}" if mark else title
        panels.append(Panel(named, lines, x_title="tasks learned"))
    return panels


def _by_task(stages: Stages, benchmark: str) -> list[Panel]:
    found = _chosen(stages, benchmark)
    if not found:
        return [_missing(benchmark_name(benchmark), f"compare {benchmark}")]
    title = _titled(benchmark, found)
    tasks = len(found[0][2].matrices[0])
    panels = []
    for task in range(tasks):
        lines = [_line(g, style, partial(course, task=task)) for _, style, g in found]
        panels.append(Panel(f"{title}, task {task + 1}", lines, x_title="tasks learned"))
    lines = [
        _line(group, style, average_course, _told(benchmark, label, style, group))
        for label, style, group in found
    ]
    return [*panels, Panel(f"{title}, average", lines, x_title="tasks learned")]


def _ablations(stages: Stages) -> list[Panel]:
    benchmark = "permuted-mnist"
    families = [
        family
        for own in stages.values()
        for one in own
        if one.benchmark == benchmark and one.is_whole
        for family in ablation_families(one)
    ]
    if not families:
        return [_missing("Permuted MNIST", "reproduce ablations")]
    family = max(families, key=lambda groups: sum(len(group.runs) for group in groups))
    panels = []
    for task in range(len(family[0].matrices[0])):
        lines = [_line(g, k, partial(course, task=task)) for k, g in enumerate(family)]
        panels.append(Panel(f"Task {task + 1}", lines, x_title="tasks learned"))
    lines = [
        _line(group, k, average_course, _told("", group.label, k, group))
        for k, group in enumerate(family)
    ]
    said = ["The paper prints no numbers here."]
    return [*panels, Panel("Average", lines, x_title="tasks learned", said=said)]


def _uncertainties(stages: Stages, benchmark: str) -> list[Panel]:
    kept = [(one.reference, spreads(one.reference)) for one in _whole(stages, benchmark)]
    found = [(group, layers) for group, layers in kept if layers]
    if not found:
        return [_missing(benchmark_name(benchmark), f"compare {benchmark} --methods ucl")]
    group, layers = max(found, key=lambda pair: len(pair[0].runs))
    panels = []
    for number, (name, after) in enumerate(layers.items()):
        low, middle, high = zip(*after, strict=True)
        tasks = range(1, len(after) + 1)
        line = Line(0, tasks, middle, low, high)
        said = [f"{epochs_of(group.config)} epochs, {len(group.runs)} seeds"] if not number else []
        title = f"Layer {number + 1} ({name})"
        panels.append(Panel(title, [line], percent=False, x_title="tasks learned", said=said))
    return panels


# -- reinforcement learning ----------------------------------------------------------------


def _acting(stages: Stages, sequence: str) -> Comparison | None:
    found = [one for own in stages.values() for one in own if one.benchmark == f"rl {sequence}"]
    return max(found, key=lambda one: len(one.groups), default=None)


def _mean_line(
    style: int, steps: Sequence[int], seeds: Sequence[Sequence[float]], said: str = ""
) -> Line:
    columns = list(zip(*seeds, strict=True))
    low, high = [min(c) for c in columns], [max(c) for c in columns]
    several = len(seeds) > 1
    return Line(
        style,
        steps,
        [fmean(c) for c in columns],
        low if several else (),
        high if several else (),
        said,
    )


def _earners(comparison: Comparison) -> Iterable[tuple[int, Group, Sequence[Rewards]]]:
    return ((g.style, g, runs) for g, runs in rewards_by_group(comparison) if runs)


def _sums(stages: Stages, *sequences: str) -> list[Panel]:
    panels = []
    for sequence in sequences:
        title = f"The paper’s {'eight' if sequence == 'paper' else 'robots, four of eight'} tasks"
        comparison = _acting(stages, sequence)
        if comparison is None:
            panels.append(_missing(title, _COMMANDS[sequence]))
            continue
        alone = alone_of(comparison)
        scale = alone or papers_of(comparison)
        lines, borders = [], []
        for style, group, runs in _earners(comparison):
            courses = list(cumulative_by_seed(runs, scale.ranges).values())
            end = fmean(course[-1] for course in courses)
            said = f"{group.label}: {end:.2f} ({len(runs)} seed{'s' * (len(runs) > 1)})"
            lines.append(_mean_line(style, runs[0].steps, courses, said))
            borders = runs[0].boundaries()[:-1]
        said = "0: a random policy; 1: a fresh network alone" if alone else f"By {scale.name}"
        panels.append(
            Panel(title, lines, percent=False, borders=borders, x_title="steps", said=[said])
        )
    return panels


def _returns(stages: Stages, *sequences: str) -> list[Panel]:
    found = [(name, comparison) for name in sequences if (comparison := _acting(stages, name))]
    missing = _missing("The paper’s eight tasks", _COMMANDS[sequences[0]])
    if not found:
        return [missing]
    panels = []
    name, comparison = found[0]
    groups = rewards_by_group(comparison)
    alone, tasks = alone_of(comparison), task_names(groups)
    for task, title in enumerate(tasks):
        lines, borders = [], []
        for style, group, runs in _earners(comparison):
            seen = [k for k, returns in enumerate(runs[0].returns) if len(returns) > task]
            courses = [[run.returns[k][task] for k in seen] for run in runs]
            said = group.label if task == len(tasks) - 1 else ""
            lines.append(_mean_line(style, [runs[0].steps[k] for k in seen], courses, said))
            borders = [b for b in runs[0].boundaries()[:-1] if b >= runs[0].steps[seen[0]]]
        levels = list(alone.ranges[task]) if alone else []
        panels.append(
            Panel(
                f"Task {task + 1}: {title}",
                lines,
                percent=False,
                borders=borders,
                levels=levels,
                x_title="steps",
            )
        )
    if name != sequences[0]:
        panels.append(missing)
    return panels
