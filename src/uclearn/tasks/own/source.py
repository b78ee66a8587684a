"""Data of one's own as a benchmark: described once, read again by every run, and held to the
fingerprint of the first time."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from uclearn.errors import DataError, SettingError
from uclearn.tasks.benchmarks import BENCHMARKS, Benchmark
from uclearn.tasks.own.examples import Examples, remembered
from uclearn.tasks.own.files import files_of, kind_of, read
from uclearn.tasks.own.function import FUNCTION, digest_of, is_function, made_by
from uclearn.tasks.own.sequence import lay_out, make_tasks
from uclearn.tasks.sources.dataset import at_home
from uclearn.tasks.sources.folder import MOST_PIXELS
from uclearn.tasks.task import TaskSequence

Scenario = Literal["task", "class", "domain"]
_STRICT = ConfigDict(extra="forbid", strict=True)
_TEST = 0.2


@dataclass(frozen=True)
class Asked:
    """A path, and what was said about it. Columns are of tables, `size` and `grey` of pictures."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    path: str
    split: int | None = None
    """So many classes in each task."""
    permute: int | None = None
    """So many tasks, the features in another order in each."""
    scenario: Scenario | None = None
    """A head for each task, one output layer that grows, or the same classes in every task;
    None: the last where tasks have the same classes, else the first."""
    label: str | None = None
    target: str | None = None
    """Of a regression."""
    task_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    size: int | None = None
    grey: bool = False
    skip_broken: bool = False
    test: float = _TEST
    """Share of the examples."""
    valid: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("split", 2), ("permute", 1), ("size", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise SettingError(f"`--{name}` must be at least {least}, got {value}.")
        if self.size is not None and self.size**2 > MOST_PIXELS:
            raise SettingError(
                f"`--size` must be at most {math.isqrt(MOST_PIXELS)}, as large as a picture may "
                f"be, got {self.size}."
            )
        if self.split is not None and self.permute is not None:
            raise SettingError("`--split` and `--permute` exclude each other: choose one.")
        if self.label is not None and self.target is not None:
            raise SettingError("`--label` names classes, `--target` numbers: choose one.")
        if self.target is not None and self.scenario not in (None, "domain"):
            raise SettingError(
                f"`--scenario` must be domain where numbers are predicted, got {self.scenario}: "
                "one output serves all tasks."
            )
        if self.permute is not None and self.scenario not in (None, "domain"):
            raise SettingError("`--permute` keeps the classes: its scenario is always domain.")
        if not (0 < self.test < 1 and self.valid >= 0 and self.test + self.valid < 1):
            raise SettingError(
                "`--test` and `--valid` must be shares that leave something to train on, got "
                f"{self.test} and {self.valid}."
            )

    def said(self) -> dict[str, Any]:
        """What is not as it would be anyway, but the path."""
        usual = vars(Asked(self.path))
        return {key: value for key, value in vars(self).items() if value != usual[key]}


@dataclass(frozen=True)
class Source:
    """Data of one's own, and what has to be known of them without reading them again."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    asked: Asked
    kind: str
    fingerprint: str
    """Of what was read: other data, another fingerprint; where they lie is no part of it."""
    tasks: tuple[str, ...]
    classes: tuple[int, ...]
    """Of each task; outputs, for regression."""
    heads: bool
    input_shape: tuple[int, ...]
    examples: int
    """In a task, on average."""
    regression: bool = False
    """Whether numbers are predicted."""
    skipped: tuple[str, ...] = ()
    """Files that could not be read and were left out, as asked."""

    @property
    def name(self) -> str:
        """Of the benchmark: other data or other tasks, another name, so that nothing is mixed."""
        said = {**self.document(), "asked": {**self.asked.said(), "path": ""}}
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:6]
        return f"{stem(self.asked.path)}-{digest}"

    def document(self) -> dict[str, Any]:
        """As it stands in a configuration: what is as usual is left out."""
        plain = json.loads(json.dumps(asdict(self)))
        said = json.loads(json.dumps(self.asked.said()))
        return {**plain, "asked": {"path": self.asked.path, **said}}

    def benchmark(self) -> Benchmark:
        """What every command takes."""
        return Benchmark(
            name=self.name,
            description=f"{self.kind}: {self.asked.path}",
            tasks=len(self.tasks),
            classes=self.classes,
            heads=self.heads,
            input_shape=self.input_shape,
            build=self.build,
            source=self,
        )

    def build(self, seed: int, folder: str | Path | None, tasks: int) -> TaskSequence:
        """The first `tasks` tasks, from the files, if these are what they were."""
        if self.kind == FUNCTION:
            made = made_by(self.asked.path, seed)
            self._check(digest_of(made if seed == 0 else made_by(self.asked.path, 0)))
            return TaskSequence(self.name, made.tasks, made.heads).take(tasks)
        examples, found = read_own(self.asked)
        self._check(found)
        layout = lay_out(examples, self.asked)
        return make_tasks(examples, layout, self.asked, self.name, seed).take(tasks)

    def _check(self, found: str) -> None:
        if found != self.fingerprint:
            raise DataError(
                f"The data in {self.asked.path} have changed since this run was begun (fingerprint "
                f"{self.fingerprint}, now {found}). Put the old ones back to go on with it; the "
                "command that began it, given again, makes new runs of the new data."
            )


def own_data(path: str | Path, **said: Any) -> Benchmark:
    """Data of one's own as a benchmark, for `uclearn.runs.resolve` and whatever else takes one.

    Args:
        path: a folder of pictures, an `.npz`, `.csv` or `.parquet` file, a data set that Hugging
            Face `datasets` saved to disk, or `module:function`.
        said: see `Asked`, whose names these are: `split=2`, `permute=10`, `label="kind"`, ...
    """
    known = {field.name for field in fields(Asked)} - {"path"}
    if unknown := sorted(said.keys() - known):
        raise SettingError(
            f"There is no option `{unknown[0]}` of data of one's own. Known: "
            f"{', '.join(sorted(known))}."
        )
    lists: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in said.items()}
    asked = Asked(_absolute(str(path)), **lists)
    if is_function(asked.path):
        return _from_function(asked)
    examples, fingerprint = read_own(asked)
    layout = lay_out(examples, asked)
    first = make_tasks(examples, layout, asked, "", seed=0)
    return Source(
        asked=asked,
        kind=kind_of(asked.path),
        fingerprint=fingerprint,
        tasks=layout.names,
        classes=tuple(count or 1 for count in layout.classes),
        heads=layout.heads,
        input_shape=first.input_shape,
        examples=sum(len(task.train) for task in first) // len(first),
        regression=asked.target is not None,
        skipped=examples.skipped,
    ).benchmark()


def _from_function(asked: Asked) -> Benchmark:
    if asked.said():
        option = "--" + next(iter(asked.said())).replace("_", "-")
        raise SettingError(f"`{option}` says nothing about {asked.path}, which makes tasks itself.")
    made = made_by(asked.path, seed=0)
    return Source(
        asked=asked,
        kind=FUNCTION,
        fingerprint=digest_of(made),
        tasks=tuple(task.name for task in made),
        classes=tuple(count or 1 for count in made.classes),
        heads=made.heads,
        input_shape=made.input_shape,
        examples=sum(len(task.train) for task in made) // len(made),
        regression=made.classes[0] is None,
    ).benchmark()


def read_own(asked: Asked) -> tuple[Examples, str]:
    """The examples, from the files or from the cache, and their fingerprint."""
    path = Path(asked.path)
    reading = {k: v for k, v in asked.said().items() if k not in _OF_TASKS}
    return remembered(path, files_of(path), sorted(reading.items()), lambda: read(asked))


_OF_TASKS = ("split", "permute", "scenario", "test", "valid")
"""What does not change how files are read."""


def named(name: str, said: Mapping[str, Any] | None = None) -> str | Benchmark:
    """What a word on the command line stands for: the name of a benchmark, or data of one's own."""
    given = {key: value for key, value in (said or {}).items() if value not in (None, (), [])}
    own = name not in BENCHMARKS and (_is_path(name) or bool(given))
    if not own:
        if given:
            raise SettingError(
                f"{', '.join(f'`{key}`' for key in given)}: only for data of one's own, and {name} "
                "is a benchmark. Leave it out, or write the path of a folder as ./NAME."
            )
        return name
    return own_data(name, **given)


def _is_path(name: str) -> bool:
    return at_home(name).exists() or "/" in name or ":" in name or "." in name


def stem(path: str) -> str:
    """A name for what lies at `path`, fit for a folder.

    >>> stem("/data/my pictures"), stem("tables.of_mine:make")
    ('my-pictures', 'make')
    """
    last = path.rpartition(":")[2] if ":" in path else Path(path).stem
    return re.sub(r"[^A-Za-z0-9_]+", "-", last).strip("-") or "own"


def _absolute(path: str) -> str:
    if is_function(path):
        return path
    try:
        return str(at_home(path).resolve())
    except (RuntimeError, OSError, ValueError) as error:  # links in a circle, a name of no file
        raise DataError(
            f"{path!r}: expected the path of data of your own, found none ({error})."
        ) from error
