"""What is shown as tables: the paper's numbers beside ours, what each method costs, the settings,
and every run that was found."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

from uclearn.measures.accuracy import known, mean
from uclearn.paper.numbers import PARAMETERS, Published, published
from uclearn.report.chart import section_of, swatch
from uclearn.report.groups import Collection, Comparison, Group, tasks_done
from uclearn.report.html import (
    Html,
    details,
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
    flatten,
    method_of,
    seed_of,
    source_of,
)
from uclearn.report.words import (
    UNKNOWN,
    count,
    difference,
    duration,
    interval,
    listing,
    memory,
    percent,
)
from uclearn.storage.records import Run


def paper_and_ours(comparison: Comparison) -> Html:
    """The paper's numbers and ours: for each group a row of numbers, and one with its command."""
    name = comparison.reference.label
    header = ["Method", "Paper", "Ours", "Seeds", "95 % interval", "Points against reference"]
    head = tag("tr", {}, *(tag("th", {"scope": "col", "class": "number"}, h) for h in header))
    bodies = [_body(comparison, group) for group in comparison.groups]
    caption = (
        f"Average accuracy after {count(comparison.tasks, 'task')}: the paper’s number and ours"
    )
    return section_of(
        comparison,
        "numbers",
        "The paper’s numbers and ours",
        scrolling(
            f"{caption}, {comparison.mark}" if comparison.mark else caption,
            tag("thead", {}, head),
            *bodies,
        ),
        paragraph(
            f"The reference is {name}. Interval: Student’s t over seeds. Points against reference: "
            "percentage points more or less than it, seed by seed, with their own 95 % t interval; "
            "if that includes 0, the difference may be chance. One seed gives no interval."
        ),
        _sources(comparison),
    )


def _body(comparison: Comparison, group: Group) -> Html:
    # what lacks a term is not the method whose number the paper gives
    found = None if group.is_ablation else published(comparison.benchmark, group.method)
    against = None if group is comparison.reference else group.against(comparison.reference)
    cells = [
        percent(found.accuracy) if found else UNKNOWN,
        _ours(comparison, group, found),
        f"{len(group.runs)}",
        interval(group.accuracy),
        "reference" if group is comparison.reference else difference(against),
    ]
    # the command has a row of its own, under the numbers it makes
    name = tag("th", {"scope": "rowgroup", "rowspan": 2}, swatch(group), group.label)
    numbers = [tag("td", {"class": "number"}, cell) for cell in cells]
    made_by = [tag("code", {}, command) for command in commands(group)]
    command = tag("td", {"class": "command", "colspan": len(cells)}, *made_by)
    return tag("tbody", {"class": "pair"}, tag("tr", {}, name, *numbers), tag("tr", {}, command))


def _ours(comparison: Comparison, group: Group, found: Published | None) -> Html:
    number = percent(group.accuracy.mean if group.accuracy else None)
    config = group.runs[0].config
    differs = departures(config, comparison.tasks, found) if found else comparison.marks
    return join(tag("b", {}, number), *map(mark, differs))


def _sources(comparison: Comparison) -> Html:
    entries = []
    for method in dict.fromkeys(group.method for group in comparison.groups):
        found = published(comparison.benchmark, method)
        if found is not None:
            words = f"; {found.words}" if found.words else ""
            text = f"{method_name(method)}, {percent(found.accuracy)}: {found.source}{words}."
            entries.append(tag("li", {}, text))
    if not entries:
        return paragraph("The paper has no number for this benchmark.")
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
            _name(group),
            _bar(f"{number:,}", number, kept),
            UNKNOWN if plain is None else f"{number / plain:.2f} ×",
            f"{paper[group.method]}K" if group.method in paper else UNKNOWN,
        ]
        for group, number in pairs
    ]
    header = ["Method", "Kept", "Of the plain network", "Paper, Table 1"]
    return table("Parameters kept in order to learn the next task", header, rows)


def _time_and_memory(comparison: Comparison) -> Html:
    seconds = [mean(s.seconds for s in group.summaries) or 0.0 for group in comparison.groups]
    peaks = [
        max(known(summary.peak_memory for summary in group.summaries), default=None)
        for group in comparison.groups
    ]
    rows = [
        [
            _name(group),
            _bar(duration(time), time, seconds),
            duration(time / max(comparison.tasks, 1)),
            UNKNOWN if peak is None else _bar(memory(peak), peak, known(peaks)),
        ]
        for group, time, peak in zip(comparison.groups, seconds, peaks, strict=True)
    ]
    header = ["Method", "Time per run", "Per task", "Peak memory"]
    return table("Time (mean over seeds) and memory (largest of the seeds)", header, rows)


def _name(group: Group) -> Html:
    return join(swatch(group), group.label)


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
    """What differs between the groups, and all settings of each; closed at first."""
    flat = [flatten(group.config) for group in comparison.groups]
    shared = [key for key in differing_keys(flat) if all(key in one for one in flat)]
    names = [group.label for group in comparison.groups]
    parts = []
    if shared:
        rows = [[key, *(value_words(one[key]) for one in flat)] for key in shared]
        caption = "Settings that all have, with different values"
        parts.append(details(caption, table(caption, ["Setting", *names], rows)))
    for name, one in zip(names, flat, strict=True):
        rows = [[key, value_words(value) or UNKNOWN] for key, value in one.items()]
        caption = f"All settings of {name}"
        parts.append(details(caption, table(caption, ["Setting", "Value"], rows, words=[1])))
    whole = section_of(comparison, "settings", "Settings", *parts)
    return tag("div", {"class": "screen-only"}, whole)


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
