"""`uclearn doctor`: is everything as it should be?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from uclearn.cli import options
from uclearn.cli.printing import print_table, working
from uclearn.errors import UclearnError


class Finding(NamedTuple):
    """One thing looked at."""

    what: str
    sound: bool | None
    """None: not there, which is no illness."""
    detail: str


def doctor(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="A folder; runs and models in use below it are looked at, too.", show_default=False
        ),
    ] = None,
    data: options.DataFolder = None,
) -> None:
    """Look whether the methods act, the data are sound, and checkpoints can be read.

    Leaves with exit code 1 if something is wrong.
    """
    from rich.text import Text

    with working("Looking at the installation, the methods and the data"):
        findings = [*_installation(), *_methods(), *_data(data)]
    if folder is not None:
        with working(f"Looking at {folder}"):
            findings += [*_runs(folder), *_models(folder)]
    marks = {None: Text("-"), True: Text("ok"), False: Text("WRONG", style="red")}
    rows = ((finding.what, marks[finding.sound], finding.detail) for finding in findings)
    print_table(("what", "", "detail"), rows)
    if wrong := [finding.what for finding in findings if finding.sound is False]:
        typer.echo(f"Wrong: {', '.join(wrong[:3])}{', ...' if wrong[3:] else ''}.", err=True)
        raise typer.Exit(1)


def _installation() -> Iterator[Finding]:
    from uclearn.native import in_use
    from uclearn.ranks import choose_device
    from uclearn.runs.grid import cores
    from uclearn.storage.recorder import environment
    from uclearn.training.precision import best_on

    versions = environment()["versions"]
    yield Finding("versions", True, ", ".join(f"{name} {v}" for name, v in versions.items()))
    yield Finding("cores", True, str(cores()))
    device = choose_device(None)
    yield Finding("precision", True, f"auto is {best_on(device)} on {device.type}")
    yield Finding("work on the weights", True, in_use())
    try:
        import plotly
    except ImportError:
        yield Finding("report", None, "needs pip install 'uclearn[report]'")
    else:
        yield Finding("report", True, f"plotly {plotly.__version__}")


def _methods() -> Iterator[Finding]:
    """Does each method hold on to what it has learned, on a problem of a blink?"""
    from uclearn.methods.checks import check_acts, check_holds, problem
    from uclearn.methods.registry import METHODS, facts, keywords

    for name in METHODS:
        try:
            if not facts(name).holds:
                continue
            given = {"tasks": len(problem.tasks())} if "tasks" in keywords(name) else {}
            for check in (check_holds, check_acts):
                check(partial(_built, name, given))
        except UclearnError as error:
            yield Finding(f"method {name}", False, str(error))
        else:
            yield Finding(f"method {name}", True, "acts, and holds what it has learned")


def _built(name: str, given: dict[str, Any], model: Any, example: Any) -> Any:
    from uclearn.methods.registry import build

    return build(name, model, example, {name: given})


def _data(data: Path | None) -> Iterator[Finding]:
    from uclearn.tasks.sources.verify import listing

    for each in listing(data):
        sound = None if each.state == "missing" else each.state in ("verified", "unchecked")
        yield Finding(f"data {each.name}", sound, f"{each.state}: {each.detail}")


def _runs(folder: Path) -> Iterator[Finding]:
    from uclearn.measures.capacity import concerns, layers_of
    from uclearn.storage.checkpoint import has_checkpoint, load_latest
    from uclearn.storage.records import find_runs, read_run

    for place in find_runs(folder):
        try:
            run = read_run(place)
            state = "open" if run.summary is None else "complete"
            note = None
            if has_checkpoint(place):
                _, note = load_latest(place, "session")
        except UclearnError as error:
            yield Finding(str(place), False, f"{error} {_what_is_left(place)}".rstrip())
        else:
            yield Finding(str(place), note is None, note or f"{state}, {len(run.events)} events")
            for concern in concerns(layers_of(run.events)):
                yield Finding(f"{place}, its nodes", None, concern)


def _what_is_left(place: Path) -> str:
    """What of a damaged run can be saved, and how."""
    from uclearn.storage.checkpoint import has_checkpoint, load_latest
    from uclearn.storage.records import (
        CONFIG_NAME,
        EVENTS_NAME,
        SUMMARY_NAME,
        read_document,
        read_summary,
    )

    config = _sound(lambda: read_document(place / CONFIG_NAME))
    outcome = _sound(lambda: read_summary(place))
    going_on = has_checkpoint(place) and _sound(lambda: load_latest(place, "session"))
    if outcome:
        spoiled = EVENTS_NAME if config else CONFIG_NAME
        return f"Its outcome is sound: without {spoiled} it is read from {SUMMARY_NAME} alone."
    if config and going_on and (place / SUMMARY_NAME).exists():
        return f"Its checkpoint is sound: delete {SUMMARY_NAME}, and `uclearn resume` writes it."
    return "Nothing of it can be used: delete the folder and run it again."


def _models(folder: Path) -> Iterator[Finding]:
    from uclearn.live.folder import FORMAT, MARKER_NAME, check_version
    from uclearn.live.journal import JOURNAL_NAME, read_journal
    from uclearn.storage.checkpoint import load_latest

    for marker in sorted(folder.rglob(MARKER_NAME)):
        place = marker.parent
        try:
            check_version(place)
            _, note = load_latest(place, FORMAT)
            lines = len(read_journal(place))
        except UclearnError as error:
            whole = _sound(partial(load_latest, place, FORMAT))
            left = f"The checkpoint is sound and holds the journal: delete {JOURNAL_NAME}."
            told = left if whole and JOURNAL_NAME in str(error) else ""
            yield Finding(str(place), False, f"{error} {told}".rstrip())
        else:
            yield Finding(str(place), note is None, note or f"a model in use, {lines} lines")


def _sound(read: Callable[[], object]) -> bool:
    try:
        return read() is not None
    except UclearnError:
        return False
