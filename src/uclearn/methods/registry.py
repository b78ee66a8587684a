"""Every method by name. Lists of choices anywhere are generated from here.

Other packages add methods of their own by an entry point, and wrappers likewise:

    [project.entry-points."uclearn.methods"]
    my-method = "my_package.my_module:MyMethod"
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from torch import nn

from uclearn.choices import Registry, no_such
from uclearn.errors import SettingError
from uclearn.methods.baselines import FineTuning, Joint
from uclearn.methods.contract import Method
from uclearn.methods.coreset import WithCoreset
from uclearn.methods.ewc import EWC
from uclearn.methods.facts import Facts
from uclearn.methods.hat import HAT
from uclearn.methods.lwf import LwF, WithLwF
from uclearn.methods.mas import MAS
from uclearn.methods.replay import WithReplay
from uclearn.methods.rwalk import RWalk
from uclearn.methods.si import SI
from uclearn.methods.ucl import UCL
from uclearn.methods.vcl import VCL

MethodClass = Callable[..., Method]


def _checked_class(name: str, found: object) -> MethodClass:
    if isinstance(found, type) and issubclass(found, Method):
        return found
    raise TypeError(f"expected a subclass of uclearn.Method, got {found!r}")


METHODS: Registry[MethodClass] = Registry(
    "uclearn.methods",
    {
        "finetuning": FineTuning,
        "joint": Joint,
        "ucl": UCL,
        "ewc": EWC,
        "si": SI,
        "mas": MAS,
        "rwalk": RWalk,
        "lwf": LwF,
        "vcl": VCL,
        "hat": HAT,
    },
    _checked_class,
)
WRAPPERS: Registry[MethodClass] = Registry(
    "uclearn.wrappers",
    {"coreset": WithCoreset, "replay": WithReplay, "lwf": WithLwF},
    _checked_class,
)
"""Put around any method with a plus: `vcl+coreset`, `ucl+replay`. One that is a method as well has
the same settings."""


def class_of(part: str) -> MethodClass:
    """The class of a method or wrapper."""
    return METHODS[part] if part in METHODS else WRAPPERS[part]


def facts(part: str) -> Facts:
    """What a method or wrapper says about itself.

    >>> facts("joint").holds
    False
    """
    found: Facts = class_of(part).facts  # type: ignore[attr-defined]
    return found


Settings = Mapping[str, Mapping[str, Any]]
"""By part: {"vcl": {"samples": 10}, "coreset": {"size": 200}}."""


def parts(name: str) -> tuple[str, ...]:
    """The parts of a name, the method first.

    >>> parts("vcl+coreset")
    ('vcl', 'coreset')
    """
    method, *wrappers = name.split("+")
    _known("method", method, METHODS)
    for wrapper in wrappers:
        _known("wrapper", wrapper, WRAPPERS)
    return method, *wrappers


def build(name: str, model: nn.Module, example: Any, settings: Settings | None = None) -> Method:
    """The method of that name around a copy of `model`.

    Args:
        name: a method, or a method with wrappers, such as `ucl+replay`.
        model: the plain network.
        example: a small batch of inputs.
        settings: keyword arguments by part; parts that the name lacks are refused.

    >>> type(build("ewc", nn.Linear(2, 2), None, {"ewc": {"strength": 400.0}})).__name__
    'EWC'
    """
    method, *wrappers = parts(name)
    settings = settings or {}
    for part in settings:
        _known("part", part, [method, *wrappers])
    built = METHODS[method](model, example, **_checked(method, settings))
    for wrapper in wrappers:
        built = WRAPPERS[wrapper](built, **_checked(wrapper, settings))
    return built


def by_part(name: str, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each setting for every part of the method that takes it; `build` refuses the rest.

    >>> by_part("ucl+replay", {"beta": 0.01, "size": 100})
    {'ucl': {'beta': 0.01}, 'replay': {'size': 100}}
    """
    every = parts(name)
    found: dict[str, dict[str, Any]] = {every[0]: {}}
    for key, value in settings.items():
        for part in [part for part in every if key in keywords(part)] or every[:1]:
            found.setdefault(part, {})[key] = value
    return found


def keywords(part: str) -> dict[str, inspect.Parameter]:
    """The settings that a method or wrapper takes, with their annotations and defaults.

    >>> "beta" in keywords("ucl")
    True
    """
    found = inspect.signature(class_of(part)).parameters.values()
    return {p.name: p for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}


def _checked(part: str, settings: Settings) -> Mapping[str, Any]:
    given = settings.get(part, {})
    for key in given:
        _known(f"setting of {part}", key, keywords(part))
    for key, known in keywords(part).items():
        if known.default is inspect.Parameter.empty and key not in given:
            raise SettingError(
                f"The method {part} must be told its setting {key!r}: `{key}=...`, on the command "
                f"line `--set {key}=...`."
            )
    return given


def _known(what: str, name: str, choices: Collection[str]) -> None:
    if name not in choices:
        raise SettingError(no_such(what, name, choices))
