"""Names for people: of benchmarks, of methods, and of two that differ only in their settings."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from uclearn.paper.curves import ABLATIONS
from uclearn.paper.numbers import Published
from uclearn.report.settings import (
    Config,
    ablated,
    changed_in,
    data_of,
    epochs_of,
    flatten,
    last_word,
    method_of,
    scale_of,
    source_of,
)
from uclearn.report.words import count, listing, percent

_METHODS = {
    "ucl": "UCL",
    "ewc": "EWC",
    "si": "SI",
    "mas": "MAS",
    "rwalk": "RWalk",
    "lwf": "LwF",
    "vcl": "VCL",
    "hat": "HAT",
    "finetuning": "Fine-tuning",
    "joint": "Joint training",
}
_DATA = {"mnist": "MNIST", "notmnist": "notMNIST", "cifar100": "CIFAR-100", "cifar10": "CIFAR-10"}
_ROBOTS = {"paper": "the paper’s eight robots", "paper-4": "four of the paper’s robots"}
_PRESETS = {"default": "", "paper": "paper", "best": "tuned"}
_WORDS = {
    ("sampling", "local"): "local",
    ("sampling", "weight"): "per batch",
    ("sigma", "None"): "adaptive σ",
    ("once", "True"): "all at once",
    ("hold", "outputs"): "outputs held",
    ("hold", "weights"): "weights held",
}
_NAMES = {"sigma": "σ"}
_ABSENT = object()
_ABLATED = "switches that are off"
# The same for all groups that stand beside each other, or said in another way.
_OF_THE_DATA = {"judge", "split_after_augmentation", "copies"}
_NOT_IN_LABELS = {"benchmark", "method", "scale", "tasks", *_OF_THE_DATA, *ABLATIONS}


def method_name(method: str) -> str:
    """A method as its own paper spells it, where that is known.

    >>> method_name("vcl+coreset")
    'VCL + coreset'
    """
    return " + ".join(_METHODS.get(part, part) for part in method.split("+"))


def in_sentence(label: str) -> str:
    """A label in the middle of a sentence.

    >>> in_sentence("Fine-tuning"), in_sentence("EWC")
    ('fine-tuning', 'EWC')
    """
    capital = label.startswith(("Fine-tuning", "Joint training"))
    return label[0].lower() + label[1:] if capital else label


def benchmark_name(benchmark: str) -> str:
    """A benchmark as a heading.

    >>> benchmark_name("row-permuted-mnist")
    'Row permuted MNIST'
    >>> benchmark_name("rl paper-4")
    'Reinforcement learning, four of the paper’s robots'
    """
    if benchmark.startswith("rl "):
        sequence = benchmark.removeprefix("rl ")
        tasks = map(environment_name, sequence.split(","))
        return f"Reinforcement learning, {_ROBOTS.get(sequence) or ', '.join(tasks)}"
    name = " ".join(_DATA.get(word, word) for word in benchmark.split("-"))
    name = name.replace("CIFAR-10 100", "CIFAR-10/100").replace("cifar", "CIFAR")
    return name[:1].upper() + name[1:] if not name.startswith("not") else name


def environment_name(name: str) -> str:
    """A robot of PyBullet without the words that all of them share; others as they are called.

    >>> environment_name("HopperBulletEnv-v0"), environment_name("Hopper-v5")
    ('Hopper', 'Hopper-v5')
    """
    return name.removesuffix("BulletEnv-v0")


def marks(config: Config) -> list[str]:
    r"""What has to stand beside everything that comes from such a run, so that nobody takes it for
    the full experiment; empty if it is that.

    >>> marks({"scale": 0.05, "data": {"judge": "validation"}})
    ['scaled to 5\xa0%', 'on validation data']
    """
    scale, data = scale_of(config), data_of(config)
    found = [] if scale is None else [_scaled(scale)]
    if source_of(config).get("regression"):
        found.append("share of variance explained (R²)")
    if data.get("judge") == "validation":
        found.append("on validation data")
    if data.get("split_after_augmentation") is True:
        found.append("split after augmentation")
    if data.get("copies") is not None:
        found.append(f"augmented by {data['copies']} copies each")
    return found


def _scaled(scale: float) -> str:
    return f"scaled to {percent(scale, digits=None)}"


_NOT_THE_METHODS = ("tasks=", "plan.epochs=", "plan.steps", "data.")
"""Beginnings of changes that say how long and on what, not by which settings."""


def is_papers(config: Config) -> bool:
    """The method's settings are those of the paper, for however long it was trained.

    >>> is_papers({"preset": "paper", "changed": ["plan.epochs=5"]})
    True
    >>> is_papers({"preset": "paper", "changed": ["ucl.beta=0.3"]})
    False
    """
    changed = [entry for entry in changed_in(config) if not entry.startswith(_NOT_THE_METHODS)]
    return config.get("preset") == "paper" and not changed


def shared_words(configs: Sequence[Config], seeds: Sequence[int]) -> str:
    """What all groups of a comparison have in common, to be said once; `seeds` are how many each
    has.

    >>> both = [{"preset": "paper", "plan": {"epochs": 20}}] * 2
    >>> shared_words(both, [3, 3])
    'All with 20 epochs, 3 seeds and the paper’s settings.'
    """
    epochs = {epochs_of(config) for config in configs} - {None}
    presets = {config.get("preset") for config in configs}
    said = [f"{epochs.copy().pop()} epochs"] if len(epochs) == 1 else []
    said += [count(seeds[0], "seed")] if len(set(seeds)) == 1 else []
    if presets == {"paper"}:
        changed = not all(map(is_papers, configs))
        said.append("the paper’s settings" + (" unless it says otherwise" if changed else ""))
    if presets == {"default"}:
        said.append("settings by rule")
    return f"All with {listing(said)}." if said and len(configs) > 1 else ""


def departures(config: Config, tasks: int, number: Published) -> list[str]:
    """In what a run with `config` that learned `tasks` tasks is not the paper's experiment.

    >>> number = Published(0.945, "Figure 3", tasks=10)
    >>> departures({"preset": "best"}, 10, number)
    ['preset best']
    """
    found = [mark for mark in marks(config) if mark != number.condition]
    if number.condition and number.condition not in marks(config):
        found.append(f"not {number.condition}")
    if tasks != number.tasks:
        found.append(f"{tasks} tasks instead of {number.tasks}")
    epochs = epochs_of(config)
    if epochs is not None and epochs != number.epochs and scale_of(config) is None:
        found.append(f"{epochs} epochs instead of {number.epochs}")
    if config.get("preset") not in (None, "paper"):
        return [*found, f"preset {config['preset']}"]
    said = ("tasks=", "plan.epochs=", "data.")
    return [*found, *(entry for entry in changed_in(config) if not entry.startswith(said))]


def labels(configs: Sequence[Config]) -> list[str]:
    """A name for each of some configurations that stand beside each other, all different.

    The method's name, and where several share it, what tells them apart; what all have in common
    is the heading's to say.

    >>> labels([{"method": "ewc"}, {"method": "ucl", "beta": 0.1}, {"method": "ucl", "beta": 1}])
    ['EWC', 'UCL, beta 0.1', 'UCL, beta 1']
    """
    presets: dict[str, set[str]] = {}
    alike: dict[tuple[str, str], list[Config]] = {}
    for config in configs:
        presets.setdefault(method_of(config), set()).add(str(config.get("preset")))
        alike.setdefault(_kind(config), []).append(config)
    telling = {kind: _telling_names(own) for kind, own in alike.items()}
    made = []
    for config in configs:
        switched_off = [ABLATIONS[name] for name in ablated(config)]
        flat, names = flatten(config), telling[_kind(config)]
        settings = [_setting_words(names[key], flat[key]) for key in names if key in flat]
        several = len(presets[method_of(config)]) > 1
        notes = [*(_preset_note(config) if several else []), *switched_off, *settings]
        name = ", ".join([method_name(method_of(config)), *notes])
        scale = scale_of(config)  # which nobody may overlook
        made.append(name if scale is None else f"{name} ({_scaled(scale)})")
    return _numbered(made)


def differing_keys(configs: Sequence[Config]) -> list[str]:
    """The flattened keys in which `configs` are not all the same, the method's settings first."""
    flat = [flatten(config) for config in configs]
    keys = dict.fromkeys(key for one in flat for key in one)
    differing = [key for key in keys if len({repr(one.get(key, _ABSENT)) for one in flat}) > 1]
    return sorted(differing, key=lambda key: not key.startswith("settings."))


