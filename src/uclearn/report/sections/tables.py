"""What is shown as tables: the paper's numbers beside ours, what each method costs, the settings,
and every run that was found."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

from uclearn.measures.accuracy import known, mean
from uclearn.paper.numbers import PARAMETERS, Published, published
from uclearn.report.chart import in_words, named, section_of
from uclearn.report.groups import Collection, Comparison, Group, tasks_done
from uclearn.report.html import (
    Attributes,
    Html,
    column,
    details,
    filled_columns,
    join,
    mark,
    marked,
    paragraph,
    scrolling,
    section,
    table,
    tag,
)
from uclearn.report.labels import (
    benchmark_name,
    departures,
    differing_keys,
    marks,
    method_name,
    value_words,
)
from uclearn.report.settings import (
    Config,
    benchmark_of,
    changed_in,
    data_of,
    flatten,
    method_of,
    seed_of,
    source_of,
)
from uclearn.report.words import (
    HALF_WIDTH,
    UNKNOWN,
    count,
    difference,
    duration,
    half_width,
    listing,
    memory,
    percent,
)
from uclearn.storage.records import Run


def paper_and_ours(comparison: Comparison) -> Html:
    """Our numbers, and the paper's where they are of the same experiment: for each group a row of
    numbers, and one with its command; commands that made several stand below the table."""
    name = comparison.reference.label
    numbers = [comparable(comparison, group) for group in comparison.groups]
    made_by = [commands(group) for group in comparison.groups]
    below = 2 * len({tuple(own) for own in made_by}) <= len(made_by)
    rows = [
        [_ours(comparison, group, found), *_cells(comparison, group, found)]
        for group, found in zip(comparison.groups, numbers, strict=True)
    ]
    header = ["Average accuracy", HALF_WIDTH, "Points against reference", "Paper", "Seeds"]
    kept = [k - 1 for k in filled_columns([["", *row] for row in rows]) if k]
    title = "The paper’s numbers and ours" if any(numbers) else "Results"
    head = tag("tr", {}, column("Method", "word"), *(column(header[k], "number") for k in kept))
    bodies = [
        _body(comparison, group, [row[k] for k in kept], () if below else own)
        for group, row, own in zip(comparison.groups, rows, made_by, strict=True)
    ]
    caption = f"Average accuracy after {count(comparison.tasks, 'task')}"
    return section_of(
        comparison,
        "numbers",
        title,
        scrolling(
            f"{caption}, {comparison.mark}" if comparison.mark else caption,
            tag("thead", {}, head),
            *bodies,
        ),
        _commands_below(comparison, made_by) if below else Html(),
        paragraph(
            f"The reference is {name}. ±: half the 95 % interval of the mean (Student’s t over "
            "seeds), in points. Points against reference: percentage points more or less than it, "
            "seed by seed, with their own 95 % t interval; if that includes 0, the difference may "
            "be chance. One seed gives no interval."
        ),
        _sources(comparison) if any(numbers) else Html(),
    )


def comparable(comparison: Comparison, group: Group) -> Published | None:
    """The paper's number, where it is of as many tasks, judged by test data and of the same method:
    what lacks a term is not that."""
    found = published(comparison.benchmark, group.method)
    if found is None or group.is_ablation or comparison.tasks != found.tasks:
        return None
    return None if data_of(group.config).get("judge") == "validation" else found


def _cells(comparison: Comparison, group: Group, found: Published | None) -> list[str]:
    is_reference = group is comparison.reference
    return [
        half_width(group.accuracy),
        "reference" if is_reference else difference(group.against(comparison.reference)),
        percent(found.accuracy) if found else UNKNOWN,
        f"{len(group.runs)}",
    ]


def _body(
    comparison: Comparison, group: Group, cells: Sequence[str], made_by: Sequence[str]
) -> Html:
    several = len(comparison.by_method.get(group.method, ())) > 1
    # the command has a row of its own, under the numbers it makes
    span: Attributes = {"rowspan": 2} if made_by else {}
    name = tag("th", {"scope": "rowgroup", **span}, named(group, mark_papers=several))
    numbers = [tag("td", {"class": "number"}, cell) for cell in cells]
    rows = [tag("tr", {}, name, *numbers)]
    if made_by:
        typed = [tag("code", {}, command) for command in made_by]
        rows.append(tag("tr", {}, tag("td", {"class": "command", "colspan": len(cells)}, *typed)))
    return tag("tbody", {"class": "pair", "data-group": comparison.number(group)}, *rows)


def _commands_below(comparison: Comparison, made_by: Sequence[Sequence[str]]) -> Html:
    """Each command once, with what it made."""
    found: dict[str, list[str]] = {}
    for group, own in zip(comparison.groups, made_by, strict=True):
        for command in own:
            found.setdefault(command, []).append(group.label)
    if len(found) == 1:
        return tag("div", {"class": "command"}, "All made by", tag("code", {}, *found))
    entries = [
        tag("li", {}, tag("code", {}, command), in_words(labels))
        for command, labels in found.items()
    ]
    inner = tag("ul", {"class": "command"}, *entries)
    return details(f"The {len(found)} commands that made them", inner)


def _ours(comparison: Comparison, group: Group, found: Published | None) -> Html:
    number = percent(group.accuracy.mean if group.accuracy else None)
    config = group.runs[0].config
    differs = departures(config, comparison.tasks, found) if found else ()
    return join(tag("b", {}, number), *map(mark, differs))


def _sources(comparison: Comparison) -> Html:
    entries = []
    for method in dict.fromkeys(group.method for group in comparison.groups):
        found = published(comparison.benchmark, method)
        if found is not None and found.tasks == comparison.tasks:
            words = f"; {found.words}" if found.words else ""
            text = f"{method_name(method)}, {percent(found.accuracy)}: {found.source}{words}."
            entries.append(tag("li", {}, text))
    return tag(
        "div",
        {"class": "sources"},
        paragraph(
            "The paper: “Uncertainty-based Continual Learning with Adaptive Regularization”, "
            "NeurIPS 2019."
        ),
        tag("ul", {}, *entries),
    )


def cost(comparison: Comparison) -> Html:
    """Two tables: parameters (the paper's Table 1), and time and memory."""
    return section_of(
        comparison,
        "cost",
        "Parameters, time and memory",
        _parameters(comparison),
        _time_and_memory(comparison),
        paragraph(
            " ".join(
                [
                    _machines(comparison),
                    # where a plan left it open
                    *_noted(comparison, "precision", "Computed in"),
                    *_noted(comparison, "weights", "Weights worked on by"),
                ]
            )
        ),
    )


def _parameters(comparison: Comparison) -> Html:
    paper = PARAMETERS.get(comparison.benchmark, {})
    kept = [max(s.parameters_kept for s in group.summaries) for group in comparison.groups]
    pairs = list(zip(comparison.groups, kept, strict=True))
    plain = next((number for group, number in pairs if group.method == "finetuning"), None)
    rows = [
        [
            named(group, mark_papers=False),
            _bar(f"{number:,}", number, kept),
            UNKNOWN if plain is None else f"{number / plain:.2f} ×",
            f"{paper[group.method]}K" if group.method in paper else UNKNOWN,
        ]
        for group, number in pairs
    ]
    header = ["Method", "Kept", "Of the plain network", "Paper, Table 1"]
    caption = "Parameters kept in order to learn the next task"
    return table(caption, header, rows, keys=_keys(comparison))


def _time_and_memory(comparison: Comparison) -> Html:
    seconds = [mean(s.seconds for s in group.summaries) or 0.0 for group in comparison.groups]
    peaks = [
        max(known(summary.peak_memory for summary in group.summaries), default=None)
        for group in comparison.groups
    ]
    rows = [
        [
            named(group, mark_papers=False),
            _bar(duration(time), time, seconds),
            duration(time / max(comparison.tasks, 1)),
            UNKNOWN if peak is None else _bar(memory(peak), peak, known(peaks)),
        ]
        for group, time, peak in zip(comparison.groups, seconds, peaks, strict=True)
    ]
    header = ["Method", "Time per run", "Per task", "Peak memory"]
    caption = "Time (mean over seeds) and memory (largest of the seeds)"
    return table(caption, header, rows, keys=_keys(comparison))


def _keys(comparison: Comparison) -> list[int]:
    return [comparison.number(group) for group in comparison.groups]


def _bar(text: str, value: float, others: Sequence[float]) -> Html:
    share = 100 * value / max(max(others), 1e-9)
    return tag("span", {"class": "cell-bar", "style": f"--share:{share:.1f}%"}, text)


def _machines(comparison: Comparison) -> str:
    machines = {_machine(dict(s.machine)) for group in comparison.groups for s in group.summaries}
    several = "different machines, so that times are not comparable: " if len(machines) > 1 else ""
    return f"Measured on {several}{'; '.join(sorted(machines))}."


def _noted(comparison: Comparison, key: str, words: str) -> list[str]:
    """A sentence for each value of something that runs note beside their results."""
    found: dict[str, list[str]] = {}
    for group in comparison.groups:
        for value in sorted({str(s.extra.get(key) or "") for s in group.summaries} - {""}):
            found.setdefault(value, []).append(group.label)
    said = {"native": "native code"}
    return [f"{words} {said.get(v, v)}: {listing(labels)}." for v, labels in found.items()]


def _machine(machine: dict[str, str | int | None]) -> str:
    total, processors = machine.get("memory"), machine.get("processors")
    words = [
        str(machine.get("processor") or ""),
        f"{processors} processors" if processors else "",
        f"{memory(total)} of memory" if isinstance(total, int) else "",
        str(machine.get("system") or ""),
    ]
    return ", ".join(word for word in words if word) or "an unknown machine"


def settings_used(comparison: Comparison) -> Html:
    """For each method what differs between its groups, and what they all share; closed at first."""
    methods: dict[str, list[Group]] = {}
    for group in comparison.groups:
        methods.setdefault(group.method, []).append(group)
    parts = [_settings_of(comparison, name, own) for name, own in methods.items()]
    whole = section_of(comparison, "settings", "Settings", *parts)
    return tag("div", {"class": "screen-only"}, whole)


def _settings_of(comparison: Comparison, method: str, groups: Sequence[Group]) -> Html:
    flat = [flatten(group.config) for group in groups]
    differing = differing_keys(flat)
    shared = {key: value for key, value in flat[0].items() if key not in differing}
    name = method_name(method)
    both = f"What all {len(groups)} settings of {name} share" if differing else f"All of {name}"
    rows = [[key, value_words(value) or UNKNOWN] for key, value in shared.items()]
    parts = [table(both, ["Setting", "Value"], rows, words=[1])]
    if differing:
        rows = [
            [group.label, *(value_words(one[key]) if key in one else UNKNOWN for key in differing)]
            for group, one in zip(groups, flat, strict=True)
        ]
        keys = [comparison.number(group) for group in groups]
        caption = f"In what the settings of {name} differ"
        parts.insert(0, table(caption, ["Group", *differing], rows, keys=keys))
    return details(f"Settings of {name}", *parts)


def every_run(found: Collection) -> Html:
    """Every run that was found, and what became of it."""
    parts = [
        _table("Complete runs", found.complete, closed=True),
        _table("Runs that are not complete; in no figure", found.incomplete),
        _table("Runs with the configuration and seed of another; counted once", found.repeated),
    ]
    if found.unreadable:
        rows = [[str(folder), reason] for folder, reason in found.unreadable]
        caption = "Runs that cannot be read"
        parts.append(table(caption, ["Folder", "Why"], rows, words=[1]))
    summary = f"{count(len(found), 'run')} found, {len(found.complete)} complete."
    return section("runs", 2, "Runs", paragraph(summary), *parts)


def _table(caption: str, runs: Sequence[Run], closed: bool = False) -> Html:
    if not runs:
        return Html()
    rows = [
        [
            str(run.folder),
            benchmark_name(benchmark_of(run.config)),
            marked(method_name(method_of(run.config)), *marks(run.config)),
            f"{seed_of(run.config)}",
            *_outcome(run),
        ]
        for run in runs
    ]
    header = ["Folder", "Benchmark", "Method", "Seed", "Outcome", "Time"]
    whole = table(caption, header, rows, words=[1, 2])
    return details(f"{caption} ({len(runs)})", whole) if closed else whole


def _outcome(run: Run) -> list[str]:
    """How accurate it is and how long it took, or how far it has come."""
    if run.summary is not None:
        return [percent(run.summary.average_accuracy), duration(run.summary.seconds)]
    tasks = run.config.get("tasks")
    of = f" of {tasks}" if isinstance(tasks, int) else ""
    return [f"{tasks_done(run)}{of} tasks done", "–"]


_SEEDS = re.compile(r"--seeds[ =](\d+)")


def commands(group: Group) -> list[str]:
    """What was typed, where the runs say so (`command` in their `extra`), each once; otherwise
    what makes the same runs again."""
    said = [summary.extra.get("command") for summary in group.summaries]
    if all(isinstance(command, str) and command for command in said):
        return most_seeds([str(command) for command in said])
    return [rebuilt(group.runs[0].config, group.seeds)]


def most_seeds(typed: Sequence[str]) -> list[str]:
    """Each command once: one for more seeds makes the runs of the same for fewer, too.

    >>> most_seeds(["uclearn run --seeds 3", "uclearn run --json", "uclearn run --seeds 5"])
    ['uclearn run --seeds 5', 'uclearn run --json']
    """
    kept: dict[str, tuple[int, str]] = {}
    for command in typed:
        found = _SEEDS.search(command)
        count = int(found[1]) if found else 0
        same = _SEEDS.sub("", command) if found else command
        kept[same] = max(kept.get(same, (0, command)), (count, command))
    return [command for _, command in kept.values()]


def rebuilt(config: Config, seeds: Sequence[int]) -> str:
    """A command from the configuration alone: what it says was changed, or else every setting.

    >>> rebuilt({"benchmark": "split-digits", "method": "ewc", "preset": "best",
    ...          "changed": ["ewc.gamma=0.9"]}, seeds=[0, 1])
    'uclearn run split-digits --method ewc --preset best --seeds 2 --set ewc.gamma=0.9'
    """
    words = ["uclearn", *_subject(config), "--method", method_of(config)]
    if preset := config.get("preset"):
        words += ["--preset", str(preset)]
    words += ["--seeds", str(max(seeds) + 1)]  # the command counts them from 0
    for setting in changed_in(config) if "changed" in config else _all_settings(config):
        words += ["--set", setting]
    return shlex.join(words)


def _subject(config: Config) -> list[str]:
    if source := source_of(config):
        said = {key: value for key, value in source["asked"].items() if key != "path"}
        return ["run", source["asked"]["path"], *_spelled(said)]
    acts, _, sequence = benchmark_of(config).partition("rl ")
    return ["rl", "run", sequence] if sequence and not acts else ["run", benchmark_of(config)]


def _spelled(said: Config) -> list[str]:
    """As options of the command line."""
    words = []
    for key, value in said.items():
        words.append(f"--{key.replace('_', '-')}")
        if value is not True:
            words.append(",".join(value) if isinstance(value, list) else str(value))
    return words


def _all_settings(config: Config) -> list[str]:
    plan, settings = (_mapping(config.get(key)) for key in ("plan", "settings"))
    given = {"tasks": config.get("tasks"), "plan.epochs": plan.get("epochs")}
    flat = {key: value for key, value in given.items() if value is not None} | flatten(settings)
    spelled = {k: v if isinstance(v, str) else json.dumps(v) for k, v in flat.items() if v != {}}
    return [f"{key}={value}" for key, value in spelled.items()]


def _mapping(value: object) -> Config:
    return value if isinstance(value, Mapping) else {}
