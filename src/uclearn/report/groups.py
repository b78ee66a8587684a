"""From folders to what may be compared: runs are found, repetitions of one experiment make a group,
comparable groups make a comparison.

Two runs are repetitions only if their whole resolved configuration is the same but for the seed;
a name alone never joins them. Groups stand beside each other only if they learned the same
benchmark, as many tasks of it, at the same scale, measured on the same data.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from uclearn.choices import no_such
from uclearn.errors import DataError, SettingError
from uclearn.measures.accuracy import Number, Table, known, mean_when_learned
from uclearn.measures.statistics import Estimate, estimate, paired_difference
from uclearn.report.labels import benchmark_name, is_papers, labels, marks, shared_words
from uclearn.report.settings import (
    Config,
    ablated,
    benchmark_of,
    data_of,
    fingerprint,
    method_of,
    scale_of,
    seed_of,
    without_seed,
)
from uclearn.report.words import count
from uclearn.storage.records import Run, Summary, read_runs

_log = logging.getLogger("uclearn")

_OWN_STYLES = {
    "ucl": 0,
    "ewc": 1,
    "si": 2,
    "vcl": 3,
    "hat": 4,
    "vcl+coreset": 5,
    "lwf": 5,
    "joint": 6,
    "finetuning": 7,
    "mas": 8,
    "rwalk": 9,
}
COLORS = 10
"""That the page has for methods; settings of one method share one."""
MOST_AT_FIRST = 12
"""Series that are shown before anybody asks for more."""
ALONE = "finetuning"
"""What a fresh network learns one task with, where returns are measured by that: nothing is kept,
since nothing was learned before."""


@dataclass(frozen=True)
class Group:
    """The runs of one experiment, one per seed, in the order of their seeds."""

    runs: Sequence[Run]
    label: str
    style: int
    """Which colour (`style % COLORS`), and which shape and dashes of that colour."""

    @cached_property
    def config(self) -> Config:
        """What all its runs share."""
        return without_seed(self.runs[0].config)

    @property
    def method(self) -> str:
        """The name of the method."""
        return method_of(self.config)

    @property
    def seeds(self) -> list[int]:
        """The seed of each run, in ascending order."""
        return [seed_of(run.config) for run in self.runs]

    @property
    def is_ablation(self) -> bool:
        """UCL without one of its terms."""
        return bool(ablated(self.config))

    @property
    def is_papers(self) -> bool:
        """It has the settings that the paper gives for its method."""
        return is_papers(self.runs[0].config)

    @cached_property
    def summaries(self) -> list[Summary]:
        """One per run: only complete ones are in a group."""
        return [run.summary for run in self.runs if run.summary is not None]

    @cached_property
    def matrices(self) -> list[Table]:
        """The accuracy matrix of each seed, of the tasks that were learned."""
        whole = [summary.accuracy_matrix for summary in self.summaries]
        return [[row[: len(matrix)] for row in matrix] for matrix in whole]

    @cached_property
    def accuracies(self) -> dict[int, float]:
        """By seed the average accuracy after the last task."""
        return _known(self.seeds, [summary.average_accuracy for summary in self.summaries])

    @property
    def forgettings(self) -> dict[int, float]:
        """By seed how far earlier tasks fell from their best."""
        return _known(self.seeds, [summary.forgetting for summary in self.summaries])

    @property
    def learning_accuracies(self) -> dict[int, float]:
        """By seed the mean accuracy on each task right after it was learned."""
        return _known(self.seeds, [mean_when_learned(matrix) for matrix in self.matrices])

    @cached_property
    def accuracy(self) -> Estimate | None:
        """The average accuracy over the seeds; None for runs that do not classify."""
        return estimate(list(self.accuracies.values()))

    def against(self, reference: "Group") -> Estimate | None:
        """How much more accurate than `reference`, paired by seed."""
        return paired_difference(self.accuracies, reference.accuracies)


@dataclass(frozen=True)
class Comparison:
    """Groups that may be compared: same benchmark, number of tasks, scale and data; the best
    first."""

    benchmark: str
    tasks: int
    marks: Sequence[str]
    """What sets its runs apart from the full experiment."""
    groups: Sequence[Group]
    references: Sequence[Run] = ()
    """Of reinforcement learning: the runs in which a fresh network learned one of the tasks alone,
    with the same plan and policy."""

    @property
    def name(self) -> str:
        """Its heading."""
        return f"{benchmark_name(self.benchmark)}, {count(self.tasks, 'task')}"

    @property
    def is_whole(self) -> bool:
        """Neither scaled nor a search for settings: what the paper's claims may be held against."""
        config = self.reference.config
        return scale_of(config) is None and data_of(config).get("judge") != "validation"

    @property
    def mark(self) -> str:
        """What has to stand wherever its numbers do; empty for full runs."""
        return ", ".join(self.marks)

    @cached_property
    def reference(self) -> Group:
        """UCL itself where it was run (of several the one with most seeds, then the best), else
        the best."""
        whole = [group for group in self.groups if group.method == "ucl" and not group.is_ablation]
        return max(whole, key=lambda group: len(group.runs)) if whole else self.groups[0]

    @property
    def classifies(self) -> bool:
        """There are accuracies to show."""
        return self.tasks > 0 and any(group.accuracy is not None for group in self.groups)

    @property
    def has_bands(self) -> bool:
        """Some group has several seeds, so that its charts show how far they lie apart."""
        return any(len(group.runs) > 1 for group in self.groups)

    @cached_property
    def compared(self) -> list[Group]:
        """The groups without ablations, which have a place of their own."""
        return [group for group in self.groups if not group.is_ablation] or list(self.groups)

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {id(group): number for number, group in enumerate(self.groups)}

    def number(self, group: Group) -> int:
        """By which the page shows and hides a group."""
        return self._numbers[id(group)]

    @cached_property
    def by_method(self) -> dict[str, list[Group]]:
        """The compared groups of each method, both in the order of accuracy."""
        found: dict[str, list[Group]] = {}
        for group in self.compared:
            found.setdefault(group.method, []).append(group)
        return found

    @cached_property
    def at_first(self) -> list[Group]:
        """What is shown before anybody chooses: all if they are a dozen; otherwise the reference,
        the best of each method, the paper's settings, and then the best."""
        if len(self.compared) <= MOST_AT_FIRST:
            return self.compared
        best = [own[0] for own in self.by_method.values()]
        papers = [group for group in self.compared if group.is_papers]
        wanted = {self.number(g): g for g in (self.reference, *best, *papers, *self.compared)}
        chosen = set(list(wanted)[:MOST_AT_FIRST])
        return [group for group in self.compared if self.number(group) in chosen]

    @cached_property
    def first_numbers(self) -> set[int]:
        """The numbers of those that are shown at first."""
        return {self.number(group) for group in self.at_first}

    @property
    def shared(self) -> str:
        """What all its groups have in common, in a sentence."""
        configs = [group.runs[0].config for group in self.groups]
        return shared_words(configs, [len(group.runs) for group in self.groups])


