"""The contract as checks, for methods of your own too.

    from uclearn.methods.checks import check_all

    def test_my_method_keeps_the_contract():
        check_all(lambda model, example: MyMethod(model, example, strength=10.0))

Each check builds the method from a small network, learns a small task or two with it and raises
`ContractError` where the contract is broken, saying what was found and what to look for. All take
how to build the method from a network and a batch that it accepts, and whether that network has a
head per task. Torch's random numbers are left as they were.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor, nn

from uclearn.errors import UclearnError
from uclearn.methods import trial
from uclearn.methods.contract import Method
from uclearn.methods.trial import Make
from uclearn.tasks.batch import DataLike, iterate
from uclearn.tasks.data import Data
from uclearn.tasks.task import Task


class ContractError(UclearnError, AssertionError):
    """A method does not keep the contract."""


Check = Callable[[Make, bool], None]


def _check(check: Callable[[Make, bool], None]) -> Callable[..., None]:
    """Every check sees the same random numbers and gives them back."""

    @functools.wraps(check)
    def run(make: Make, heads: bool = False) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            check(make, heads)

    return run