def value_words(value: Any) -> str:
    """A setting as it is shown.

    >>> value_words(0.0001), value_words(None), value_words([400, 400])
    ('0.0001', 'none', '400, 400')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(value_words(entry) for entry in value)
    return str(value)


def _kind(config: Config) -> tuple[str, str]:
    """What has to be told apart by settings."""
    return method_of(config), str(config.get("preset"))


def _preset_note(config: Config) -> list[str]:
    """Where settings come from; by rule is what needs no word."""
    note = _PRESETS.get(str(config.get("preset")), f"preset {config.get('preset')}")
    return [note] if note else []


def _telling_names(alike: Sequence[Config]) -> dict[str, str]:
    """The keys that set some with the same method and preset apart, and what they are called."""
    keys = [key for key in differing_keys(alike) if last_word(key) not in _NOT_IN_LABELS]
    telling = _telling(keys, alike)
    lasts = Counter(last_word(key) for key in keys)
    return {
        key: last_word(key) if lasts[last_word(key)] == 1 else key for key in keys if key in telling
    }


def _setting_words(key: str, value: Any) -> str:
    """A setting and its value in a word or two.

    >>> _setting_words("sampling", "local"), _setting_words("beta", 0.01)
    ('local', 'beta 0.01')
    """
    if key == "epochs":
        return f"{value} epochs"
    return _WORDS.get((key, str(value)), f"{_NAMES.get(key, key)} {value_words(value)}")


def _telling(keys: Sequence[str], rivals: Sequence[Config]) -> list[str]:
    """Few of `keys` by which all rivals can be told apart: first the one that tells most of them
    apart, then the one that does so with those which are still alike, and so on."""
    flat = [flatten(rival) | {_ABLATED: ablated(rival)} for rival in rivals]

    def told_apart(some: Sequence[str]) -> int:
        return len({repr([one.get(key, _ABSENT) for key in some]) for one in flat})

    found = [_ABLATED]
    while True:
        best = max(keys, key=lambda key: told_apart([*found, key]), default=_ABLATED)
        if told_apart([*found, best]) == told_apart(found):
            return found[1:]
        found.append(best)


def _numbered(names: Sequence[str]) -> list[str]:
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} no. {seen[name]}")
    return found
