"""Every method and every wrapper keeps the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from uclearn.methods.checks import (
    CHECKS,
    Check,
    Make,
    check_acts,
    check_all,
    check_holds,
    check_rest,
)
from uclearn.methods.contract import Method
from uclearn.methods.registry import METHODS, WRAPPERS, build, keywords

NEEDED: dict[str, dict[str, Any]] = {
    "hat": {"tasks": 3},
    "coreset": {"size": 6},
    "replay": {"size": 10},
}
"""What the small problem of the checks asks for; all else is as it comes."""

FORGETS = (check_holds, check_acts)


def names() -> list[str]:
    """All methods, and the wrappers around all of them; LwF's pull, which is the same around each,
    around those that draw, that move a path and that hold nothing."""
    kept = [wrapper for wrapper in WRAPPERS if wrapper != "lwf"]
    wrapped = [f"{method}+{wrapper}" for method in METHODS for wrapper in kept]
    wrapped += [f"{method}+lwf" for method in ("finetuning", "ucl", "si")]
    return [*METHODS, *wrapped, "ucl+coreset+replay", "ucl+replay+coreset"]


def make(name: str, settings: Mapping[str, Mapping[str, Any]] | None = None) -> Make:
    wanted: dict[str, dict[str, Any]] = {p: NEEDED[p] for p in name.split("+") if p in NEEDED}
    for part, own in (settings or {}).items():
        wanted[part] = {**wanted.get(part, {}), **own}
    return lambda model, example: build(name, model, example, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("heads", [False, True], ids=["one head", "heads"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", names())
def test_every_method_keeps_the_contract(name: str, check: Check, heads: bool) -> None:
    if name == "ucl+lwf" and check is check_rest:
        pytest.skip("its answers are drawn, the teacher's are not: it rests on average only")
    if name == "finetuning" and check in FORGETS:
        with pytest.raises(AssertionError):
            check(make(name), heads)
    else:
        check(make(name), heads)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if "closed_form" in keywords(name)])
def test_closed_forms_keep_the_contract(name: str) -> None:
    check_all(make(name, {name: {"closed_form": True}}))


@pytest.mark.slow
def test_checks_leave_the_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    check_all(make("ucl"))
    assert torch.equal(torch.get_rng_state(), before)


def test_checks_run_on_the_kinds_of_network_that_are_asked_for() -> None:
    kinds = set()

    def looked_at(model: nn.Module, example: Any) -> Method:
        kinds.add(type(model).__name__)
        return Method(model)

    check_all(looked_at, heads=[True], without=FORGETS)
    assert kinds == {"MultiHead"}
