"""A run's configuration: what is read of it, and how it is taken apart.

Nothing here demands that a key is there, so that a run from a user's own script is shown as well
as one from the command line.
"""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from uclearn.paper.curves import ABLATIONS

Config: TypeAlias = Mapping[str, Any]


def benchmark_of(config: Config) -> str:
    """The name of the benchmark; a sequence of environments has `rl ` before it."""
    name = str(config.get("benchmark") or "unnamed benchmark")
    return f"rl {name}" if config.get("kind") == "rl" else name


def method_of(config: Config) -> str:
    """The name of the method."""
    return str(config.get("method") or "unnamed method")


def seed_of(config: Config) -> int:
    """The seed; 0 if the run says none."""
    return int(config.get("seed") or 0)


def scale_of(config: Config) -> float | None:
    """What part of the full experiment was run; None: all of it."""
    scale = config.get("scale")
    return None if scale is None else float(scale)


def epochs_of(config: Config) -> int | None:
    """How many passes over each task's data were planned; None if the run does not say."""
    epochs: int | None = (config.get("plan") or {}).get("epochs")
    return epochs


def data_of(config: Config) -> Config:
    """What the run was measured on, as far as there is a choice."""
    data = config.get("data")
    return data if isinstance(data, Mapping) else {}


def source_of(config: Config) -> Config:
    """Where data of one's own come from; empty for a benchmark that everybody knows."""
    source = config.get("source")
    return source if isinstance(source, Mapping) else {}


def changed_in(config: Config) -> list[str]:
    """What was set apart from the preset, as `key=value`; none if the run does not say."""
    return [str(entry) for entry in config.get("changed") or ()]


def without_seed(config: Config) -> dict[str, Any]:
    """All that makes two runs repetitions of one experiment: everything but seeds, at any depth,
    but the note of what differs from the preset, which repeats what is said elsewhere, and but the
    place where data of one's own lie, whose fingerprint says which they are.

    >>> without_seed({"seed": 3, "plan": {"seed": 3, "epochs": 2}, "changed": ["plan.epochs=2"]})
    {'plan': {'epochs': 2}}
    """
    found = {key: value for key, value in _without_seeds(config).items() if key != "changed"}
    if source := source_of(config):
        found["source"] = {**source, "asked": {**source["asked"], "path": ""}}
    return found


def _without_seeds(config: Config) -> dict[str, Any]:
    return {
        key: _without_seeds(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key != "seed"
    }


def fingerprint(config: Config) -> str:
    """Equal for two configurations exactly if they differ in nothing but the seed."""
    return json.dumps(without_seed(config), sort_keys=True)


def flatten(config: Config, prefix: str = "") -> dict[str, Any]:
    """All settings on one level, with dots in the keys.

    >>> flatten({"settings": {"ucl": {"beta": 0.03}}})
    {'settings.ucl.beta': 0.03}
    """
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def last_word(key: str) -> str:
    """Of a key with dots: the setting's own name."""
    return key.rpartition(".")[2]


def ablated(config: Config) -> list[str]:
    """Which of UCL's switches are off, by name.

    >>> ablated({"method": "ucl", "settings": {"ucl": {"freeze": False, "inflate": True}}})
    ['freeze']
    """
    if "ucl" not in method_of(config).split("+"):
        return []
    off = {last_word(key) for key, value in flatten(config).items() if value is False}
    return [name for name in ABLATIONS if name in off]


def whole_ucl(config: Config) -> str:
    """The fingerprint of the same configuration with all of UCL's switches on."""
    flat = flatten(without_seed(config))
    return fingerprint(flat | {key: True for key in flat if last_word(key) in ABLATIONS})
