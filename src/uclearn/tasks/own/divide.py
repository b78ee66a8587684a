"""A part of the examples is set apart for the test: of each class the same share, groups whole."""

from __future__ import annotations

import torch
from torch import Tensor

from uclearn.errors import DataError
from uclearn.tasks.data import generator


def set_apart(
    strata: Tensor, share: float, seed: int, purpose: str, groups: Tensor | None = None
) -> Tensor:
    """(examples,) bool: a `share` of each stratum, drawn from `seed`; at least one example of each,
    and never all.

    With `groups`, whole groups are drawn: those of a stratum are the groups that most of their
    examples belong to, and their number is what is shared out.

    >>> int(set_apart(torch.tensor([0] * 10 + [1] * 5), 0.2, 0, "test").sum())
    3
    """
    stream = generator(seed, purpose)
    if groups is not None:
        return _groups_apart(strata, share, stream, groups)
    return _apart(strata, share, stream)


def _apart(strata: Tensor, share: float, stream: torch.Generator) -> Tensor:
    chosen = torch.zeros(len(strata), dtype=torch.bool)
    for stratum in strata.unique().tolist():
        own = (strata == stratum).nonzero().flatten()
        shuffled = own[torch.randperm(len(own), generator=stream)]
        chosen[shuffled[: _count(len(own), share)]] = True
    return chosen


def _groups_apart(strata: Tensor, share: float, stream: torch.Generator, groups: Tensor) -> Tensor:
    names, members = groups.unique(return_inverse=True)
    kinds, places = strata.unique(return_inverse=True)
    tally = torch.zeros(len(names), len(kinds), dtype=torch.int64)
    tally.index_put_((members, places), torch.ones_like(members), accumulate=True)
    chosen = _apart(tally.argmax(dim=1), share, stream)
    return chosen[members]


def _count(examples: int, share: float) -> int:
    return min(max(1, round(examples * share)), examples - 1)


def check_enough(strata: Tensor, groups: Tensor | None, where: list[str], remedy: str) -> None:
    """Refuse a stratum that cannot be divided; `where` names each."""
    for stratum, name in enumerate(where):
        own = strata == stratum
        count = int(own.sum()) if groups is None else len(groups[own].unique())
        if count < 2:
            what = "example" if groups is None else "group"
            raise DataError(
                f"{name} has {count} {what}, too few to train on some and test on others. {remedy}"
            )
