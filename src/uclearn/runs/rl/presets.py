"""Settings of reinforcement learning, with their sources, and the configuration made of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from uclearn.errors import SettingError
from uclearn.methods.registry import parts
from uclearn.paper import settings as published
from uclearn.runs.overrides import Groups, Overrides, differences, put_all
from uclearn.runs.parts import part_settings
from uclearn.runs.presets import PRESETS
from uclearn.runs.rl.config import RLConfig, policy_settings, ppo_settings

RL_METHODS = ("finetuning", "ucl", "ewc", "si", "mas", "rwalk")
"""What works while acting. The others need stored examples of a task, or outputs of one kind."""


def rl_groups() -> Groups:
    """The groups of settings beside those of the method."""
    return {"plan": ppo_settings().model_fields, "policy": policy_settings().model_fields}


def rl_document(name: str, method: str, which: str = "paper") -> dict[str, Any]:
    """A whole configuration but the seed, as plain data."""
    if which not in PRESETS:
        raise SettingError(f"`preset` must be one of {', '.join(PRESETS)}, got {which!r}.")
    document: dict[str, Any] = {
        "kind": "rl",
        "benchmark": name,
        "method": method,
        "preset": which,
        "tasks": None,
        "scale": None,
        "plan": ppo_settings()().model_dump(),
        "policy": policy_settings()().model_dump(),
        "settings": {part: part_settings(part)().model_dump() for part in parts(method)},
    }
    for part in parts(method):
        for key, (value, _) in published.RL.get(part, {}).items():
            document["settings"][part][key.partition(".")[2]] = copy.deepcopy(value)
    return document


def resolve_rl(
    name: str,
    method: str,
    *,
    preset: str = "paper",
    seed: int = 0,
    scale: float | None = None,
    overrides: Overrides | None = None,
    methods: Iterable[str] = (),
) -> RLConfig:
    """The configuration of one run.

    Args:
        name: a sequence, or ids of environments with commas.
        method: such as `ucl` or `ewc`.
        preset: `paper`; `best` is the same until something better is found.
        seed: of everything random.
        scale: share of the preset's steps that is left; the run is marked. None: all of them.
        overrides: what is set apart from the preset, by dotted key.
        methods: others that are compared with it: settings of their parts are passed over.

    >>> resolve_rl("classic", "ewc", overrides={"plan.steps_per_task": 50_000}).changed
    ('plan.steps_per_task=50000',)
    """
    if method not in RL_METHODS:
        raise SettingError(
            f"`method` must be one of {', '.join(RL_METHODS)} for reinforcement learning, got "
            f"{method!r}. The others need stored examples of a task."
        )
    original = rl_document(name, method, preset)
    document = copy.deepcopy({**original, "seed": seed, "scale": scale})
    if scale is not None and 0 < scale < 1:
        document["plan"]["steps_per_task"] = _shrunk(document["plan"], scale)
    put_all(document, overrides or {}, rl_groups(), methods)
    document["changed"] = list(differences(original, document))
    return RLConfig.from_document(document)


def _shrunk(plan: dict[str, Any], scale: float) -> int:
    """So many steps, but at least one rollout."""
    rollout: int = plan["environments"] * plan["rollout_steps"]
    wanted: int = round(plan["steps_per_task"] * scale)
    return max(wanted, rollout)
