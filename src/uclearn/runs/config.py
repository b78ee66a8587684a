"""What a run is made from: everything that can change its result, typed and frozen.

It stands in full in the run's `config.json`, and the run can be made again from that alone. Groups
of settings are made from the signatures of what they are given to (a method's constructor, a plan),
so no setting is written down twice.

A `Kind` is all that sets supervised and reinforcement learning apart: its configuration, its
presets, how it learns, what its summary says (see `supervised` and `rl`). Everything else (jobs,
grids, engines, records, commands) knows no difference.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)

from uclearn.choices import check_choice
from uclearn.errors import SettingError
from uclearn.methods.registry import build, class_of, facts, keywords, parts
from uclearn.networks import mlp
from uclearn.paper.settings import Values
from uclearn.storage.records import ADDED_LATER, without_later_defaults

if TYPE_CHECKING:
    from uclearn.methods.contract import Method
    from uclearn.runs.job import Job
    from uclearn.session import Journal, Observer
    from uclearn.tasks.sources.dataset import DataSet

Preset = Literal["default", "best", "paper"]
PRESETS: tuple[str, ...] = get_args(Preset)
LARGEST_SEED = 2**31 - 1


def check_preset(name: str) -> None:
    """Refuse a preset that there is not."""
    check_choice("preset", name, PRESETS)


FROM_THE_RUN = ("seed", "closed_form", "tasks")
"""Keywords of methods that follow from the run: its seed, its loop, its number of tasks."""


class Settings(BaseModel):
    """A group of settings: frozen, nothing unknown, no value bent to fit."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


@cache
def settings_of(plan: type, *left_out: str) -> type[Settings]:
    """A plan's fields with their types and defaults, but those that follow from the run or that
    change no result."""
    hints = get_type_hints(plan)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], field.default)
        for field in dataclasses.fields(plan)
        if field.name not in left_out
    }
    return create_model(f"{plan.__name__}Settings", __base__=Settings, **fields)


@cache
def part_settings(part: str) -> type[Settings]:
    """What can be set of a method or a wrapper: its keywords whose values JSON can hold.

    >>> sorted(part_settings("lwf").model_fields)
    ['outputs', 'strength', 'temperature']
    """
    kind = class_of(part)
    hints = get_type_hints(kind.__init__)
    fields: dict[str, Any] = {
        name: (hints[name], ... if keyword.default is inspect.Parameter.empty else keyword.default)
        for name, keyword in keywords(part).items()
        if name not in FROM_THE_RUN and _is_plain(hints[name])
    }
    return create_model(f"{kind.__name__}Settings", __base__=Settings, **fields)


@cache
def method_settings(method: str) -> type[Settings]:
    """The settings of all parts of a method, by part.

    >>> list(method_settings("vcl+coreset").model_fields)
    ['vcl', 'coreset']
    """
    fields: dict[str, Any] = {
        part: (part_settings(part), Field(default_factory=part_settings(part)))
        for part in parts(method)
    }
    return create_model("MethodSettings", __base__=Settings, **fields)


