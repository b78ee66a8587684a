"""Options that several commands share, and what can be chosen for them.

Names come from the registries, in help texts and in completion, and are never typed twice. The
registries import torch, which takes seconds; so names are looked up only when they are shown.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_type_hints

import typer
from typer.core import TyperCommand

from uclearn.errors import SettingError

if TYPE_CHECKING:
    from uclearn.cli.launch import Launch

_REGISTRIES = {
    "benchmarks": "uclearn.tasks.benchmarks:BENCHMARKS",
    "methods": "uclearn.methods.registry:METHODS",
    "wrappers": "uclearn.methods.registry:WRAPPERS",
    "presets": "uclearn.runs.config:PRESETS",
    "studies": "uclearn.paper.studies:STUDIES",
    "datasets": "uclearn.tasks.sources.catalogue:CATALOGUE",
    "sequences": "uclearn.rl.catalogue:SEQUENCES",
    "rl_studies": "uclearn.paper.studies:RL_STUDIES",
    "samplers": "uclearn.runs.tune:SAMPLERS",
    "rl_methods": "uclearn.runs.rl:rl_methods",
}
"""By the word that stands for them in help texts, `{benchmarks}`: where the names are."""


def names(what: str) -> list[str]:
    """What there is to choose from.

    >>> names("presets")
    ['default', 'best', 'paper']
    """
    module, _, registry = _REGISTRIES[what].partition(":")
    known = getattr(import_module(module), registry)
    found = list(known() if callable(known) else known)
    return [*found, "table-1"] if what == "studies" else found


def completing(what: str) -> Callable[[str], list[str]]:
    """For shell completion: the names that begin with what has been typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names(what) if name.startswith(incomplete)]

    return complete


def one_of(what: str, help: str, metavar: str | None = None) -> Any:
    """An argument that is one of the names in a registry."""
    return typer.Argument(
        help=help, autocompletion=completing(what), show_default=False, metavar=metavar
    )


class Command(TyperCommand):
    """A command whose help names the choices there are: `{benchmarks}` becomes their names."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Look the names up, then show the help."""
        for parameter in self.params:
            text = getattr(parameter, "help", None) or ""
            for what in _REGISTRIES:
                if f"{{{what}}}" in text:
                    text = text.replace(f"{{{what}}}", ", ".join(names(what)))
                    setattr(parameter, "help", text)  # noqa: B010 (no attribute of the base class)
        super().format_help(ctx, formatter)


DEFAULT_BENCHMARK = "permuted-digits"
DEFAULT_OUT = Path("runs")

Benchmark: TypeAlias = Annotated[
    str, one_of("benchmarks", "What to learn: {benchmarks}, or the path of data of your own.")
]
Preset: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Where settings come from: {presets}. `default` takes them by rule, the same "
        "everywhere; `paper` follows the paper to the letter, `best` takes what we found to be "
        "better.",
        autocompletion=completing("presets"),
        show_default=False,
    ),
]
Seeds: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Repeat with so many seeds, 0, 1, 2, ..., to see the spread.")
]
Epochs: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, help="Passes over each task's data. Short for --set plan.epochs=N."),
]
Tasks: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Learn only the first so many tasks.")
]
Set: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, as ucl.beta=0.01 or plan.lr=0.002; may be repeated. `uclearn "
        "presets` lists them.",
    ),
]
Config: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A TOML file with settings: benchmark, method, preset, tasks, and a table for each "
        "part, such as [plan] or [ucl]. Or, for `run`, the config.json of a run, to make it again.",
    ),
]


