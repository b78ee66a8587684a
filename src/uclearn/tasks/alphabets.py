"""Omniglot as a sequence of tasks: an alphabet each, its characters the classes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from uclearn.tasks.augment import Jitter, Warp, recipes
from uclearn.tasks.data import Data
from uclearn.tasks.seeds import generator
from uclearn.tasks.sources.omniglot import Drawings
from uclearn.tasks.task import Task, TaskSequence
from uclearn.tasks.transforms import AddChannel, Normalise, Then

_SHARE = 0.1  # of an alphabet for validation, and as much again for the test


def alphabet_tasks(
    drawings: Drawings,
    seed: int,
    jitter: Jitter | None = None,
    split_after_augmentation: bool = False,
    name: str = "omniglot",
) -> TaskSequence:
    """One task per alphabet, in the order of `drawings`, a head each; 80 % of the examples to train
    on, 10 % for validation, 10 % for the test, drawn from `seed`.

    By default the drawings of each character are split first (16, 2 and 2 of its 20), and only
    those to train on are augmented. With `split_after_augmentation` the drawings and their copies
    are shuffled together and then split, as the paper's authors did: nearly every drawing tested on
    then has copies in the training data, so the accuracy is higher than the network deserves. Only
    that number compares with the paper's 83.9 %.
    """
    jitter = jitter or Jitter()
    store = _Store.of(drawings, jitter, seed)
    return TaskSequence(
        name,
        [
            _task(store, alphabet, title, seed, split_after_augmentation)
            for alphabet, title in enumerate(drawings.names)
        ],
        heads=True,
    )


@dataclass(frozen=True, eq=False)
class _Store:
    """Everything the tasks share: the drawings as they are, and the recipes for their copies."""

    plain: Data
    copied: Data  # example `drawing * each + copy`
    alphabets: Tensor
    each: int  # recipes per drawing

    @staticmethod
    def of(drawings: Drawings, jitter: Jitter, seed: int) -> _Store:
        each = 1 + jitter.copies
        table = recipes(len(drawings.inputs), jitter, seed).flatten(0, 1)
        plain = Then((Normalise(), AddChannel()))
        copied = Then((Warp(drawings.inputs), plain))
        return _Store(
            Data(drawings.inputs, drawings.characters, prepare=plain),
            Data(table, drawings.characters.repeat_interleave(each), prepare=copied),
            drawings.alphabets,
            each,
        )


def _task(store: _Store, alphabet: int, title: str, seed: int, after: bool) -> Task:
    own = (store.alphabets == alphabet).nonzero().flatten()
    stream = generator(seed, f"omniglot split {title}")
    characters = store.plain.targets[own]
    if after:
        examples = _copies(own, store.each)
        parts = _shares(torch.zeros_like(examples), stream)  # all in one urn
        train, valid, test = (store.copied.subset(examples[part]) for part in parts)
    else:
        first, second, third = _shares(characters, stream)
        train = store.copied.subset(_copies(own[first], store.each))
        valid, test = store.plain.subset(own[second]), store.plain.subset(own[third])
    train, valid, test = (replace(part, task=alphabet) for part in (train, valid, test))
    return Task(title, alphabet, train, valid, test, int(characters.max()) + 1)


def _copies(drawings: Tensor, each: int) -> Tensor:
    return (drawings[:, None] * each + torch.arange(each)).flatten()


def _shares(labels: Tensor, stream: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Positions for training, validation and test: 80, 10 and 10 % of each label's examples."""
    shuffled = torch.randperm(len(labels), generator=stream)
    grouped = shuffled[labels[shuffled].argsort(stable=True)]  # by label, shuffled within
    counts = labels.bincount()
    starts = counts.cumsum(0) - counts
    owner = labels[grouped]
    rank = torch.arange(len(labels)) - starts[owner]  # 0, 1, … within the label
    share = (counts * _SHARE).round().long()[owner]
    return (
        grouped[rank >= 2 * share].sort().values,
        grouped[rank < share].sort().values,
        grouped[(rank >= share) & (rank < 2 * share)].sort().values,
    )