def announced(part: str, name: str) -> Values:
    """What a method or wrapper says itself about its settings on a benchmark."""
    known = facts(part).presets
    values = {**known.get("*", {}), **known.get(name, {})}
    return {f"{part}.{key}": (value, f"{part} itself") for key, value in values.items()}


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], value: object, place: str = "") -> Model:
    """`value` as a `model`; whatever does not fit is one line that begins with its `place`."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise SettingError(first_problem(error, place)) from error


_KINDS = ("float", "int", "str", "bool")
_WISH = "Input should be "


def first_problem(error: ValidationError, place: str = "") -> str:
    """One line that names the setting, what is wrong and the value."""
    problems: Sequence[Mapping[str, Any]] = error.errors(include_url=False)
    first = problems[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, Exception):  # one of our own messages: it says everything
        return " ".join(str(cause).split())
    path = _path(first, place)
    same = [problem for problem in problems if _path(problem, place) == path]
    wishes = list(dict.fromkeys(problem["msg"].replace("\n", " ") for problem in same))
    if all(wish.startswith(_WISH) for wish in wishes):  # each kind that it may have wants its own
        wrong = "must be " + " or ".join(wish.removeprefix(_WISH) for wish in wishes)
    else:
        wrong = wishes[0]
    shown = repr(first["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"`{path}`: {wrong}, got {shown}."


def _path(problem: Mapping[str, Any], place: str) -> str:
    steps = [str(step) for step in (place, *problem["loc"]) if step != ""]
    while len(steps) > 1 and (steps[-1] in _KINDS or steps[-1].startswith("literal[")):
        del steps[-1]  # a setting of several kinds, such as a number or "auto": which one was tried
    return ".".join(steps)


def _with_later(part: str, settings: object) -> object:
    return {**ADDED_LATER.get(part, {}), **settings} if isinstance(settings, Mapping) else settings


def _is_plain(hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return all(_is_plain(member) for member in get_args(hint))
    return hint in (bool, int, float, str, types.NoneType) or get_origin(hint) is Literal


class Configuration(Settings):
    """What the configurations of all kinds of runs share: a method, a seed, and every setting."""

    benchmark: str
    """The name of what is learned."""
    method: str
    """A method, or one with wrappers: `vcl+coreset`."""
    preset: Preset = "best"
    """Where the values come from that nobody changed."""
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    """Of everything random: tasks, weights, noise, order."""
    tasks: int | None = None
    """Only the first so many; None: all."""
    scale: float | None = Field(default=None, gt=0, lt=1)
    """A mark: to save time, the run was cut to this share of the preset's; None: it was not."""
    plan: SerializeAsAny[Settings]
    settings: SerializeAsAny[Settings]
    """By part of the method."""
    changed: tuple[str, ...] = ()
    """A note for readers: what differs from the preset, as `key=value`."""

    @field_validator("method")
    @classmethod
    def _known_method(cls, name: str) -> str:
        return "+".join(parts(name))

    @field_validator("settings", mode="before")
    @classmethod
    def _typed_settings(cls, value: object, info: ValidationInfo) -> Settings:
        if "method" not in info.data:  # refused already; that is the error to show
            return Settings()
        if isinstance(value, Mapping):  # a run that is older than a setting had its value of then
            value = {part: _with_later(part, own) for part, own in value.items()}
        return validated(method_settings(info.data["method"]), value)

    def kind_of_run(self) -> Any:
        """The `Kind` that it belongs to."""
        raise NotImplementedError

    def task_count(self) -> int:
        """How many tasks are learned."""
        raise NotImplementedError

    def share_done(self, step: Mapping[str, Any]) -> float:
        """How much of the run is over at a `step` event, 0 to 1."""
        raise NotImplementedError

    def news(self, event: str, details: Mapping[str, Any]) -> str:
        """An event in a few words; empty: nothing to tell."""
        raise NotImplementedError

    def setting(self, part: str, key: str) -> Any:
        """One setting of a part of the method."""
        return getattr(getattr(self.settings, part), key)

    def keyword_arguments(self, tasks: int) -> dict[str, dict[str, Any]]:
        """What the parts of the method are built with, by part: the settings, and what follows
        from the run (its seed, the number of tasks, a loop that lets penalties be closed forms)."""
        from_the_run = dict(zip(FROM_THE_RUN, (self.seed, True, tasks), strict=True))
        return {
            part: {
                **{key: from_the_run[key] for key in keywords(part) if key in from_the_run},
                **chosen,
            }
            for part, chosen in self.settings.model_dump().items()
        }

    def document(self) -> dict[str, Any]:
        """As it stands in config.json."""
        document: dict[str, Any] = self.model_dump(mode="json")
        for home in (document, document["settings"]):
            for part in ADDED_LATER.keys() & home.keys():
                home[part] = without_later_defaults(part, home[part])
        return document

    def content(self) -> dict[str, Any]:
        """The part of it that its fingerprint stands for."""
        return self.document()

    def to_json(self) -> str:
        """On one line, the keys in order."""
        return json.dumps(self.document(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Back from `to_json`, or from a document in config.json."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise SettingError(first_problem(error)) from error

    @classmethod
    def from_document(cls, document: object) -> Self:
        """From plain dicts and lists, such as a config.json or a TOML file hold."""
        try:
            text = json.dumps(document)
        except (TypeError, ValueError) as error:
            raise SettingError(f"A configuration holds only what JSON can: {error}.") from error
        return cls.from_json(text)

    def fingerprint(self, *, with_seed: bool = True) -> str:
        """Ten hexadecimal digits that stand for everything but the note of what was changed."""
        left_out = {"changed"} if with_seed else {"changed", "seed"}
        content = {key: value for key, value in self.content().items() if key not in left_out}
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def folder_name(self) -> str:
        """Where below an output folder the run lies; runs that differ in the seed are neighbours.

        >>> from uclearn.runs import resolve
        >>> resolve("split-digits", "ewc", seed=3).folder_name()[:25]
        'split-digits/ewc-default-'
        """
        scaled = "" if self.scale is None else f"-scale{self.scale:g}"
        group = f"{self.method}-{self.preset}{scaled}-{self.fingerprint(with_seed=False)}"
        return f"{self.benchmark}/{group}/seed-{self.seed}"

    def check_method(self) -> None:
        """The constructors know their ranges: let them say so now and not in an hour."""
        network, example = mlp(2, (2,), 2), torch.zeros(1, 2)
        build(self.method, network, example, self.keyword_arguments(tasks=1))


Document = dict[str, Any]
"""A configuration as plain data."""


@dataclasses.dataclass(frozen=True)
class Learned:
    """What a run found: the part of its summary that depends on the kind."""

    method: Method
    seconds: float
    accuracy_matrix: Sequence[Sequence[float]] = ()
    average_accuracy: float | None = None
    forgetting: float | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


Config = TypeVar("Config", bound=Configuration, covariant=True)


@dataclasses.dataclass(frozen=True)
class Kind(Generic[Config]):
    """One kind of run."""

    name: str
    config: type[Config]
    groups: Callable[[], Mapping[str, type[Settings] | None]]
    """Groups of settings in the order in which they are shown; None: here are the method's own."""
    preset: Callable[[Any, str, str], Values]
    """(benchmark, method, preset) -> by dotted key what the preset says, with sources."""
    default_preset: str
    shrink: Callable[[Document, float], None]
    """Leaves a share of the epochs or steps."""
    check_method: Callable[[str], object]
    """Refuses a method that does not work in this kind of run."""
    absent_data: Callable[[Any, Path | None], Sequence[DataSet]]
    """(configuration, folder) -> the data sets that it needs and the folder lacks."""
    learn: Callable[[Any, Job, Journal | None, Observer | None], Learned]
    """(its configuration, ...): goes through with it, from its checkpoint if there is one."""
    seconds: Callable[[Any, Path | None], float]
    """(configuration, folder of the data) -> about how long it takes (see `runs.estimate`)."""
    command: str
    """What makes such runs, without `uclearn`."""
    many_processes: bool
    """Whether several processes can learn one model (`uclearn.ranks`)."""


def read_config(document: Mapping[str, Any]) -> Configuration:
    """The configuration in a document, such as config.json holds; one of reinforcement learning
    says so in its `kind`."""
    if document.get("kind") == "rl":
        from uclearn.runs.rl import RLConfig

        return RLConfig.from_document(document)
    from uclearn.runs.supervised import RunConfig

    return RunConfig.from_document(document)
