"""What each method costs: parameters kept, time, memory."""

from collections.abc import Sequence

from uclearn.measures.accuracy import known, mean
from uclearn.paper.numbers import PARAMETERS
from uclearn.report.figure import slug, swatch
from uclearn.report.groups import Group, Study
from uclearn.report.html import Html, join, paragraph, section, table, tag
from uclearn.report.words import UNKNOWN, duration, memory


def cost(study: Study) -> Html:
    """Two tables: parameters (the paper's Table 1), and time and memory."""
    return section(
        f"{slug(study)}-cost",
        3,
        "Parameters, time and memory",
        _parameters(study),
        _time_and_memory(study),
        paragraph(_machines(study)),
        note=study.mark,
    )


def _parameters(study: Study) -> Html:
    paper = PARAMETERS.get(study.benchmark, {})
    kept = [max(s.parameters_kept for s in group.summaries) for group in study.groups]
    plain = next(
        (n for group, n in zip(study.groups, kept, strict=True) if group.method == "finetuning"),
        None,
    )
    rows = [
        [
            _name(group),
            _bar(f"{number:,}", number, kept),
            UNKNOWN if plain is None else f"{number / plain:.2f} ×",
            f"{paper[group.method]}K" if group.method in paper else UNKNOWN,
        ]
        for group, number in zip(study.groups, kept, strict=True)
    ]
    header = ["Method", "Kept", "Of the plain network", "Paper, Table 1"]
    return table("Parameters kept in order to learn the next task", header, rows)


def _time_and_memory(study: Study) -> Html:
    seconds = [mean(s.seconds for s in group.summaries) or 0.0 for group in study.groups]
    peaks = [
        max(known(summary.peak_memory for summary in group.summaries), default=None)
        for group in study.groups
    ]
    rows = [
        [
            _name(group),
            _bar(duration(time), time, seconds),
            duration(time / max(study.tasks, 1)),
            UNKNOWN if peak is None else _bar(memory(peak), peak, known(peaks)),
        ]
        for group, time, peak in zip(study.groups, seconds, peaks, strict=True)
    ]
    header = ["Method", "Time per run", "Per task", "Peak memory"]
    return table("Time (mean over seeds) and memory (largest of the seeds)", header, rows)


def _name(group: Group) -> Html:
    return join([swatch(group), group.label])


def _bar(text: str, value: float, others: Sequence[float]) -> Html:
    share = 100 * value / max(max(others), 1e-9)
    return tag("span", {"class": "cell-bar", "style": f"--share:{share:.1f}%"}, text)


def _machines(study: Study) -> str:
    machines = {
        _machine(dict(summary.machine)) for group in study.groups for summary in group.summaries
    }
    if len(machines) == 1:
        return f"Measured on {machines.pop()}."
    return (
        f"Measured on different machines, so that times are not comparable: "
        f"{'; '.join(sorted(machines))}."
    )


def _machine(machine: dict[str, str | int | None]) -> str:
    total = machine.get("memory")
    words = [
        f"{machine['processor']}" if machine.get("processor") else "",
        f"{machine['processors']} processors" if machine.get("processors") else "",
        f"{memory(total)} of memory" if isinstance(total, int) else "",
        f"{machine['system']}" if machine.get("system") else "",
    ]
    return ", ".join(word for word in words if word) or "an unknown machine"
