"""The contract as checks, for methods of your own too.

    from uclearn.methods.checks import check_all

    def test_my_method_keeps_the_contract():
        check_all(lambda model, example: MyMethod(model, example, strength=10.0))

Each check builds the method from a small network, learns a small task or two with it and raises
`ContractError` where the contract is broken, saying what was found and what to look for. All take
`make`, which builds the method from a network and a batch that it accepts, and `heads`: whether
that network has a head per task. Torch's random numbers are left as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from uclearn.methods.checks.hooks import (
    check_begin_task,
    check_inference,
    check_parameter_groups,
    check_penalty,
    check_rest,
)
from uclearn.methods.checks.memory import (
    check_acts,
    check_copy,
    check_holds,
    check_own_memory,
    check_reproducible,
    check_save_and_load,
)
from uclearn.methods.checks.problem import Check, ContractError, Make

CHECKS: tuple[Check, ...] = (
    check_parameter_groups,
    check_begin_task,
    check_penalty,
    check_rest,
    check_inference,
    check_save_and_load,
    check_copy,
    check_reproducible,
    check_own_memory,
    check_holds,
    check_acts,
)
"""All of them."""


def check_all(
    make: Make, *, heads: Iterable[bool] = (False, True), without: Collection[Check] = ()
) -> None:
    """Run all checks.

    Args:
        make: builds the method from a network and a batch that it accepts.
        heads: the kinds of network to try: with one head, with a head per task.
        without: checks to leave out, such as `(check_holds, check_acts)` for a baseline that is
            meant to forget.

    >>> from uclearn.methods.finetuning import FineTuning
    >>> check_all(FineTuning, without=(check_holds, check_acts))
    """
    for kind in heads:
        for check in CHECKS:
            if check not in without:
                check(make, kind)


__all__ = [
    "CHECKS",
    "Check",
    "ContractError",
    "Make",
    "check_acts",
    "check_all",
    "check_begin_task",
    "check_copy",
    "check_holds",
    "check_inference",
    "check_own_memory",
    "check_parameter_groups",
    "check_penalty",
    "check_reproducible",
    "check_rest",
    "check_save_and_load",
]
