"""What can be chosen: names of ours, names that other packages add, and how others are refused.

Methods and benchmarks of other packages are announced by entry points.

A package says in its pyproject.toml

    [project.entry-points."uclearn.benchmarks"]
    my-benchmark = "my_package.module:MY_BENCHMARK"

and from then on that name stands beside ours. Nothing of it is imported before it is asked for, and
a package that cannot be imported is in nobody's way: only its own name is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from uclearn.errors import SettingError

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Entries by name: ours, then those that installed packages announce, in alphabetical order.

    Args:
        group: of entry points, such as `uclearn.benchmarks`.
        ours: the entries that need no announcement; nobody can take their names.
        check: is given the name and what the announced object is, and returns it, or raises an
            error that says what is wrong with it.
    """

    def __init__(
        self, group: str, ours: Mapping[str, T], check: Callable[[str, object], T]
    ) -> None:
        self.group, self.ours, self._check = group, dict(ours), check
        self._loaded: dict[str, T] = {}

    @cached_property
    def announced(self) -> dict[str, EntryPoint]:
        """What installed packages announce under names that are not ours, not imported yet."""
        found = sorted(entry_points(group=self.group), key=lambda entry: entry.name)
        return {entry.name: entry for entry in found if entry.name not in self.ours}

    def __getitem__(self, name: str) -> T:
        if name in self.ours:
            return self.ours[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name, self.announced[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.ours or name in self.announced

    def __iter__(self) -> Iterator[str]:
        yield from self.ours
        yield from self.announced

    def __len__(self) -> int:
        return len(self.ours) + len(self.announced)

    def sound(self) -> tuple[dict[str, T], list[str]]:
        """The entries that can be had, and a sentence about each that cannot."""
        entries, problems = {}, []
        for name in self:
            try:
                entries[name] = self[name]
            except SettingError as error:
                problems.append(str(error))
        return entries, problems

    def _load(self, name: str, entry: EntryPoint) -> T:
        owner = entry.dist.name if entry.dist is not None else "a package"
        try:
            return self._check(name, entry.load())
        except Exception as error:  # whatever another package does wrong, it is named
            raise SettingError(
                f"{owner} announces {name!r} ({self.group}), but {entry.value} cannot be used: "
                f"{type(error).__name__}: {error}. Repair or uninstall {owner}; all other names "
                "work without it."
            ) from error


def check_choice(name: str, value: object, choices: Iterable[str], remark: str = "") -> None:
    """Refuse a `value` of the setting `name` that is none of the `choices`; `remark` ends the
    error."""
    known = tuple(choices)
    if value not in known:
        raise SettingError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.{remark}")


def check_count(name: str, value: int, meaning: str) -> None:
    """Refuse a `value` below 1 of the setting `name`, which counts what `meaning` says."""
    if value < 1:
        raise SettingError(f"`{name}` must be at least 1, got {value}. It counts {meaning}.")


def no_such(what: str, name: str, choices: Iterable[str]) -> str:
    """What to say of a `name` that is none of the `choices`.

    >>> no_such("method", "uclr", ["ewc", "ucl"])
    "There is no method 'uclr'. Did you mean 'ucl'? Known: ewc, ucl."
    """
    known = list(choices)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"There is no {what} {name!r}.{hint} Known: {', '.join(known) or 'none yet'}."
