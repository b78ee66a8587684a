"""The settings of a configuration, as types. They are made from the signatures of what they are
given to (a method's constructor, `Plan`), so no setting is written down twice."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from uclearn.errors import SettingError
from uclearn.methods.registry import METHODS, WRAPPERS, keywords, parts
from uclearn.training.plan import Plan

FROM_THE_RUN = ("seed", "closed_form", "tasks")
"""Keywords of methods that follow from the run: its seed, its loop, its number of tasks."""

_NOT_OF_THE_EXPERIMENT = ("seed", "checkpoint_seconds")
"""Fields of `Plan` that follow from the run, or that change no result."""


class Settings(BaseModel):
    """A group of settings: frozen, nothing unknown, no value bent to fit."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class NetworkSettings(Settings):
    """The network, as far as the benchmark leaves a choice (`uclearn.runs.networks`)."""

    hidden: tuple[int, ...] = ()
    """Width of each hidden layer; empty for the convolutional networks, which are fixed."""
    dropout: float = 0.0
    """After each hidden layer."""
    input_dropout: float = 0.0


class DataSettings(Settings):
    """The data, as far as the benchmark leaves a choice."""

    split_after_augmentation: bool = False
    """Omniglot only: split as the authors did, copies of one drawing standing on both sides."""
    copies: int | None = Field(default=None, ge=0)
    """Omniglot only: how many turned and shifted copies a drawing has; None: the paper's 20."""
    judge: Literal["test", "validation"] = "test"
    """What accuracies are measured on. Tuning must not look at the test data."""


def fields_of(plan: type, left_out: Iterable[str]) -> dict[str, Any]:
    """The fields of a dataclass with their types and defaults, as `create_model` wants them."""
    hints = get_type_hints(plan)
    return {
        field.name: (hints[field.name], field.default)
        for field in dataclasses.fields(plan)
        if field.name not in left_out
    }


@cache
def plan_settings() -> type[Settings]:
    """`Plan` without its seed (the run has one) and without what changes no result.

    >>> plan_settings()().model_dump()["batch_size"]
    256
    """
    fields = fields_of(Plan, _NOT_OF_THE_EXPERIMENT)
    return create_model("PlanSettings", __base__=Settings, **fields)


@cache
def part_settings(part: str) -> type[Settings]:
    """What can be set of a method or a wrapper: its keywords whose values JSON can hold.

    >>> sorted(part_settings("lwf").model_fields)
    ['outputs', 'strength', 'temperature']
    """
    kind = METHODS[part] if part in METHODS else WRAPPERS[part]
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


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], value: object, place: str = "") -> Model:
    """`value` as a `model`; whatever does not fit is one line that begins with its `place`."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise SettingError(first_problem(error, place)) from error


def first_problem(error: ValidationError, place: str = "") -> str:
    """One line that names the setting, what is wrong and the value."""
    problem: Mapping[str, Any] = error.errors(include_url=False)[0]
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, Exception):  # one of our own messages: it says everything
        return " ".join(str(cause).split())
    path = ".".join(str(step) for step in (place, *problem["loc"]) if step != "")
    shown = repr(problem["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    wrong = problem["msg"].replace("Input should be", "must be").replace("\n", " ")
    return f"`{path}`: {wrong}, got {shown}."


def _is_plain(hint: Any) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return all(_is_plain(member) for member in get_args(hint))
    return hint in (bool, int, float, str, types.NoneType) or get_origin(hint) is Literal
