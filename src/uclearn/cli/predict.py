"""`uclearn predict`: what a model that is in use answers."""

from __future__ import annotations

import csv
import io
import json as json_lines
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uclearn.cli import options

if TYPE_CHECKING:
    from uclearn.live.learner import Learner
    from uclearn.live.predictions import LearnerPrediction


def predict(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the model is kept.")],
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            metavar="PATH",
            help="A .csv or .parquet, an .npz with the array x, or a folder of pictures.",
        ),
    ],
    task: Annotated[
        str | None,
        typer.Option(
            help="Which task the examples belong to. Default: found out example by example, which "
            "is often wrong; see docs/live.md."
        ),
    ] = None,
    together: Annotated[
        bool,
        typer.Option("--together", help="All examples belong to one task, which is to be found."),
    ] = False,
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Say how far draws of the weights disagree.")
    ] = False,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="A column to leave out, if the model was not taught from tables."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A CSV file. Default: the terminal.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Answer: for each example the task, the label, how probable it is, and how sure that is; or
    the number, where numbers were learned."""
    from uclearn.live.learner import Learner
    from uclearn.live.reading import read_table
    from uclearn.storage.files import write_text
    from uclearn.tasks.own.source import Asked

    learner = Learner.load(folder)
    if learner.note:
        typer.echo(learner.note, err=True)
    table = read_table(Asked(str(data), label=label), learner.knows(), labelled=False)
    for note in table.notes:
        typer.echo(note, err=True)
    prediction = learner.predict(table.inputs, task, uncertainty=uncertainty, together=together)
    if prediction.task_margin is not None:
        typer.echo(_guessed(learner, together), err=True)
    told = _rows if prediction.classifies else _numbers
    rows = list(told(learner, prediction))
    text = "".join(json_lines.dumps(row) + "\n" for row in rows) if json else _csv(rows)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
        typer.echo(f"{len(rows)} answers written to {out}.")


def _guessed(learner: Learner, together: bool) -> str:
    """That the task was guessed, and how far that can be relied on."""
    how = "for all examples together" if together else "example by example"
    found = learner.guessing()
    if found is None:
        known = "How often that is right is not known: no examples of every task were set apart."
    else:
        right = found.batch if together else found.task
        known = (
            f"On the examples set apart, the task is guessed right in {right:.0%}"
            + (f" of batches of {found.batch_size}" if together else "")
            + f"; the label in {found.label:.0%}, in {found.label_told:.0%} when the task is told."
        )
    return f"The task was guessed {how}. {known} `--task NAME` tells it."


def _rows(learner: Learner, prediction: LearnerPrediction) -> Iterator[dict[str, Any]]:
    best = prediction.probabilities.max(dim=1).values
    for number, name in enumerate(prediction.tasks):
        place = int(prediction.labels[number])
        names = learner.tasks[name].labels
        row: dict[str, Any] = {
            "task": name,
            "label": names[place] if place < len(names) else str(place),
            "probability": round(float(best[number]), 6),
            "entropy": round(float(prediction.entropy[number]), 6),
        }
        if prediction.task_margin is not None:
            row["task_margin"] = round(float(prediction.task_margin[number]), 6)
        if prediction.disagreement is not None:
            row["disagreement"] = round(float(prediction.disagreement[number]), 6)
        yield row


def _numbers(learner: Learner, prediction: LearnerPrediction) -> Iterator[dict[str, Any]]:
    """In the units of the column that was learned."""
    encoding = learner.encoding
    mean, spread = (encoding and encoding.target) or (0.0, 1.0)
    title = (encoding and encoding.roles.target) or "output"
    for number, (name, output) in enumerate(
        zip(prediction.tasks, prediction.outputs.flatten(1).tolist(), strict=True)
    ):
        row: dict[str, Any] = {"task": name}
        for place, value in enumerate(output):
            row[title if len(output) == 1 else f"{title} {place}"] = value * spread + mean
        if prediction.disagreement is not None:
            row["disagreement"] = float(prediction.disagreement[number].max()) * spread
        yield row


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
