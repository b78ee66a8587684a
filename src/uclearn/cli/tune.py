"""`uclearn tune`: let Optuna look for settings, without cheating."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uclearn.cli import options
from uclearn.cli.own import Own
from uclearn.cli.printing import print_json, print_table
from uclearn.cli.sweep import FirstTasks, Searching, first_tasks, percent

if TYPE_CHECKING:
    from uclearn.runs.tune import Tried, Tuning


def tune(
    benchmark: options.Benchmark,
    method: options.Method = None,
    trials: Annotated[int, typer.Option(min=1, help="How many, with those of earlier calls.")] = 20,
    space: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=LOW..HIGH[:log]",
            help="What to search, as ucl.beta=1e-4..1e-1:log or ucl.sampling=local,weight; may be "
            "repeated. Default: the method's own strengths.",
            show_default=False,
        ),
    ] = None,
    sampler: Annotated[
        str,
        typer.Option(
            help="How values are chosen: {samplers}.", autocompletion=options.completing("samplers")
        ),
    ] = "tpe",
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The database of the study, as Optuna takes it. Default: an SQLite file in the "
            "output folder.",
            show_default=False,
        ),
    ] = None,
    prune: Annotated[
        bool,
        typer.Option(help="Stop trials that do worse than the median after their first tasks."),
    ] = True,
    tasks: FirstTasks = None,
    *,
    own: Own,
    searching: Searching,
    out: options.Out = Path("tuning"),
    data: options.DataFolder = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            help="Trials at the same time, each in a process of its own. With several, what is "
            "tried depends on which ends first.",
        ),
    ] = 1,
    track: options.Track = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    checkpoint_seconds: options.CheckpointSeconds = 30.0,
) -> None:
    """Search settings by Optuna, judged by validation data of the first tasks.

    The test data are not looked at. Run the same command again and it goes on where it was
    stopped; several at once, on machines that share the folder, work on the same study. What was
    found is written to a file for --config.
    """
    import sys

    from uclearn.cli.launch import typed
    from uclearn.cli.progress import watching
    from uclearn.runs.sweep import parse_space
    from uclearn.runs.together import tune_together
    from uclearn.runs.tune import Maker, Tuning

    mode = options.mode(quiet, json)
    subject, method, preset, chosen = searching.gathered(benchmark, method, own)
    tuning = Tuning(
        subject,
        method,
        parse_space(space or []),
        preset=preset,
        tasks=tasks or first_tasks(subject),
        seeds=searching.seeds,
        overrides=chosen,
    )
    with watching(mode, [], track, out) as observer:
        maker = Maker(out, data, observer, checkpoint_seconds, typed(sys.argv))
        how = {"sampler": sampler, "storage": storage, "prune": prune}
        tried = tune_together(tuning, maker, trials, workers=workers, **how)
    _show(tried, mode, f"{method} on {benchmark}")
    _leave(tuning, tried, out, mode)


def _show(tried: list[Tried], mode: options.Mode, title: str) -> None:
    if mode == "json":
        print_json({"event": "trial", **each._asdict()} for each in tried)
    if mode != "live":
        return
    keys = list(dict.fromkeys(key for each in tried for key in each.values))
    columns = ("trial", *keys, "accuracy %", "state")
    rows = []
    for each in tried:
        values = [_shown(each.values.get(key, "")) for key in keys]
        rows.append((str(each.number), *values, percent(each.accuracy, ""), each.state))
    print_table(columns, rows, title=f"{title}, judged by validation data", right=columns)


def _leave(tuning: Tuning, tried: list[Tried], out: Path, mode: options.Mode) -> None:
    """Write what was found and say where; without any success, say why."""
    from uclearn.errors import SettingError
    from uclearn.runs.resolve import preset_text
    from uclearn.storage.files import write_text
    from uclearn.tasks.benchmarks import benchmark

    best = tried[0]
    if best.state != "complete":
        notes = {each.note for each in tried if each.note} or {"none has ended yet"}
        raise SettingError(f"No trial of {tuning.method} succeeded: {'; '.join(sorted(notes))}")
    done = [each for each in tried if each.state == "complete"]
    level = _level(done)
    which = "the best" if len(level) == 1 else f"one of {len(level)} level at the top"
    remark = (
        f"Found by uclearn tune: accuracy {best.accuracy:.4f} on validation data of the first "
        f"{tuning.tasks} tasks, {which} of {len(done)} trials ({len(tried)} begun)."
    )
    settings = {**tuning.overrides, **best.values}
    path = out / f"{benchmark(tuning.benchmark).name}-{tuning.method}.toml"
    text = preset_text(tuning.benchmark, tuning.method, tuning.preset, settings, [remark])
    write_text(path, text)
    if mode == "live":
        if len(level) > 1:
            numbers = ", ".join(map(str, sorted(level)))
            typer.echo(f"Level at the top, less than 0.1 % apart: trials {numbers}.")
        chosen = "The best" if len(level) == 1 else f"Of these trial {best.number}"
        typer.echo(f"{chosen} is written to {path}: uclearn run --config {path}")


def _level(done: list[Tried]) -> list[int]:
    """The numbers of the trials that are level with the best, which is the first."""
    from uclearn.measures.statistics import is_level

    values = [(each.number, each.accuracy) for each in done if each.accuracy is not None]
    return [number for number, own in values if is_level({0: values[0][1]}, {0: own})]


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
