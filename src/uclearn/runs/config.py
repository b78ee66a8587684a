"""What a run is made from: everything that can change its result, typed and frozen.

It stands in full in the run's `config.json`, and the run can be made again from that alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, Self

import torch
from pydantic import Field, SerializeAsAny, ValidationError, ValidationInfo, field_validator
from pydantic import model_validator as after_validation

from uclearn.errors import SettingError
from uclearn.methods.checks import problem
from uclearn.methods.registry import build, keywords, parts
from uclearn.runs.networks import check_network
from uclearn.runs.parts import (
    FROM_THE_RUN,
    DataSettings,
    NetworkSettings,
    Settings,
    first_problem,
    method_settings,
    plan_settings,
    validated,
)
from uclearn.tasks.benchmarks import benchmark
from uclearn.training.plan import Plan, without_later_defaults

Preset = Literal["best", "paper"]
LARGEST_SEED = 2**31 - 1


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
        return validated(method_settings(info.data["method"]), value)

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
        document["plan"] = without_later_defaults(document["plan"])
        return document

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
        content = {key: value for key, value in self.document().items() if key not in left_out}
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def folder_name(self) -> str:
        """Where below an output folder the run lies; runs that differ in the seed are neighbours.

        >>> from uclearn.runs import resolve
        >>> resolve("split-digits", "ewc", seed=3).folder_name()[:22]
        'split-digits/ewc-best-'
        """
        scaled = "" if self.scale is None else f"-scale{self.scale:g}"
        group = f"{self.method}-{self.preset}{scaled}-{self.fingerprint(with_seed=False)}"
        return f"{self.benchmark}/{group}/seed-{self.seed}"

    def check_method(self) -> None:
        """The constructors know their ranges: let them say so now and not in an hour."""
        build(self.method, problem.network(heads=False), _EXAMPLE, self.keyword_arguments(tasks=1))


class RunConfig(Configuration):
    """One run of supervised learning: a benchmark, a method, a seed, and every setting.

    >>> from uclearn.runs import resolve
    >>> config = resolve("permuted-mnist", "ucl", preset="paper")
    >>> config.setting("ucl", "beta"), config.make_plan().epochs
    (0.03, 100)
    >>> RunConfig.from_json(config.to_json()) == config
    True
    """

    network: NetworkSettings = NetworkSettings()
    data: DataSettings = DataSettings()

    @field_validator("benchmark")
    @classmethod
    def _known_benchmark(cls, name: str) -> str:
        return benchmark(name).name

    @field_validator("plan", mode="before")
    @classmethod
    def _typed_plan(cls, value: object) -> Settings:
        return validated(plan_settings(), value, "plan")

    @after_validation(mode="after")
    def _makes_sense(self) -> Self:
        _check_tasks(self.benchmark, self.tasks)
        check_network(self.benchmark, self.network)
        _check_plan(self.make_plan())
        self.check_method()
        return self

    def task_count(self) -> int:
        """How many tasks are learned."""
        return self.tasks or benchmark(self.benchmark).tasks

    def document(self) -> dict[str, Any]:
        """As it stands in config.json; `copies` came later, and stands there if it was chosen."""
        document = super().document()
        if self.data.copies is None:
            del document["data"]["copies"]
        return document

    def share_done(self, step: Mapping[str, Any]) -> float:
        """How much of the run is over at a `step` event, 0 to 1."""
        within = step["epoch"] + step["batch"] / step["batches"]
        return float((step["task"] + within / self.make_plan().epochs) / self.task_count())

    def news(self, event: str, details: Mapping[str, Any]) -> str:
        """An event in a few words; empty: nothing to tell."""
        if event == "step":
            return f"task {details['task'] + 1}/{self.task_count()} loss {details['loss']:.3f}"
        if event == "evaluation":
            seen = details["scores"][: details["task"] + 1]
            learned = f"{details['task'] + 1}/{self.task_count()}"
            return f"task {learned}, accuracy {sum(seen) / len(seen):.3f}"
        return ""

    def make_plan(self, checkpoint_seconds: float = 30.0) -> Plan:
        """The plan, with the run's seed."""
        return Plan(**self.plan.model_dump(), seed=self.seed, checkpoint_seconds=checkpoint_seconds)


_EXAMPLE = torch.zeros(1, problem.FEATURES)


def _check_tasks(name: str, tasks: int | None) -> None:
    chosen = benchmark(name)
    if tasks is None or (tasks >= 1 and (chosen.free or tasks <= chosen.tasks)):
        return
    bound = "be at least 1" if chosen.free else f"lie between 1 and {chosen.tasks}"
    raise SettingError(f"`tasks` must {bound} for {name}, got {tasks}.")


def _check_plan(plan: Plan) -> None:
    if plan.clip_norm is not None and not plan.clip_norm > 0:
        raise SettingError(
            f"`plan.clip_norm` must be greater than 0, got {plan.clip_norm}. It is the largest "
            "norm of the gradient; none leaves gradients as they are."
        )
    # asked here and not of torch: building an optimiser for the first time takes a second
    for key in ("momentum", "weight_decay"):
        if not getattr(plan, key) >= 0:
            raise SettingError(
                f"`plan.{key}` must be 0 or greater, got {getattr(plan, key)}. It is a setting of "
                "the optimiser."
            )
