"""Every run that was found, and what became of it."""

from collections.abc import Sequence

from uclearn.report.collect import Collection, tasks_done
from uclearn.report.html import Html, details, join, mark, paragraph, section, table
from uclearn.report.labels import benchmark_name, marks, method_name
from uclearn.report.settings import benchmark_of, method_of, seed_of
from uclearn.report.words import count, duration, percent
from uclearn.storage.records import Run


def runs(found: Collection) -> Html:
    """First what is missing from the figures, then all."""
    parts = [
        _table("Complete runs", [(run, _outcome(run)) for run in found.complete], closed=True),
        _table(
            "Runs that are not complete; in no figure", [(r, _state(r)) for r in found.incomplete]
        ),
        _table(
            "Runs with the configuration and seed of another; counted once",
            [(run, _outcome(run)) for run in found.repeated],
        ),
    ]
    if found.unreadable:
        rows = [[str(one.folder), one.reason] for one in found.unreadable]
        caption = "Runs that cannot be read"
        parts.append(table(caption, ["Folder", "Why"], rows, words=[1]))
    summary = f"{count(len(found), 'run')} found, {len(found.complete)} complete."
    return section("runs", 2, "Runs", paragraph(summary), *parts)


def _table(
    caption: str, entries: Sequence[tuple[Run, Sequence[str]]], closed: bool = False
) -> Html:
    if not entries:
        return Html()
    rows = [
        [
            str(run.folder),
            benchmark_name(benchmark_of(run.config)),
            _method(run),
            f"{seed_of(run.config)}",
            *words,
        ]
        for run, words in entries
    ]
    header = ["Folder", "Benchmark", "Method", "Seed", "Outcome", "Time"]
    whole = table(caption, header, rows, words=[1, 2])
    return details(f"{caption} ({len(entries)})", whole) if closed else whole


def _method(run: Run) -> Html:
    noted = [mark(one) for one in marks(run.config)]
    return join([method_name(method_of(run.config)), *([" ", *noted] if noted else [])])


def _outcome(run: Run) -> list[str]:
    summary = run.summary
    return (
        ["", ""]
        if summary is None
        else [
            percent(summary.average_accuracy),
            duration(summary.seconds),
        ]
    )


def _state(run: Run) -> list[str]:
    tasks = run.config.get("tasks")
    of = f" of {tasks}" if isinstance(tasks, int) else ""
    return [f"{tasks_done(run)}{of} tasks done", "–"]
