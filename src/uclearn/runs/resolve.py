"""From a preset, a file and `--set key=value` to a configuration. Whatever is wrong is one line."""

from __future__ import annotations

import copy
import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from uclearn.errors import SettingError
from uclearn.methods.registry import METHODS, WRAPPERS, parts
from uclearn.runs.config import Configuration, Document, Kind, part_settings
from uclearn.runs.supervised import SUPERVISED
from uclearn.tasks.benchmarks import Named
from uclearn.tasks.benchmarks import benchmark as described

Config = TypeVar("Config", bound=Configuration)

Overrides = Mapping[str, Any]
"""By dotted key, `ucl.beta`, or one of the `WORDS` alone."""

WORDS = ("benchmark", "method", "preset", "seed", "tasks")
"""Keys that stand alone."""

_BARE_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*")


def parse_setting(text: str) -> tuple[str, Any]:
    """`key=value` as key and value. Values are TOML; a single word needs no quotes; none is None.

    >>> parse_setting("ucl.beta=0.01"), parse_setting("ucl.sampling=weight")
    (('ucl.beta', 0.01), ('ucl.sampling', 'weight'))
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise SettingError(
            f"A setting is written `part.key=value`, as `ucl.beta=0.01`, got {text!r}."
        )
    return key, parse_value(value.strip(), key)


def parse_value(text: str, key: str) -> Any:
    """One TOML value, a bare word, or `none`."""
    if text.lower() == "none":
        return None
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        parsed = {}
    if list(parsed) == ["value"]:
        return parsed["value"]
    if _BARE_WORD.fullmatch(text):
        return text
    raise SettingError(
        f'The value of `{_visible(key)}` must be a number, true, false, none, a word, a "quoted '
        f'text" or a [list], got {text!r}.'
    )


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Several `key=value`; of the same key the last counts."""
    return dict(parse_setting(text) for text in texts)


def read_file(path: Path) -> dict[str, Any]:
    """The settings in a TOML file, by dotted key: a table per part, single words at the top; TOML
    has no none, so the word "none" stands for it."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"The file {path} cannot be read: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingError(f"The file {path} is not TOML: {error}.") from error
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            flat[key] = value
    return {key: None if value == "none" else value for key, value in flat.items()}


def preset_text(
    benchmark: Named,
    method: str,
    preset: str,
    settings: Mapping[str, Any],
    remarks: Iterable[str] = (),
) -> str:
    """A file for `read_file`: a comment for each remark, what is learned and how, a table for each
    part.

    >>> print(preset_text("split-digits", "ewc", "best", {"ewc.strength": 40.0}, ["By hand."]))
    # By hand.
    benchmark = "split-digits"
    method = "ewc"
    preset = "best"
    <BLANKLINE>
    [ewc]
    strength = 40.0
    <BLANKLINE>
    """
    words: dict[str, Any] = {"method": method, "preset": preset}
    if isinstance(benchmark, str) or benchmark.source is None:
        words = {"benchmark": described(benchmark).name, **words}
    else:  # where the data lie, and what was said about them
        asked = benchmark.source.asked
        words = {"benchmark": asked.path, **words}
        settings = {**settings, **{f"source.{key}": value for key, value in asked.said().items()}}
    words |= {key: value for key, value in settings.items() if "." not in key}
    lines = [f"# {remark}" for remark in remarks]
    lines += [f"{key} = {_toml(value)}" for key, value in words.items()]
    groups: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        group, dot, setting = key.partition(".")
        if dot:
            groups.setdefault(group, {})[setting] = value
    for group, own in groups.items():
        lines += ["", f"[{group}]", *(f"{key} = {_toml(value)}" for key, value in own.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Numbers, words, true, false and lists look alike in TOML and JSON; TOML has no none."""
    return '"none"' if value is None else json.dumps(value)