def comparisons(runs: Sequence[Run]) -> list[Comparison]:
    """All complete `runs`, sorted; by benchmark, full before scaled."""
    comparable: dict[tuple[str, int, tuple[str, ...]], list[Run]] = {}
    for run in runs:
        if run.summary is not None:
            names = run.summary.extra.get("task_names") or ()
            tasks = len(run.summary.accuracy_matrix) or len(names)
            key = (benchmark_of(run.config), tasks, tuple(marks(run.config)))
            comparable.setdefault(key, []).append(run)
    order = sorted(comparable, key=lambda key: (key[0], len(key[2]), -key[1], key[2]))
    made = [Comparison(*key, _groups(comparable[key])) for key in order]
    return _with_references(made)


def check_labels(made: Sequence[Comparison], given: Iterable[str]) -> None:
    """Refuse labels that no group has."""
    known = list(dict.fromkeys(group.label for one in made for group in one.groups))
    for old in given:
        if old not in known:
            raise SettingError(no_such("label", old, known))


def relabelled(made: Sequence[Comparison], given: Mapping[str, str]) -> list[Comparison]:
    """Comparisons whose groups are called as `given` says, by the labels that they had."""
    found = []
    for one in made:
        groups = [replace(g, label=given.get(g.label, g.label)) for g in one.groups]
        names = Counter(group.label for group in groups)
        if twice := [name for name, times in names.items() if times > 1 and given]:
            raise SettingError(
                f"`label` must tell apart what is compared, got {twice[0]!r} twice in {one.name}. "
                "Choose another name for one of them."
            )
        found.append(replace(one, groups=groups))
    return found


