"""Tuning that does not cheat: on the first tasks only, judged by validation data.

Whoever learns tasks one after the other cannot tune on tasks that have not come yet. So candidates
are compared on the first few tasks; all tasks, as in the paper, are a choice to be made openly. The
test data are never looked at. What may be tried is a grid of values, or a space of ranges and
choices.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from uclearn.errors import SettingError
from uclearn.measures.statistics import is_level
from uclearn.methods.facts import Range
from uclearn.methods.registry import facts, parts
from uclearn.paper.settings import GRIDS
from uclearn.runs.grid import Result
from uclearn.runs.resolve import parse_value, preset_document, resolve
from uclearn.runs.supervised import SUPERVISED, RunConfig
from uclearn.tasks.benchmarks import Named
from uclearn.tasks.benchmarks import benchmark as described

if TYPE_CHECKING:
    from optuna import Trial


class Choice(NamedTuple):
    """One of several values."""

    values: tuple[Any, ...]

    def suggest(self, trial: Trial, key: str) -> Any:
        """The value that a trial takes."""
        return trial.suggest_categorical(key, self.values)

    def points(self, count: int) -> list[Any]:
        """All of them."""
        return list(self.values)


Space = Mapping[str, Range | Choice]
"""By dotted key what may be tried."""


def default_space(
    benchmark: Named, method: str, preset: str = "default"
) -> dict[str, Range | Choice]:
    """What is searched for a method unless it is said otherwise.

    >>> list(default_space("permuted-mnist", "ewc"))
    ['ewc.strength']
    """
    settings = preset_document(SUPERVISED, benchmark, method, preset)["settings"]
    return {
        f"{part}.{key}": each
        for part in parts(method)
        for key, each in facts(part).search.items()
        if settings[part][key] is not None
    }


def parse_space(texts: Iterable[str]) -> dict[str, Range | Choice]:
    """`key=low..high`, with `:log` behind it where orders of magnitude count, or `key=a,b,c`.

    >>> parse_space(["ucl.beta=1e-4..1e-1:log", "ucl.sampling=local,weight"])["ucl.beta"]
    Range(low=0.0001, high=0.1, log=True)
    """
    found: dict[str, Range | Choice] = {}
    written = (
        "A space is written `part.key=low..high`, `part.key=low..high:log` or `part.key=a,b,c`, as "
        "`ucl.beta=1e-4..1e-1:log`"
    )
    for key, values in _keys_and_values(texts, written):
        found[key] = _range(key, values) if ".." in values else Choice(tuple(_listed(key, values)))
    return found


def _keys_and_values(texts: Iterable[str], written: str) -> Iterator[tuple[str, str]]:
    """Both sides of each `key=values`; `written` says how it should look."""
    for text in texts:
        key, _, values = (piece.strip() for piece in text.partition("="))
        if not (key and values):
            raise SettingError(f"{written}, got {text!r}.")
        yield key, values


def _listed(key: str, values: str) -> list[Any]:
    return [parse_value(value.strip(), key) for value in values.split(",")]


def _range(key: str, text: str) -> Range:
    ends, colon, scale = text.partition(":")
    low, high = (parse_value(end.strip(), key) for end in ends.split("..", 1))
    numbers = [end for end in (low, high) if isinstance(end, int | float) and end is not True]
    if len(numbers) < 2 or not low < high or (colon and scale.strip() != "log"):
        raise SettingError(
            f"The range of `{key}` must be two numbers, the smaller first, as 1e-4..1e-1 or "
            f"1e-4..1e-1:log, got {text!r}."
        )
    if colon and low <= 0:
        raise SettingError(f"The range of `{key}` must be above 0 for :log, got {text!r}.")
    return Range(low, high, bool(colon))


FIRST_TASKS = 3
Grid = Mapping[str, Sequence[Any]]
"""By dotted key the values to try."""


class Candidate(NamedTuple):
    """One combination of values, and its runs, one for each seed."""

    values: dict[str, Any]
    configs: list[RunConfig]


class Judged(NamedTuple):
    """A candidate and how it did on the validation data."""

    values: dict[str, Any]
    accuracy: float | None
    """Average over tasks and seeds; None while a run is missing."""
    forgetting: float | None
    level: bool = False
    """Level with the best, or the best itself: see `uclearn.measures.statistics.is_level`."""


def parse_grid(texts: Iterable[str]) -> dict[str, list[Any]]:
    """`key=a,b,c`, each value as for `--set`.

    >>> parse_grid(["ewc.strength=40,400.0", "ucl.sampling=local,weight"])
    {'ewc.strength': [40, 400.0], 'ucl.sampling': ['local', 'weight']}
    """
    written = "A grid is written `part.key=a,b,c`, as `ewc.strength=40,400,4000`"
    return {key: _listed(key, values) for key, values in _keys_and_values(texts, written)}


def paper_grid(benchmark: Named, method: str) -> Grid:
    """What the authors tried on a benchmark for a method (supplement 5.1.1)."""
    name = described(benchmark).name
    grids = GRIDS.get(name, {})
    if method not in grids:
        known = ", ".join(f"{each} {own}" for each, grid in GRIDS.items() for own in grid)
        raise SettingError(
            f"The paper lists no grid for {method} on {name}. It does for: {known}. Give your "
            "own by --grid."
        )
    return grids[method]


def candidates(
    benchmark: Named,
    method: str,
    grid: Grid,
    *,
    preset: str = "default",
    seeds: int = 1,
    tasks: int | None = FIRST_TASKS,
    overrides: Mapping[str, Any] | None = None,
) -> list[Candidate]:
    """Every combination of the grid; `tasks` None: judged on all tasks."""
    if not grid:
        raise SettingError("There is nothing to try: give values by --grid, or use --paper-grid.")
    found = []
    for combination in itertools.product(*grid.values()):
        values = dict(zip(grid, combination, strict=True))
        chosen = {**(overrides or {}), **values, "data.judge": "validation", "tasks": tasks}
        configs = [
            resolve(benchmark, method, preset=preset, seed=seed, overrides=chosen)
            for seed in range(seeds)
        ]
        found.append(Candidate(values, configs))
    return found


def judge(tried: Sequence[Candidate], results: Sequence[Result]) -> list[Judged]:
    """The candidates, the best on validation data first, and which are level with it."""
    summaries = {result.config.fingerprint(): result.summary() for result in results}
    judged: list[tuple[Judged, dict[int, float]]] = []
    for candidate in tried:
        own = [summaries[config.fingerprint()] for config in candidate.configs]
        done = [summary for summary in own if summary is not None]
        accuracies = [s.average_accuracy for s in done if s.average_accuracy is not None]
        falls = [s.forgetting for s in done if s.forgetting is not None]
        complete = len(accuracies) == len(own)
        one = Judged(
            candidate.values,
            fmean(accuracies) if complete else None,
            fmean(falls) if complete and falls else None,
        )
        judged.append((one, dict(enumerate(accuracies)) if complete else {}))
    judged.sort(key=lambda pair: (pair[0].accuracy is None, -(pair[0].accuracy or 0)))
    best = judged[0][1]
    return [one._replace(level=bool(own) and is_level(best, own)) for one, own in judged]