def _folder_only(place: Path) -> Path:
    """A path has lost one of the two slashes of a URL: it would quietly become a folder."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(place)):
        raise SettingError(
            f"`out` must be a folder, got the URL {place}. `uclearn compare`, `sweep` and "
            "`reproduce` keep runs at a URL."
        )
    return place


Out: TypeAlias = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER",
        help="Where runs are kept. What is there is not repeated.",
        callback=_folder_only,
    ),
]
OutOrUrl: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="FOLDER|URL",
        help="Where runs are kept: a folder, or a URL that fsspec understands, as s3://bucket/runs."
        " What is there is not repeated.",
    ),
]
DataFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="Where the data sets are. Default: the folder that UCLEARN_DATA names, else a place "
        "in the cache folder.",
        show_default=False,
    ),
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1, help="Runs at the same time. Default: one for each core.", show_default=False
    ),
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="One JSON object per line, for other programs.")
]
Method: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="How to learn: {methods}. A plus puts a memory of examples around it ({wrappers}), as "
        "ucl+replay. Default: ucl.",
        autocompletion=completing("methods"),
        show_default=False,
    ),
]
Device: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What to learn on, as torch names it: cpu, cuda, cuda:1. Default: a GPU if there is "
        "one, else the CPU.",
        show_default=False,
    ),
]
CheckpointSeconds: TypeAlias = Annotated[
    float, typer.Option(min=0, help="Save so often: what a crash may cost.", hidden=True)
]

On: TypeAlias = Annotated[
    Literal["local", "ray", "slurm"],
    typer.Option(
        help="Where runs are made: in processes on this machine, on a Ray cluster, or as Slurm "
        "jobs. On a cluster all machines must see the output folder and the data."
    ),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Of the Ray cluster. Default: the one that RAY_ADDRESS names or that runs here, else "
        "one is started.",
        show_default=False,
    ),
]
Slurm: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="A setting of the Slurm jobs, as partition=gpu, time=120 (minutes) or mem_gb=8; may "
        "be repeated.",
    ),
]
Threads: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Cores for each run. Default: one on a cluster, else a fair share.",
        show_default=False,
    ),
]
Gpus: TypeAlias = Annotated[float, typer.Option(min=0, help="GPUs for each run on a cluster.")]

Mode: TypeAlias = Literal["live", "quiet", "json"]


def mode(quiet: bool, json: bool) -> Mode:
    """How a command speaks."""
    if quiet and json:
        raise SettingError("`--quiet` and `--json` exclude each other: choose one.")
    return "quiet" if quiet else "json" if json else "live"


def gathered(
    config: Path | None, settings: list[str] | None, **options: int | None
) -> dict[str, Any]:
    """Settings by dotted key: of the file, then of `--set`, then of options of their own, whose
    dots are underscores here."""
    from uclearn.runs.resolve import parse_settings, read_file

    found = {} if config is None else read_file(config)
    found |= parse_settings(settings or [])
    own = {key.replace("__", "."): value for key, value in options.items()}
    return found | {key: value for key, value in own.items() if value is not None}


def taken(settings: dict[str, Any], word: str, given: str | None) -> str | None:
    """`benchmark`, `method` or `preset`: the option, else what a file says; out of `settings`."""
    from_file = settings.pop(word, None)
    if from_file is not None and not isinstance(from_file, str):
        raise SettingError(f"`{word}` must be a name in quotes, got {from_file!r}.")
    return given if given is not None else from_file


@dataclass(frozen=True)
class Chosen:
    """Options that choose the settings of runs."""

    epochs: Epochs = None
    tasks: Tasks = None
    preset: Preset = None
    settings: Set = None
    config: Config = None

    def gathered(self) -> dict[str, Any]:
        """Settings by dotted key."""
        return gathered(self.config, self.settings, plan__epochs=self.epochs, tasks=self.tasks)


class Launching:
    """A group of options that say how runs are made."""

    def launch(self: Any) -> Launch:
        """What makes the runs and speaks of them; those at a URL are made in a copy."""
        from uclearn.cli.launch import Launch
        from uclearn.runs.engines import choose

        given = {field.name: getattr(self, field.name) for field in fields(self)}
        spoken = mode(given.pop("quiet"), given.pop("json"))
        folder, remote = _place(str(given.pop("out")))
        where = {key: given.pop(key) for key in _OF_ENGINES if key in given}
        engine = choose(**where) if any(where[key] != _OF_ENGINES[key] for key in where) else None
        return Launch(folder, spoken, engine=engine, remote=remote, **given)


_OF_ENGINES = {"on": "local", "address": None, "slurm": None, "threads": None, "gpus": 0}
"""Options of engines, with their defaults."""


Track: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Show runs elsewhere while they grow: tensorboard, mlflow, wandb, aim.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Acting(Launching):
    """On this machine, without data."""

    out: Out = DEFAULT_OUT
    workers: Workers = None
    track: Track = None
    quiet: Quiet = False
    json: Json = False


@dataclass(frozen=True)
class Making(Launching):
    """On this machine."""

    out: Out = DEFAULT_OUT
    data: DataFolder = None
    workers: Workers = None
    device: Device = None
    track: Track = None
    quiet: Quiet = False
    json: Json = False
    checkpoint_seconds: CheckpointSeconds = 30.0


@dataclass(frozen=True)
class MakingAnywhere(Launching):
    """On this machine or on a cluster."""

    out: OutOrUrl = str(DEFAULT_OUT)
    data: DataFolder = None
    workers: Workers = None
    on: On = "local"
    address: Address = None
    slurm: Slurm = None
    threads: Threads = None
    gpus: Gpus = 0
    track: Track = None
    checkpoint_seconds: CheckpointSeconds = 30.0
    quiet: Quiet = False
    json: Json = False


def _place(out: str) -> tuple[Path, str | None]:
    """The folder of `OutOrUrl`, and the URL if it is one."""
    if ":" in out:
        from uclearn.storage.mirror import is_url

        if is_url(out):
            from uclearn.runs.job import remote_runs

            return remote_runs(out).folder, out
    return Path(out), None


def spelled_out(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer, which knows single options only: each parameter that is a group of
    options (a dataclass) is replaced by the options in it."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if not is_dataclass(group):
            parameters.append(parameter)
            continue
        groups[parameter.name] = group
        hints = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, parameter.kind, default=field.default, annotation=hints[field.name]
            )
            for field in fields(group)
        ]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    called.__annotations__ = {each.name: each.annotation for each in parameters}
    setattr(called, "__signature__", inspect.Signature(parameters))  # noqa: B010
    return called
