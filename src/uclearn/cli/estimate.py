"""How long a study takes, said before it is made: by method, and what leaving one out saves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from uclearn.cli.printing import print_json, print_table, spoken
from uclearn.errors import SettingError

if TYPE_CHECKING:
    from uclearn.cli.launch import Launch
    from uclearn.runs.config import Configuration

Config = TypeVar("Config", bound="Configuration")
Estimated: TypeAlias = Annotated[
    bool, typer.Option("--estimate", help="Only say how long it would take, by method.")
]
Without: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        help="Methods to leave out, as vcl,vcl+coreset.",
        show_default=False,
    ),
]
_DEAR = 2 / 3
"""The share of the time from which on leaving a method out is offered."""


def kept(configs: Sequence[Config], without: str | None) -> list[Config]:
    """The runs of all methods but those that are left out."""
    there = list(dict.fromkeys(config.method for config in configs))
    left_out = [] if without is None else [name.strip() for name in without.split(",")]
    for name in left_out:
        if name not in there:
            raise SettingError(
                f"`without` must name methods that there are ({', '.join(there)}), got {name!r}."
            )
    found = [config for config in configs if config.method not in left_out]
    if configs and not found:
        raise SettingError(f"`without` {without} leaves no method: name fewer.")
    return found


def announce(configs: Sequence[Configuration], launch: Launch) -> None:
    """Say how many runs are missing and how long they will take, by method, the longest first."""
    from uclearn.cli.progress import counted
    from uclearn.runs.estimate import estimates, kinds
    from uclearn.runs.grid import cores
    from uclearn.storage.records import read_summary

    missing = [c for c in configs if read_summary(launch.out / c.folder_name()) is None]
    if not missing:
        typer.echo(f"All {len(configs)} runs are there; nothing is to be made.", err=True)
        return
    what = "Trying each kind of run for a few steps"
    by_method: dict[str, tuple[int, float]] = {}
    tried = estimates(missing, launch.data)
    for found in counted(tried, len(kinds(missing)), what, launch.mode):
        runs, seconds = by_method.get(found.config.method, (0, 0.0))
        by_method[found.config.method] = (runs + found.runs, seconds + found.seconds)
    at_once = max(1, min(launch.workers or cores(), len(missing)))
    ordered = sorted(by_method.items(), key=lambda item: -item[1][1])
    if launch.mode == "json":
        print_json(
            {"event": "estimate", "method": name, "runs": runs, "seconds": seconds / at_once}
            for name, (runs, seconds) in ordered
        )
        return
    _say(ordered, at_once, len(configs))


def _say(ordered: list[tuple[str, tuple[int, float]]], at_once: int, wanted: int) -> None:
    total = sum(seconds for _, (_, seconds) in ordered)
    missing = sum(runs for _, (runs, _) in ordered)
    rows = [
        (name, str(runs), spoken(seconds / at_once), f"{100 * seconds / total:.0f} %")
        for name, (runs, seconds) in ordered
    ]
    columns = ("method", "runs", "about", "share")
    print_table(columns, rows, right=("runs", "about", "share"))
    typer.echo(
        f"{missing} of {wanted} runs are to be made, {at_once} at a time, in about "
        f"{spoken(total / at_once)}."
    )
    dearest, (_, longest) = ordered[0]
    if len(ordered) > 1 and longest >= _DEAR * total:
        rest = spoken((total - longest) / at_once)
        typer.echo(f"Without {dearest} it takes about {rest}: --without {dearest}")
