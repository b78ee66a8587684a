"""What a search for settings tried: which settings, in which levels, how they did, what is level
with the best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from uclearn.measures.statistics import LEVEL, is_level, share_explained
from uclearn.report.groups import Comparison, Group
from uclearn.report.labels import differing_keys, value_words
from uclearn.report.settings import flatten, last_word

_FEWEST = 4
"""Settings of a method that make a search."""
_MOST_LEVELS = 8
_BINS = 5


@dataclass(frozen=True)
class Setting:
    """One setting that was varied: its name, and of each group the number of its level."""

    name: str
    levels: Sequence[str]
    """In ascending order; of very many values, ranges of them."""
    of: Sequence[int]


@dataclass(frozen=True)
class Search:
    """The groups of one method that differ in their settings, the best first."""

    groups: Sequence[Group]
    keys: Sequence[str]

    @cached_property
    def values(self) -> list[float]:
        """How accurate each group is."""
        return [group.accuracy.mean for group in self.groups if group.accuracy is not None]

    @cached_property
    def level(self) -> list[bool]:
        """Which groups are level with the best, itself too."""
        best = self.groups[0]
        return [g is best or is_level(best.accuracies, g.accuracies) for g in self.groups]

    @property
    def level_words(self) -> str:
        """What being level means here."""
        if len(self.groups[0].runs) == 1:
            return f"closer than {100 * LEVEL:g} points, with one seed"
        return "not told apart by its seeds, with 95 % confidence"

    @cached_property
    def settings(self) -> list[tuple[Setting, float]]:
        """What was varied, with the share of the differences that goes with it alone, the most
        important first."""
        flat = [flatten(group.config) for group in self.groups]
        found = _merged([_setting(key, [one.get(key) for one in flat]) for key in self.keys])
        pairs = [(setting, share_explained(setting.of, self.values)) for setting in found]
        return sorted(pairs, key=lambda pair: -pair[1])


def searches(comparison: Comparison) -> list[Search]:
    """One for each method of which enough settings were tried."""
    found = []
    for own in comparison.by_method.values():
        groups = [group for group in own if group.accuracy is not None]
        keys = differing_keys([group.config for group in groups])
        if len(groups) >= _FEWEST and keys:
            found.append(Search(groups, keys))
    return found


def _merged(settings: Sequence[Setting]) -> list[Setting]:
    """Settings that were only changed together are one."""
    found: dict[tuple[int, ...], Setting] = {}
    for one in settings:
        numbers: dict[int, int] = {}
        same = tuple(numbers.setdefault(number, len(numbers)) for number in one.of)
        first = found.get(same)
        found[same] = one if first is None else replace(first, name=f"{first.name}, {one.name}")
    return list(found.values())


def _setting(key: str, values: Sequence[Any]) -> Setting:
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values) and len(set(numbers)) > _MOST_LEVELS:
        return _binned(key, numbers)
    kinds = sorted(
        {repr(value): value for value in values}.values(),
        key=lambda v: (not isinstance(v, int | float), v if isinstance(v, int | float) else str(v)),
    )
    order = {repr(value): number for number, value in enumerate(kinds)}
    return Setting(
        last_word(key), [value_words(value) for value in kinds], [order[repr(v)] for v in values]
    )


def _binned(key: str, numbers: Sequence[float]) -> Setting:
    """Ranges of values with about as many in each.

    >>> _binned("a.lr", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).levels
    ['1 to 2', '3 to 4', '5 to 6', '7 to 8', '9 to 10']
    """
    ranked = sorted(range(len(numbers)), key=lambda k: numbers[k])
    of = [0] * len(numbers)
    for rank, k in enumerate(ranked):
        of[k] = rank * _BINS // len(numbers)
    words = []
    for number in range(_BINS):
        own = [value for value, bin_of in zip(numbers, of, strict=True) if bin_of == number]
        words.append(f"{min(own):.3g} to {max(own):.3g}")
    return Setting(last_word(key), words, of)
