"""`uclearn learn`: new data for a model that is in use."""

from __future__ import annotations

import json as json_lines
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uclearn.cli import options
from uclearn.cli.own import Reading
from uclearn.errors import SettingError

if TYPE_CHECKING:
    from uclearn.live.learner import Learner
    from uclearn.live.table import Table
    from uclearn.live.update import Update

REJECTED = 3
"""The exit code where an update was rejected."""


def learn(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Where the model is kept; made if it is not there."),
    ],
    data: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="Examples: a .csv or .parquet with a column of labels (or numbers: --target), an "
            ".npz with the arrays x and y, a data set that `datasets` saved, or a folder of "
            "pictures, CLASS/*.png.",
        ),
    ],
    name: Annotated[str, typer.Option(help="Of this update, and of the task that it begins.")],
    add_classes: Annotated[
        bool, typer.Option("--add-classes", help="With one head: add outputs for new labels.")
    ] = False,
    task: Annotated[
        str | None, typer.Option(help="Go on with this known task instead of beginning one.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="TASK", help="Of data with several tasks, the one to learn."),
    ] = None,
    method: options.Method = None,
    hidden: Annotated[
        str | None, typer.Option(help="Widths of the hidden layers, as 64,64. Default: 64,64.")
    ] = None,
    one_head: Annotated[
        bool,
        typer.Option(
            "--one-head", help="One output layer for all updates, instead of one for each task."
        ),
    ] = False,
    as_is: Annotated[
        bool,
        typer.Option(
            "--as-is", help="Do not bring features to a common scale (that of the first data)."
        ),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the method, as beta=0.01."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Examples per step.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="How it goes: constant, or cosine or one-cycle, which end at 0."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of weights, order and what is set apart.")
    ] = None,
    max_drop: Annotated[
        float, typer.Option(help="The drop in an old task's accuracy that is tolerated.")
    ] = 0.01,
    max_total: Annotated[
        float | None,
        typer.Option(
            help="The drop since a task was learned that is tolerated, over all updates. Default: "
            "three times --max-drop."
        ),
    ] = None,
    canary: Annotated[
        float, typer.Option(help="Share, or from 1 on number, of the examples to guard them by.")
    ] = 0.1,
    warn: Annotated[
        bool, typer.Option("--warn", help="Keep an update that costs too much, and say so.")
    ] = False,
    json: options.Json = False,
    *,
    reading: Reading,
) -> None:
    """Learn from new data, unless that would cost old tasks too much.

    A part of the data is set apart and never trained on. If an old task loses more than
    `--max-drop` of its accuracy on its own part, or more than `--max-total` since it was learned,
    the update is rejected, the model stays what it was to the bit, and the exit code is 3. `uclearn
    status FOLDER` tells the story. Where numbers are predicted (`--target`) there are no accuracies
    and no gate; the error is said.
    """
    from uclearn.live.folder import knows
    from uclearn.live.gate import Gate, Mode
    from uclearn.live.learner import Learner
    from uclearn.live.numbers import learn_numbers
    from uclearn.live.reading import read_table
    from uclearn.live.table import as_update
    from uclearn.networks import has_heads
    from uclearn.tasks.own.source import Asked

    asked = Asked(str(data), **reading.said())
    table = read_table(asked, knows(folder), labelled=True, only=only)
    made = {
        "method": method,
        "hidden": hidden,
        "one-head": one_head,
        "as-is": as_is,
        "set": settings,
        **{key: getattr(reading, key) for key in ("drop", "categories", "size", "grey")},
    }
    plan = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "schedule": schedule}
    plan["seed"] = seed
    given: dict[str, Any] = {key: value for key, value in plan.items() if value is not None}
    numbers = table.targets is not None
    mode: Mode = "warn" if warn else "reject"
    gate = Gate(max_drop=max_drop, canary=canary, mode=mode, max_total=max_total)

    with Learner.open(folder, new=lambda: _new(table, made, given)) as learner:
        if learner.note:
            typer.echo(learner.note, err=True)
        if learner.tasks:
            _refuse(folder, made)
        learner.plan = replace(learner.plan, **given)
        learner.encoding = table.encoding or learner.encoding
        heads = has_heads(learner.network)
        if numbers:  # accuracies are what a gate compares
            update, told = learn_numbers(learner, table, name, task, canary)
        else:
            request = as_update(table, learner.tasks, task, heads=heads, add_classes=add_classes)
            update, told = learner.learn(name=name, task=task, gate=gate, **request), {}
    _tell(update, folder, json, told)
    if not update.kept:
        raise typer.Exit(REJECTED)


