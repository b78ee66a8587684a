"""From a preset, a file and `--set key=value` to a configuration. Whatever is wrong is one line."""

from __future__ import annotations

import copy
import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from uclearn.errors import SettingError
from uclearn.methods.registry import METHODS, WRAPPERS, parts
from uclearn.runs.config import RunConfig
from uclearn.runs.parts import DataSettings, NetworkSettings, part_settings, plan_settings
from uclearn.runs.presets import preset_document

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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"The file {path} is not TOML: {error}.") from error
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            flat[key] = value
    return {key: None if value == "none" else value for key, value in flat.items()}


def resolve(
    benchmark: str,
    method: str,
    *,
    preset: str = "best",
    seed: int = 0,
    scale: float | None = None,
    overrides: Overrides | None = None,
    methods: Iterable[str] = (),
) -> RunConfig:
    """The configuration of one run.

    Args:
        benchmark: its name.
        method: such as `ucl` or `vcl+coreset`.
        preset: `best` or `paper`.
        seed: of everything random.
        scale: share of the preset's epochs that is left; the run is marked. None: all of them.
        overrides: what is set apart from the preset, by dotted key.
        methods: others that are compared with it: settings of their parts are passed over.

    >>> config = resolve("split-digits", "ewc", overrides={"plan.epochs": 3, "ewc.strength": 7.0})
    >>> config.changed
    ('plan.epochs=3', 'ewc.strength=7.0')
    """
    original = preset_document(benchmark, method, preset)
    document = copy.deepcopy({**original, "seed": seed, "scale": scale})
    _shrink_epochs(document, scale)
    put_all(document, overrides or {}, supervised(), methods)
    document["changed"] = list(differences(original, document))
    return RunConfig.from_document(document)


Groups = Mapping[str, Iterable[str]]
"""The groups of settings that a kind of run has beside those of its method: their keys."""


def supervised() -> Groups:
    """The groups of a run of supervised learning."""
    return {
        "plan": plan_settings().model_fields,
        "network": NetworkSettings.model_fields,
        "data": DataSettings.model_fields,
    }


def settable(method: str, groups: Groups | None = None) -> list[str]:
    """Every dotted key that can be set for a method; `groups` None: in supervised learning.

    >>> "plan.epochs" in settable("ucl"), "ucl.beta" in settable("ucl")
    (True, True)
    """
    own = {part: part_settings(part).model_fields for part in method.split("+")}
    every = {**(supervised() if groups is None else groups), **own}
    return ["tasks", *(f"{group}.{key}" for group, keys in every.items() for key in keys)]


def put_all(
    document: dict[str, Any], overrides: Overrides, groups: Groups, methods: Iterable[str] = ()
) -> None:
    """Set in the document of a configuration what `overrides` say; settings of other `methods`
    that it is compared with are passed over."""
    method = document["method"]
    others = {part for other in methods for part in parts(other)} - set(parts(method))
    for key, value in overrides.items():
        if key.partition(".")[0] in others:
            _check_key(key, "+".join(sorted(others)), groups)
            continue
        _check_key(key, method, groups)
        group, _, setting = key.rpartition(".")
        if group:
            (document if group in groups else document["settings"])[group][setting] = value
        else:
            document[key] = value


def _check_key(key: str, method: str, groups: Groups) -> None:
    known = settable(method, groups)
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


def _shrink_epochs(document: dict[str, Any], scale: float | None) -> None:
    """Cut everything that counts epochs, down to one at the least."""
    if scale is None or not 0 < scale < 1:  # what is wrong with it, the configuration says
        return
    for settings in (document["plan"], *document["settings"].values()):
        for key, value in settings.items():
            if key.endswith("epochs") and value:
                settings[key] = max(1, round(value * scale))


def differences(original: Any, document: Any, place: str = "") -> Iterable[str]:
    """What was changed, as `key=value`."""
    for key, value in original.items():
        if place == "" and key == "scale":
            continue  # has its own mark
        name = f"{place}{key}"
        if isinstance(value, dict):
            inner = "" if key == "settings" else f"{name}."
            yield from differences(value, document[key], inner)
        elif document[key] != value and list(_listed(document[key])) != list(_listed(value)):
            yield f"{name}={_shown(document[key])}"


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _shown(value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError):  # the configuration will refuse it
        return repr(value)
