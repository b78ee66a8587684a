"""Options that say how data of one's own become tasks, and with which network they are learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from uclearn.cli.printing import working
from uclearn.errors import SettingError, UclearnError

if TYPE_CHECKING:
    from uclearn.runs.config import Configuration
    from uclearn.tasks.benchmarks import Named

_PANEL = "Data of your own"


def _option(help: str, metavar: str | None = None, name: str | None = None) -> Any:
    names = () if name is None else (name,)
    return typer.Option(
        *names, help=help, metavar=metavar, rich_help_panel=_PANEL, show_default=False
    )


@dataclass(frozen=True)
class Reading:
    """How files are read."""

    label: Annotated[
        str | None,
        _option("Column of classes. Default: label, class or y, else the last.", "COLUMN"),
    ] = None
    task_column: Annotated[
        str | None, _option("Column that names the task. Default: task, if there is one.", "COLUMN")
    ] = None
    split_column: Annotated[
        str | None,
        _option("Column with train, valid or test. Default: split, if there is one.", "COLUMN"),
    ] = None
    target: Annotated[
        str | None, _option("Column of numbers to be predicted, instead of classes.", "COLUMN")
    ] = None
    group_column: Annotated[
        str | None,
        _option(
            "Column of what must not be torn apart by the split, as patients. Default: group, if "
            "there is one.",
            "COLUMN",
        ),
    ] = None
    drop: Annotated[str | None, _option("Columns to leave out.", "COLUMN,...")] = None
    categories: Annotated[
        str | None, _option("Columns of numbers that are names.", "COLUMN,...")
    ] = None
    size: Annotated[
        int | None,
        _option(
            "Pixels of a side that pictures are scaled and cropped to. Default: their own if all "
            "are alike and at most 64, else 32."
        ),
    ] = None
    grey: Annotated[bool, _option("Read pictures in grey.", name="--grey")] = False
    skip_broken: Annotated[
        bool, _option("Leave out pictures that cannot be read.", name="--skip-broken")
    ] = False

    def said(self) -> dict[str, Any]:
        """What is not as usual, as `uclearn.tasks.own.source.Asked` takes it."""
        given = {key: value for key, value in asdict(self).items() if value not in (None, False)}
        for key in ("drop", "categories"):
            if key in given:
                given[key] = tuple(name.strip() for name in given[key].split(","))
        return given


@dataclass(frozen=True)
class Own(Reading):
    """Where a path stands for the name of a benchmark."""

    split: Annotated[int | None, _option("Make tasks of so many classes each.")] = None
    permute: Annotated[
        int | None, _option("Make so many tasks, the features in another order in each.")
    ] = None
    scenario: Annotated[
        Literal["task", "class", "domain"] | None,
        _option(
            "task: an output layer for each task; class: one that grows with the classes; domain: "
            "the same classes in every task. Default: what fits."
        ),
    ] = None
    test: Annotated[
        float | None, _option("Share of each class for the test. Default: 0.2.", "SHARE")
    ] = None
    valid: Annotated[
        float | None, _option("Share to choose the best epoch by. Default: none.", "SHARE")
    ] = None

    network: Annotated[
        str | None,
        _option(
            "mlp:400,400 (widths of hidden layers), conv, resnet, or module:function of your own. "
            "Default: conv for pictures, else mlp:200,200.",
            "NAME",
        ),
    ] = None

    def subject(self, benchmark: str, settings: dict[str, Any]) -> Named:
        """What the word stands for: a benchmark's name, or data described; what a file says about
        them is taken out of `settings`."""
        from uclearn.tasks.own.source import named

        said: dict[str, Any] = {}
        for key in [key for key in settings if key.startswith("source.")]:
            said[key.removeprefix("source.")] = settings.pop(key)
        given = self.said()
        if "network" in given:
            settings |= _network(given.pop("network"))
        try:
            with working(f"Reading {benchmark}"):
                found = named(benchmark, said | given)
        except TypeError as error:  # a file may say anything
            raise SettingError(f"[source] of the file makes no sense: {error}.") from error
        if not isinstance(found, str) and found.source is not None and found.source.skipped:
            skipped = found.source.skipped
            names = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
            typer.echo(f"{len(skipped)} pictures cannot be read, left out: {names}", err=True)
        return found


def _network(text: str) -> dict[str, Any]:
    """The settings that a network is named by."""
    kind, _, widths = text.partition(":")
    if kind != "mlp":
        return {"network.kind": text, "network.hidden": []}
    try:
        return {
            "network.kind": "mlp",
            "network.hidden": [int(width) for width in widths.split(",")],
        }
    except ValueError:
        raise SettingError(
            f"`--network` must name widths of hidden layers, as mlp:400,400, got {text!r}."
        ) from None


def _asked_in(config: Path) -> object:
    """What a run was asked to read; None where its record cannot be read: others say so."""
    from uclearn.storage.records import read_document

    try:
        document = read_document(config) or {"config": {}}
    except UclearnError:
        return None
    then = document["config"].get("source")
    return then.get("asked") if isinstance(then, dict) else None


def changed_data(out: Path, configs: Sequence[Configuration]) -> str:
    """What to say where `out` holds runs of the same place, whose data were others then; empty:
    nothing."""
    source = configs[0].document().get("source") if configs else None
    if source is None:
        return ""
    name = configs[0].benchmark
    for folder in sorted(out.glob(f"{name.rpartition('-')[0]}-*")):
        before = None if folder.name == name else next(folder.glob("*/*/config.json"), None)
        if before is not None and _asked_in(before) == source["asked"]:
            return (
                f"The data in {source['asked']['path']} have changed since the runs in {folder} "
                f"were made. Those are left alone; new ones are kept as {name}."
            )
    return ""
