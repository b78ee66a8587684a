"""Checks of what a method remembers: that it acts on learning, and that it lasts (saved states,
copies, seeds)."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor

from uclearn.methods.checks import problem
from uclearn.methods.checks.problem import ContractError, Make, compare, listed, seeded
from uclearn.methods.contract import Method
from uclearn.tasks.data import DataLike, iterate


@seeded
def check_own_memory(make: Make, heads: bool) -> None:
    """What is remembered shares no memory with the live weights, or it would follow them."""
    method = problem.learned(make, heads)
    live = {name: p for name, p in method.named_parameters() if p.requires_grad}
    kept = {n: t for n, t in method.state_dict(keep_vars=True).items() if n not in live}
    places = {p.untyped_storage().data_ptr(): name for name, p in live.items() if p.numel()}
    shared = [n for n, t in kept.items() if t.numel() and t.untyped_storage().data_ptr() in places]
    if shared:
        raise ContractError(
            f"What is remembered must not share memory with live weights, but these do: "
            f"{listed(shared)}. They follow every step, so that nothing is ever held: copy, "
            "`weight.detach().clone()`."
        )
    before = {name: tensor.detach().clone() for name, tensor in kept.items()}
    problem.nudge(problem.weights(method, heads).values())
    after = {name: tensor for name, tensor in method.state_dict().items() if name in kept}
    compare(
        "What is remembered must stay when weights move",
        before,
        after,
        "Copy in `end_task`: `weight.detach().clone()`.",
    )


@seeded
def check_holds(make: Make, heads: bool) -> None:
    """After a task there is something to keep it: a penalty that sees weights move, gradients that
    are changed, or other data to train on."""
    method, task = problem.learned(make, heads), problem.tasks(2)[1]
    begun = method.begin_task(task)
    rest, _ = problem.pull(method, task)
    before, after = problem.adjustment(method, task)
    masked = any(not torch.equal(before[n], after[n]) for n in problem.weights(method, heads))
    problem.nudge(problem.weights(method, heads).values())
    moved, _ = problem.pull(method, task)
    if torch.equal(rest, moved) and not masked and _same_data(task.train, begun.train):
        raise ContractError(
            "After `end_task` nothing holds what was learned: the penalty does not see weights "
            f"move (it stays {float(rest):.3g}), `adjust_gradients` leaves the weights' gradients "
            "as they are, and `begin_task` adds no data. Does the anchor alias the live weights? "
            "Does `end_task` store anything, and is it used?"
        )


@seeded
def check_acts(make: Make, heads: bool) -> None:
    """After two tasks the weights differ from fine-tuning's, and from those that the method itself
    reaches when it is kept from remembering."""
    acting = problem.learned(make, heads, count=2)
    forgetful, plain = problem.built(make, heads), Method(problem.network(heads))
    for task in problem.tasks(2):
        for method in (forgetful, plain):
            begun = replace(method.begin_task(task), train=task.train)
            problem.train(method, begun, epochs=3)
    others = {"fine-tuning": plain, "the same method that never ended a task": forgetful}
    for name, other in others.items():
        theirs = problem.weights(other, heads)
        if all(torch.equal(w, theirs[n]) for n, w in problem.weights(acting, heads).items()):
            raise ContractError(
                f"The method does not act: after two tasks its weights are bit for bit those of "
                f"{name}. Look for an importance that stays zero, a `penalty` without gradient "
                "(`closed_form` promises one in `adjust_gradients`), or an anchor that aliases "
                "the live weights."
            )


def _same_data(given: DataLike, begun: DataLike) -> bool:
    if given is begun:
        return True
    pairs = zip(iterate(given, problem.BATCH), iterate(begun, problem.BATCH), strict=False)
    return len(given) == len(begun) and all(torch.equal(a.inputs, b.inputs) for a, b in pairs)


@seeded
def check_save_and_load(make: Make, heads: bool) -> None:
    """A state of plain tensors, loaded into a method that was built anew and began the same tasks,
    brings back penalty, predictions and all that follows, bit for bit."""
    method = problem.learned(make, heads)
    fresh = problem.built(make, heads, seed=1)  # other weights: all that counts is in the state
    first, second, third = problem.tasks(3)
    fresh.begin_task(first)
    begun, fresh_begun = method.begin_task(second), fresh.begin_task(second)
    problem.train(method, begun)
    odd = [name for name, value in method.state_dict().items() if not isinstance(value, Tensor)]
    if odd:
        raise ContractError(
            f"`state_dict` must hold tensors alone, which can be saved without pickle; not so: "
            f"{listed(odd)}. Return a tensor from `get_extra_state`."
        )
    fresh.load_state_dict(problem.snapshot(method))

    def alike(when: str) -> None:
        promise = f"Saved and loaded, a method must be the same {when}"
        compare(promise, problem.snapshot(method), problem.snapshot(fresh), _IN_STATE)
        compare(
            promise, problem.behaviour(method, second), problem.behaviour(fresh, second), _IN_STATE
        )

    alike("at once")
    problem.train(method, begun)
    problem.train(fresh, fresh_begun)
    alike("after more steps")
    problem.end(method, begun)
    problem.end(fresh, fresh_begun)
    problem.train(method, method.begin_task(third))
    problem.train(fresh, fresh.begin_task(third))
    alike("in the next task")


_IN_STATE = (
    "Keep what a method remembers in buffers (not with `persistent=False`) or in "
    "`get_extra_state`, and work out again after loading what follows from it."
)


@seeded
def check_copy(make: Make, heads: bool) -> None:
    """A deep copy behaves the same, and what is done to it leaves the original alone."""
    method, second = problem.learned(make, heads), problem.tasks(2)[1]
    begun = method.begin_task(second)
    problem.train(method, begun)
    state = problem.snapshot(method)
    try:
        twin = copy.deepcopy(method)
    except Exception as error:
        raise ContractError(
            f"`copy.deepcopy` of the method must work, since loading a state needs it, got: "
            f"{error!r}. Drop graphs and open files at the end of a step."
        ) from error
    expected = problem.behaviour(method, second)
    method.load_state_dict(state)  # looking moves the random numbers
    remedy = "Let hooks take the method as an argument instead of holding on to `self`."
    compare("A deep copy must behave the same", expected, problem.behaviour(twin, second), remedy)
    problem.end(twin, begun)
    problem.train(twin, begun)
    promise = "What is done to a deep copy must leave the original alone"
    compare(promise, state, problem.snapshot(method), remedy)
    compare(promise, expected, problem.behaviour(method, second), remedy)
    twin.load_state_dict(state)
    promise = "A deep copy must load a state as the original does"
    compare(promise, expected, problem.behaviour(twin, second), remedy)


@seeded
def check_reproducible(make: Make, heads: bool) -> None:
    """The same seed gives the same weights, bit for bit."""

    def run() -> dict[str, Tensor]:
        torch.manual_seed(0)
        return problem.snapshot(problem.learned(make, heads, count=2))

    compare(
        "The same seed must give the same state",
        run(),
        run(),
        "Draw from a generator of the method's own, seeded by its `seed`.",
    )