def configure(
    kind: Kind[Config],
    benchmark: Named,
    method: str,
    *,
    preset: str | None = None,
    seed: int = 0,
    scale: float | None = None,
    overrides: Overrides | None = None,
    methods: Iterable[str] = (),
) -> Config:
    """The configuration of one run.

    Args:
        kind: of run, such as `uclearn.runs.supervised.SUPERVISED`.
        benchmark: its name, or `uclearn.tasks.own.source.own_data(path)`; in reinforcement learning
            a sequence, or ids of environments with commas.
        method: such as `ucl` or `vcl+coreset`.
        preset: `best` or `paper`; None: the default of the kind.
        seed: of everything random.
        scale: share of the preset's epochs or steps that is left; the run is marked. None: all.
        overrides: what is set apart from the preset, by dotted key.
        methods: others that are compared with it: settings of their parts are passed over.

    >>> chosen = {"plan.epochs": 3, "ewc.strength": 7.0}
    >>> configure(SUPERVISED, "split-digits", "ewc", overrides=chosen).changed
    ('plan.epochs=3', 'ewc.strength=7.0')
    """
    kind.check_method(method)
    original = preset_document(kind, benchmark, method, preset)
    document = copy.deepcopy({**original, "seed": seed, "scale": scale})
    if scale is not None and 0 < scale < 1:  # if it is wrong, the configuration says so
        kind.shrink(document, scale)
    _put_all(document, overrides or {}, kind, methods)
    document["changed"] = list(_differences(original, document))
    return kind.config.from_document(document)


resolve = partial(configure, SUPERVISED)
"""The configuration of one run of supervised learning (see `configure`)."""


def preset_document(
    kind: Kind[Any], benchmark: Named, method: str, preset: str | None = None
) -> Document:
    """A whole configuration but the seed, as plain data: the preset, and defaults elsewhere."""
    which = kind.default_preset if preset is None else preset
    document: Document = {
        "benchmark": benchmark if isinstance(benchmark, str) else benchmark.name,
        "method": method,
        "preset": which,
        "tasks": None,
        "scale": None,
    }
    values = kind.preset(benchmark, method, which)
    for group, settings in kind.groups().items():
        document[group] = (
            {part: part_settings(part)().model_dump() for part in parts(method)}
            if settings is None
            else settings().model_dump()
        )
    for key, (value, _) in values.items():
        group, setting = key.split(".")
        _home(document, group)[setting] = copy.deepcopy(value)
    if not isinstance(benchmark, str) and benchmark.source is not None:
        document["source"] = benchmark.source.document()
    return document


def settable(method: str, kind: Kind[Any] = SUPERVISED) -> list[str]:
    """Every dotted key that can be set for a method.

    >>> "plan.epochs" in settable("ucl"), "ucl.beta" in settable("ucl")
    (True, True)
    """
    every = {name: group for name, group in kind.groups().items() if group is not None}
    every |= {part: part_settings(part) for part in method.split("+")}
    return [
        "tasks",
        *(f"{group}.{key}" for group, settings in every.items() for key in settings.model_fields),
    ]


def _home(document: Document, group: str) -> dict[str, Any]:
    """Where the settings of a group, or of a part of the method, stand."""
    home: dict[str, Any] = (document if group in document else document["settings"])[group]
    return home


def _put_all(
    document: Document, overrides: Overrides, kind: Kind[Any], methods: Iterable[str] = ()
) -> None:
    """Set what `overrides` say; settings of other `methods` that it is compared with are passed
    over."""
    method = document["method"]
    others = {part for other in methods for part in parts(other)} - set(parts(method))
    for key, value in overrides.items():
        if key.partition(".")[0] in others:
            _check_key(key, "+".join(sorted(others)), kind)
            continue
        _check_key(key, method, kind)
        group, _, setting = key.rpartition(".")
        if group:
            _home(document, group)[setting] = value
        else:
            document[key] = value


def _check_key(key: str, method: str, kind: Kind[Any]) -> None:
    known = settable(method, kind)
    if key in known:
        return
    group = key.partition(".")[0]
    if key in WORDS:
        option = {"seed": "--seeds (0, 1, ...)"}.get(key, f"--{key}")
        hint = f"`{key}` has an option of its own, {option}."
    elif group in (*METHODS, *WRAPPERS) and group not in method.split("+"):
        hint = f"`{group}` is no part of the method `{method}`."
    else:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        own = [name for name in known if name.startswith(f"{group}.")] or known
        hint = f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(own)}."
    raise SettingError(f"There is no setting `{_visible(key)}`. {hint}")


def _visible(key: str) -> str:
    """Whatever a user typed, on one line."""
    return repr(key)[1:-1]


def _differences(original: Any, document: Any, place: str = "") -> Iterable[str]:
    """What was changed, as `key=value`."""
    for key, value in original.items():
        if place == "" and key == "scale":
            continue  # has its own mark
        name = f"{place}{key}"
        if isinstance(value, dict):
            inner = "" if key == "settings" else f"{name}."
            yield from _differences(value, document[key], inner)
        elif document[key] != value and list(_listed(document[key])) != list(_listed(value)):
            yield f"{name}={_shown(document[key])}"


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _shown(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError):  # the configuration will refuse it
        return repr(value)
