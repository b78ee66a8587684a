"""Reinforcement learning as a kind of run: its configuration, presets, and what it finds."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal, Self, get_type_hints

import torch
from pydantic import SerializeAsAny, create_model, field_validator
from pydantic import model_validator as after_validation

from uclearn.errors import SettingError
from uclearn.methods.contract import Method
from uclearn.methods.registry import METHODS, build, facts, parts
from uclearn.paper import settings as published
from uclearn.paper.settings import Values
from uclearn.rl.catalogue import sequence
from uclearn.rl.evaluate import random_return
from uclearn.rl.pace import seconds_per_step
from uclearn.rl.plan import PPOPlan
from uclearn.rl.policy import ActorCritic
from uclearn.rl.session import learn
from uclearn.rl.tasks import widest
from uclearn.runs.config import (
    Configuration,
    Document,
    Kind,
    Learned,
    Settings,
    announced,
    check_preset,
    settings_of,
    validated,
)
from uclearn.runs.job import Job
from uclearn.runs.resolve import configure
from uclearn.session import Journal, Observer

PLAN_SETTINGS = settings_of(PPOPlan, "seed", "workers")
_FROM_THE_TASKS = ("self", "width", "seed")
"""Arguments of `ActorCritic` that follow from the run."""


@cache
def policy_settings() -> type[Settings]:
    """What can be chosen of the policy network.

    >>> policy_settings()().model_dump()["activation"]
    'tanh'
    """
    hints = get_type_hints(ActorCritic.__init__)
    fields: dict[str, Any] = {
        name: (tuple[int, ...] if name == "hidden" else hints[name], parameter.default)
        for name, parameter in inspect.signature(ActorCritic.__init__).parameters.items()
        if name not in _FROM_THE_TASKS
    }
    return create_model("PolicySettings", __base__=Settings, **fields)


class RLConfig(Configuration):
    """One run of reinforcement learning: a sequence of environments, a method, a seed, and every
    setting. `benchmark` is a named sequence or ids of environments with commas between them."""

    kind: Literal["rl"] = "rl"
    policy: SerializeAsAny[Settings]

    @field_validator("benchmark")
    @classmethod
    def _known_sequence(cls, name: str) -> str:
        sequence(name)
        return name

    @field_validator("plan", mode="before")
    @classmethod
    def _typed_plan(cls, value: object) -> Settings:
        return validated(PLAN_SETTINGS, value, "plan")

    @field_validator("policy", mode="before")
    @classmethod
    def _typed_policy(cls, value: object) -> Settings:
        if isinstance(value, Mapping):  # JSON has lists only
            value = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return validated(policy_settings(), value, "policy")

    @after_validation(mode="after")
    def _makes_sense(self) -> Self:
        known = len(sequence(self.benchmark))
        if self.tasks is not None and not 1 <= self.tasks <= known:
            raise SettingError(
                f"`tasks` must lie between 1 and {known} for {self.benchmark}, got {self.tasks}."
            )
        self.make_plan()
        self.make_policy(width=1)
        self.check_method()
        return self

    def environments(self) -> tuple[str, ...]:
        """The tasks, by the ids of their environments."""
        return sequence(self.benchmark)[: self.tasks]

    def make_plan(self, workers: int = 2) -> PPOPlan:
        """The plan, with the run's seed."""
        return PPOPlan(**self.plan.model_dump(), seed=self.seed, workers=workers)

    def make_policy(self, width: int) -> ActorCritic:
        """The network, for observations of up to `width` numbers."""
        return ActorCritic(width, seed=self.seed, **self.policy.model_dump())

    def kind_of_run(self) -> Kind[RLConfig]:
        """Reinforcement learning."""
        return RL

    def task_count(self) -> int:
        """How many tasks are learned."""
        return len(self.environments())

    def share_done(self, step: Mapping[str, Any]) -> float:
        """How much of the run is over at a `step` event, 0 to 1."""
        return float(step["progress"])

    def news(self, event: str, details: Mapping[str, Any]) -> str:
        """An event in a few words; empty: nothing to tell."""
        if event == "step":
            place = f"task {details['task'] + 1}/{self.task_count()}"
            return f"{place} {details['steps_per_second']:,.0f} steps/s"
        if event == "evaluation":
            returns = ", ".join(f"{value:.0f}" for value in details["means"])
            return f"task {details['task'] + 1}/{self.task_count()}, returns {returns}"
        return ""

    def alone(self) -> list[RLConfig]:
        """What returns are measured by: for each environment a fresh network that learns it alone,
        with the same plan and policy; none for a sequence of one."""
        if self.task_count() == 1:
            return []
        shared = {key: self.document()[key] for key in ("plan", "policy", "seed", "scale")}
        changed = [note for note in self.changed if note.startswith(("plan.", "policy."))]
        made = {"method": "finetuning", "preset": RL.default_preset, "changed": changed}
        settings: Document = {"finetuning": {}}
        return [
            RLConfig.from_document({"benchmark": name, "settings": settings, **made, **shared})
            for name in self.environments()
        ]

    def folder_name(self) -> str:
        """Where below an output folder the run lies."""
        return f"rl-{super().folder_name().replace(',', '-').replace(':', '-')}"


