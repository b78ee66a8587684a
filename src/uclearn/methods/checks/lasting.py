"""What lasts: saved states, copies, seeds."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from uclearn.methods.checks import trial
from uclearn.methods.checks.check import ContractError, behaviour, compare, listed, seeded
from uclearn.methods.checks.trial import Make


@seeded
def check_save_and_load(make: Make, heads: bool) -> None:
    """A state of plain tensors, loaded into a method that was built anew and began the same tasks,
    brings back penalty, predictions and all that follows, bit for bit."""
    method = trial.learned(make, heads)
    fresh = trial.built(make, heads, seed=1)  # other weights: all that counts is in the state
    first, second, third = trial.tasks(3)
    fresh.begin_task(first)
    begun, fresh_begun = method.begin_task(second), fresh.begin_task(second)
    trial.train(method, begun)
    odd = [name for name, value in method.state_dict().items() if not isinstance(value, Tensor)]
    if odd:
        raise ContractError(
            f"`state_dict` must hold tensors alone, which can be saved without pickle; not so: "
            f"{listed(odd)}. Return a tensor from `get_extra_state`."
        )
    fresh.load_state_dict(trial.snapshot(method))

    def alike(when: str) -> None:
        promise = f"Saved and loaded, a method must be the same {when}"
        compare(promise, trial.snapshot(method), trial.snapshot(fresh), _IN_STATE)
        compare(promise, behaviour(method, second), behaviour(fresh, second), _IN_STATE)

    alike("at once")
    trial.train(method, begun)
    trial.train(fresh, fresh_begun)
    alike("after more steps")
    trial.end(method, begun)
    trial.end(fresh, fresh_begun)
    trial.train(method, method.begin_task(third))
    trial.train(fresh, fresh.begin_task(third))
    alike("in the next task")


_IN_STATE = (
    "Keep what a method remembers in buffers (not with `persistent=False`) or in "
    "`get_extra_state`, and work out again after loading what follows from it."
)


@seeded
def check_copy(make: Make, heads: bool) -> None:
    """A deep copy behaves the same, and what is done to it leaves the original alone."""
    method, second = trial.learned(make, heads), trial.tasks(2)[1]
    begun = method.begin_task(second)
    trial.train(method, begun)
    state = trial.snapshot(method)
    try:
        twin = copy.deepcopy(method)
    except Exception as error:
        raise ContractError(
            f"`copy.deepcopy` of the method must work, since loading a state needs it, got: "
            f"{error!r}. Drop graphs and open files at the end of a step."
        ) from error
    expected = behaviour(method, second)
    method.load_state_dict(state)  # looking moves the random numbers
    remedy = "Let hooks take the method as an argument instead of holding on to `self`."
    compare("A deep copy must behave the same", expected, behaviour(twin, second), remedy)
    trial.end(twin, begun)
    trial.train(twin, begun)
    promise = "What is done to a deep copy must leave the original alone"
    compare(promise, state, trial.snapshot(method), remedy)
    compare(promise, expected, behaviour(method, second), remedy)
    twin.load_state_dict(state)
    promise = "A deep copy must load a state as the original does"
    compare(promise, expected, behaviour(twin, second), remedy)


@seeded
def check_reproducible(make: Make, heads: bool) -> None:
    """The same seed gives the same weights, bit for bit."""

    def run() -> dict[str, Tensor]:
        torch.manual_seed(0)
        return trial.snapshot(trial.learned(make, heads, count=2))

    compare(
        "The same seed must give the same state",
        run(),
        run(),
        "Draw from a generator of the method's own, seeded by its `seed`.",
    )