def _new(table: Table, made: dict[str, Any], plan: dict[str, Any]) -> Learner:
    from torch import nn

    from uclearn.live.blueprint import Standardise
    from uclearn.live.learner import Learner
    from uclearn.networks import MultiHead, mlp, picture_network
    from uclearn.runs.resolve import parse_settings
    from uclearn.tasks.own.examples import in_order
    from uclearn.training.plan import Plan

    chosen = {"epochs": 20, "batch_size": 32, **plan}
    seed = int(chosen.get("seed", 0))
    own = parse_settings([f"method.{text}" for text in made["set"] or []])
    settings = {key.removeprefix("method."): value for key, value in own.items()}
    classes = len(in_order(table.labels or ()))
    one_head = made["one-head"] or table.targets is not None  # numbers have one output for all
    if table.inputs.dim() == 4 and not made["hidden"]:  # pictures
        shape, outputs = table.inputs.shape[1:], classes if one_head else None
        conv = picture_network("conv", shape, outputs, seed=seed)
        return Learner(conv, made["method"] or "ucl", plan=Plan(**chosen), **settings)
    widths = _widths(made["hidden"] or "64,64")
    features = table.inputs[0].numel()
    flat: list[nn.Module] = [] if table.inputs.dim() == 2 else [nn.Flatten()]
    scaled = None if table.encoding is None else table.encoding.scaled()
    common = Standardise.of(table.inputs.flatten(1), scaled)
    scale: list[nn.Module] = [] if made["as-is"] else [common]
    if one_head:
        body = mlp(features, widths, classes or 1, seed=seed)
        network: nn.Module = nn.Sequential(*flat, *scale, *body.children())
    else:
        heads = mlp(features, widths, None, seed=seed)
        assert isinstance(heads, MultiHead)
        trunk = nn.Sequential(*flat, *scale, *heads.trunk.children())
        network = MultiHead(trunk, heads.features, seed)
    return Learner(network, made["method"] or "ucl", plan=Plan(**chosen), **settings)


def _refuse(folder: Path, made: dict[str, Any]) -> None:
    given = [f"--{key}" for key, value in made.items() if value]
    if given:
        raise SettingError(
            f"{', '.join(given)} can be chosen when a model is made, but {folder} holds one "
            "already. Leave out what was chosen then, or choose another folder."
        )


def _widths(text: str) -> tuple[int, ...]:
    try:
        widths = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise SettingError(f"`--hidden` must be whole numbers, as 64,64, got {text!r}.") from error
    if not all(width > 0 for width in widths):
        raise SettingError(f"`--hidden` must be positive numbers, as 64,64, got {text!r}.")
    return widths


def _tell(update: Update, folder: Path, json: bool, told: dict[str, Any]) -> None:
    if json:
        document = {k: v for k, v in {**update.document(), **told}.items() if k != "nodes"}
        typer.echo(json_lines.dumps(document))
        return
    sizes = f"{update.train} examples, {update.canary} set apart"
    learned = "" if update.accuracy is None else f", right on {update.accuracy:.1%} of those"
    typer.echo(f"{update.name}: {update.decision}. {sizes}{learned}. {update.reason}")
    if told:
        typer.echo(
            f"Off by {told['error']:.4g} on {told['held_out']} rows that were not learned from "
            f"(root mean square; always saying the first mean: {told['error_of_mean']:.4g})."
        )
    for words in (*update.notes, *update.concerns):
        typer.echo(words)
    if not update.kept:
        typer.echo(f"The model in {folder} is what it was before, to the bit.")