def preset(name: str, method: str, which: str = "paper") -> Values:
    """What a preset says, by dotted key, each value with its source; `best` is the same as `paper`
    until something better is found, `default` has methods by rule. The plan's and the policy's
    defaults are the paper's."""
    check_preset(which)
    values: Values = {}
    for part in parts(method):
        if which != "default":
            values |= published.RL.get(part, {})
        values |= published.NORMLESS.get(part, {}) | announced(part, "rl")
    return values


def rl_methods() -> list[str]:
    """What works while acting. The others need stored examples of a task, or outputs of one kind.

    >>> "ucl" in rl_methods(), "joint" in rl_methods()
    (True, False)
    """
    return [name for name in METHODS.sound()[0] if facts(name).works_in_rl]


def check_method(method: str) -> None:
    """Refuse what cannot learn while acting."""
    if method not in METHODS or not facts(method).works_in_rl:
        raise SettingError(
            f"`method` must be one of {', '.join(rl_methods())} for reinforcement learning, got "
            f"{method!r}. The others need stored examples of a task."
        )


def shrink_steps(document: Document, scale: float) -> None:
    """Leave the share `scale` of the steps, but at least one rollout."""
    plan = document["plan"]
    rollout = plan["environments"] * plan["rollout_steps"]
    plan["steps_per_task"] = max(round(plan["steps_per_task"] * scale), rollout)


def with_references(configs: Sequence[RLConfig]) -> list[RLConfig]:
    """The runs, and those that their returns are measured by (see `RLConfig.alone`), seed by seed:
    what is stopped half-way can be measured."""
    every = [*configs, *(one for config in configs for one in config.alone())]
    once = {config.fingerprint(): config for config in every}.values()
    return sorted(once, key=lambda config: config.seed)


def build_method(config: RLConfig) -> Method:
    """The method around a policy that is wide enough for all tasks."""
    width = widest(config.environments())
    settings = config.keyword_arguments(tasks=config.task_count())
    return build(config.method, config.make_policy(width), torch.zeros(2, width), settings)


def learn_sequence(
    config: RLConfig, job: Job, journal: Journal | None, observer: Observer | None
) -> Learned:
    """Learn the environments of a configuration; what was found, for the run's summary."""
    method, plan = build_method(config), config.make_plan(job.threads or 2)
    outcome = learn(
        method,
        config.environments(),
        plan,
        folder=job.folder,
        journal=journal,
        observer=observer,
    )
    return Learned(
        method=method,
        seconds=outcome.seconds,
        extra={
            "task_names": list(config.environments()),
            "rewards": {
                "task": [found.task for found in outcome.evaluations],
                "steps": [found.steps for found in outcome.evaluations],
                "returns": [[round(v, 3) for v in means] for means in outcome.curve()],
                "random": [
                    round(random_return(name, plan, config.seed), 3)
                    for name in config.environments()
                ],
            },
        },
    )


def acting_seconds(config: RLConfig, data: object = None) -> float:
    """About how long a run takes, without judging."""
    plan = config.make_plan()
    paces = seconds_per_step(build_method(config), config.environments(), plan)
    return sum(paces) * plan.iterations * plan.rollout_size


RL = Kind(
    name="rl",
    config=RLConfig,
    groups=lambda: {"plan": PLAN_SETTINGS, "policy": policy_settings(), "settings": None},
    preset=preset,
    default_preset="paper",
    shrink=shrink_steps,
    check_method=check_method,
    absent_data=lambda config, folder: [],
    learn=learn_sequence,
    seconds=acting_seconds,
    command="rl run",
    many_processes=False,
)

resolve_rl = partial(configure, RL)
"""The configuration of one run of reinforcement learning (see `configure`)."""
