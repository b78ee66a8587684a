"""Whether a method does anything at all."""

from __future__ import annotations

from dataclasses import replace

import torch

from uclearn.methods.checks import trial
from uclearn.methods.checks.check import ContractError, compare, listed, nudge, seeded, weights
from uclearn.methods.checks.trial import Make
from uclearn.methods.contract import Method
from uclearn.tasks.data import DataLike, iterate


@seeded
def check_own_memory(make: Make, heads: bool) -> None:
    """What is remembered shares no memory with the live weights, or it would follow them."""
    method = trial.learned(make, heads)
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
    nudge(weights(method, heads).values())
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
    method, task = trial.learned(make, heads), trial.tasks(2)[1]
    begun = method.begin_task(task)
    rest, _ = trial.pull(method, task)
    before, after = trial.adjustment(method, task)
    masked = any(not torch.equal(before[n], after[n]) for n in weights(method, heads))
    nudge(weights(method, heads).values())
    moved, _ = trial.pull(method, task)
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
    acting = trial.learned(make, heads, count=2)
    forgetful, plain = trial.built(make, heads), Method(trial.network(heads))
    for task in trial.tasks(2):
        for method in (forgetful, plain):
            begun = replace(method.begin_task(task), train=task.train)
            trial.train(method, begun, epochs=3)
    others = {"fine-tuning": plain, "the same method that never ended a task": forgetful}
    for name, other in others.items():
        theirs = weights(other, heads)
        if all(torch.equal(w, theirs[n]) for n, w in weights(acting, heads).items()):
            raise ContractError(
                f"The method does not act: after two tasks its weights are bit for bit those of "
                f"{name}. Look for an importance that stays zero, a `penalty` without gradient "
                "(`closed_form` promises one in `adjust_gradients`), or an anchor that aliases "
                "the live weights."
            )


def _same_data(given: DataLike, begun: DataLike) -> bool:
    if given is begun:
        return True
    pairs = zip(iterate(given, trial.BATCH), iterate(begun, trial.BATCH), strict=False)
    return len(given) == len(begun) and all(torch.equal(a.inputs, b.inputs) for a, b in pairs)
