"""A smaller network that does the same job: without the nodes that no task relies on.

Whole nodes and channels go, with every weight that reads them, so what remains is an ordinary dense
network. What a sum ties together goes together or stays. A node that goes is replaced by its mean,
where the bias of what reads it can stand for that: exact where the node put out the same number
whatever it was shown. How many go is found by trying on held-out data: as many, in the order of
their scores (see `reliance`), as the accuracy allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import SettingError
from uclearn.live.judge import Judge, as_sets
from uclearn.live.surgeon import Surgeon
from uclearn.tasks import DataLike, iterate

LEVELS = 16
"""Sizes that are tried from the smallest network up, before the exact size is bisected."""
MEASURED = 2048
"""Examples of each data set on which activations are measured."""


@dataclass(frozen=True)
class Pruned:
    """A smaller network and what it cost."""

    network: nn.Module
    removed: dict[str, int]
    """How many nodes each layer lost; layers that lost none are left out."""
    before: tuple[float, ...]
    """The score on each data set, of the whole network."""
    after: tuple[float, ...]
    """The same for the smaller one."""


def prune(
    network: nn.Module,
    data: DataLike | Sequence[DataLike],
    tolerance: float,
    *,
    strengths: Mapping[str, Tensor] | None = None,
    keep: Iterable[str] = (),
    judge: Judge | None = None,
    example: Any = None,
) -> Pruned:
    """Remove as many nodes as can go without losing more than `tolerance` on any of the `data`.

    Every data set is judged by itself, so that one task does not pay for the others. The number of
    nodes is chosen on these data: for an unbiased estimate judge the result on others.

    Args:
        network: a plain network; a copy of it is cut.
        data: held-out examples, such as one validation set for each task.
        tolerance: how much of the mean score (accuracy, between 0 and 1) may be lost.
        strengths: per layer (nodes,), as `UCL.strengths()` gives them.
        keep: layers that keep all of their nodes.
        judge: how a network is scored, by default by its accuracy.
        example: a small batch of inputs; None: the first of the data.
    """
    if not 0 <= tolerance < 1:
        raise SettingError(
            f"`prune` must lie between 0 and 1, got {tolerance}. It is how much accuracy may be "
            "lost on the held-out data: 0.01 is one point."
        )
    sets = as_sets(data)
    if not sets or not all(map(len, sets)):
        raise SettingError("`data` must hold at least one example in each data set, got none.")
    judge = judge or Judge()
    device = next(network.parameters()).device
    example = next(_inputs(sets, device))[:2] if example is None else example
    surgeon = Surgeon(network, example, _inputs(sets, device), strengths or {}, keep)
    surgeon.rehearse()
    before = judge.each(network, sets)
    fewest = [score - tolerance - 1e-9 for score in before]  # 0.9 - 0.1 is not quite 0.8

    def good(count: int) -> bool:
        after = judge.each(surgeon.without(count), sets)
        return all(score >= limit for score, limit in zip(after, fewest, strict=True))

    count = largest(good, len(surgeon.order))
    smaller = surgeon.without(count)
    surgeon.verify(smaller, count)
    return Pruned(smaller, surgeon.removed(count), before, judge.each(smaller, sets))


def largest(good: Callable[[int], bool], most: int) -> int:
    """A count from 0 to `most` that is good, with a next one that is not; 0 counts as good.

    Accuracy on few examples goes up and down, so a number of levels is tried from the top before
    the last step is bisected.

    >>> largest(lambda count: count <= 5, 100)
    5
    """
    high = most + 1
    for level in range(LEVELS, 0, -1):
        low = most * level // LEVELS
        if low < high and good(low):
            break
        high = low
    else:
        low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return low


def _inputs(sets: Sequence[DataLike], device: torch.device) -> Iterator[Tensor]:
    for data in sets:
        for batch in islice(iterate(data, 256), MEASURED // 256):
            yield batch.inputs.to(device)