def _with_references(made: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons with what their returns are measured by; what only serves for that is no
    comparison of its own."""
    alone = [
        run
        for one in made
        if one.benchmark.startswith("rl ") and {group.method for group in one.groups} == {ALONE}
        for group in one.groups
        for run in group.runs
        if _names(run) == [one.benchmark.removeprefix("rl ")]
    ]
    found = []
    for one in made:
        names = _names(one.reference.runs[0])
        like = _circumstances(one.reference.config)
        fitting = [run for run in alone if _names(run)[0] in names and len(names) > 1]
        own = [run for run in fitting if _circumstances(without_seed(run.config)) == like]
        found.append(replace(one, references=own))
    used = {id(run) for one in found for run in one.references}
    return [
        one
        for one in found
        if not all(id(run) in used for group in one.groups for run in group.runs)
    ]


def _names(run: Run) -> list[str]:
    return [] if run.summary is None else list(run.summary.extra.get("task_names") or ())


def _circumstances(config: Config) -> list[Any]:
    return [config.get(key) for key in ("kind", "plan", "policy", "scale")]


def _groups(runs: Sequence[Run]) -> list[Group]:
    alike: dict[str, list[Run]] = {}
    for run in runs:
        alike.setdefault(fingerprint(run.config), []).append(run)
    repeated = [sorted(group, key=lambda run: seed_of(run.config)) for group in alike.values()]
    repeated.sort(key=_goodness, reverse=True)
    names = labels([without_seed(group[0].config) for group in repeated])
    return [Group(*entry) for entry in zip(repeated, names, _styles(repeated), strict=True)]


def _goodness(runs: Sequence[Run]) -> tuple[float, str]:
    found = known(run.summary.average_accuracy for run in runs if run.summary is not None)
    mean = sum(found) / len(found) if found else -1.0
    return mean, fingerprint(runs[0].config)  # the second makes ties come out the same each time


def _styles(groups: Sequence[Sequence[Run]]) -> list[int]:
    """A style for each, all different: a colour for each method, in all comparisons the same where
    it is known, and a shape for each of its settings; those with most seeds choose first, ablations
    last."""
    methods = [method_of(runs[0].config) for runs in groups]
    colors = {m: _OWN_STYLES[m] for m in dict.fromkeys(methods) if m in _OWN_STYLES}
    for method in dict.fromkeys(methods):
        if method not in colors:
            used = Counter(colors.values())
            colors[method] = min(range(COLORS), key=lambda color: used[color])
    order = sorted(
        range(len(groups)), key=lambda k: (bool(ablated(groups[k][0].config)), -len(groups[k]))
    )
    taken: Counter[int] = Counter()
    chosen: dict[int, int] = {}
    for k in order:
        color = colors[methods[k]]
        chosen[k] = color + COLORS * taken[color]
        taken[color] += 1
    return [chosen[k] for k in range(len(groups))]


def _known(seeds: Sequence[int], values: Sequence[Number]) -> dict[int, float]:
    pairs: Mapping[int, Number] = dict(zip(seeds, values, strict=True))
    return {seed: value for seed, value in pairs.items() if value is not None}


@dataclass(frozen=True)
class Collection:
    """All runs that were found."""

    complete: Sequence[Run]
    incomplete: Sequence[Run]
    repeated: Sequence[Run]
    """Complete, but another has the same configuration and seed: not counted a second time."""
    unreadable: Sequence[tuple[Path, str]]
    """Folders of damaged runs, and what is wrong."""

    def __len__(self) -> int:
        return sum(map(len, (self.complete, self.incomplete, self.repeated, self.unreadable)))


def collect(folders: Sequence[Path]) -> Collection:
    """All runs at or below `folders`."""
    runs: dict[Path, Run] = {}  # a folder may be reached by several of `folders`
    damaged: dict[Path, tuple[Path, str]] = {}
    for folder in folders:
        sound, unsound = read_runs(folder)
        runs |= {run.folder.resolve(): run for run in sound}
        damaged |= {place.resolve(): (place, why) for place, why in unsound}
    if not runs and not damaged:
        raise DataError(
            f"`folders` must hold at least one run, got {', '.join(map(str, folders)) or 'none'}. "
            "A run is a folder with config.json or summary.json, as `uclearn run` makes them."
        )
    for place, why in damaged.values():
        _log.warning("Left out, since it is damaged: %s: %s", place, why)
    complete, repeated = _once([run for run in runs.values() if run.summary is not None])
    incomplete = [run for run in runs.values() if run.summary is None]
    return Collection(complete, incomplete, repeated, list(damaged.values()))


def tasks_done(run: Run) -> int:
    """How many tasks a run has finished."""
    return sum(event.get("event") == "evaluation" for event in run.events)


def _once(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    first: dict[tuple[str, int], Run] = {}
    for run in runs:
        first.setdefault((fingerprint(run.config), seed_of(run.config)), run)
    kept = {id(run) for run in first.values()}
    return list(first.values()), [run for run in runs if id(run) not in kept]
