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

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

import torch
from torch import Tensor

from uclearn.methods.checks import problem
from uclearn.methods.checks.memory import (
    check_acts,
    check_copy,
    check_holds,
    check_own_memory,
    check_reproducible,
    check_save_and_load,
)
from uclearn.methods.checks.problem import Check, ContractError, Make, compare, listed, seeded
from uclearn.methods.contract import Method
from uclearn.tasks.data import Data
from uclearn.tasks.task import Task


@seeded
def check_parameter_groups(make: Make, heads: bool) -> None:
    """`parameter_groups` holds each trainable parameter exactly once, those of new heads too."""
    method = problem.built(make, heads)
    for task in problem.tasks(2):
        method.begin_task(task)
        names = {id(p): name for name, p in method.named_parameters() if p.requires_grad}
        given = [id(p) for group in method.parameter_groups(lr=0.1) for p in group["params"]]
        missing = [name for key, name in names.items() if key not in given]
        twice = [name for key, name in names.items() if given.count(key) > 1]
        foreign = sum(key not in names for key in given)
        if missing or twice or foreign:
            raise ContractError(
                "`parameter_groups` must hold each trainable parameter exactly once; missing: "
                f"{listed(missing)}; twice: {listed(twice)}; not trainable parameters of the "
                f"method: {foreign}. What is missing is never learned: if that is meant, make it "
                "a buffer or set its `requires_grad` to False."
            )


@seeded
def check_begin_task(make: Make, heads: bool) -> None:
    """`begin_task` returns a task, leaves its argument alone and moves no weights."""
    method = problem.built(make, heads)
    for task in problem.tasks(2):
        data = _content(task)
        before = {name: p.detach().clone() for name, p in problem.weights(method, heads).items()}
        begun = _returned_task(method.begin_task(task), task)
        compare(
            "`begin_task` must leave the task that it gets alone",
            data,
            _content(task),
            "Prepare copies, or use `dataclasses.replace(task, train=...)`.",
        )
        compare(
            "`begin_task` must not move weights, for it is called again on resuming",
            before,
            problem.weights(method, heads),
            "Do it in the constructor or in `begin_step`.",
        )
        problem.train(method, begun)
        problem.end(method, begun)


@seeded
def check_penalty(make: Make, heads: bool) -> None:
    """`penalty` is a finite scalar with finite gradients, even for a batch of one."""
    method = problem.built(make, heads)
    for task in problem.tasks(2):
        begun = method.begin_task(task)
        for size in (problem.BATCH, 1):
            value, gradients = problem.pull(method, task, size)
            broken = [name for name, g in gradients.items() if not bool(g.isfinite().all())]
            if value.dim() or not bool(value.isfinite()) or broken:
                raise ContractError(
                    f"`penalty` must be a finite scalar, got {value} for a batch of {size} in "
                    f"task {task.index}; gradients that are not finite: {listed(broken)}. Look "
                    "for a division by a spread, a count less one, or an importance of zero."
                )
            problem.train(method, begun)
        problem.end(method, begun)


@seeded
def check_rest(make: Make, heads: bool) -> None:
    """Right after `end_task` the penalty pulls at no weight: nothing has been forgotten yet."""
    method, task = problem.learned(make, heads), problem.tasks(2)[1]
    method.begin_task(task)
    at_rest = _largest(problem.pull(method, task)[1], problem.weights(method, heads))
    problem.nudge(problem.weights(method, heads).values())
    moved = _largest(problem.pull(method, task)[1], problem.weights(method, heads))
    name = max(at_rest, key=lambda name: at_rest[name])
    if at_rest[name] > 1e-6 + 1e-4 * max(moved.values()):
        raise ContractError(
            "Right after `end_task` the penalty's gradient on the weights must be zero, got up to "
            f"{at_rest[name]:.3g} on {name}. The anchor is not where the weights are: take it in "
            "`end_task`, from the weights as they are then."
        )


@seeded
def check_inference(make: Make, heads: bool) -> None:
    """`inference` lends a network in evaluation mode and leaves no trace, not even if left by an
    error."""
    method, twin = problem.learned(make, heads), problem.learned(make, heads)
    first, second, *_ = problem.tasks()
    begun, twin_begun = method.begin_task(second), twin.begin_task(second)
    problem.train(method, begun)
    problem.train(twin, twin_begun)
    list(method.model.modules())[-1].eval()  # one module may stay in evaluation while others train
    before = _traces(method)
    predictions = [problem.predict(method, task) for task in (first, second)]
    again = [problem.predict(method, task) for task in (first, second)]
    with suppress(_LeftByError), method.inference(0) as network:
        if network.training:
            raise ContractError("`inference` must lend a network in evaluation mode, got training.")
        raise _LeftByError
    remedy = "Put back in a `finally` what was changed, or change a copy."
    compare("`inference` must leave no trace", before, _traces(method), remedy)
    if not all(map(torch.equal, predictions, again)):
        raise ContractError(
            "`inference` must predict the same twice, since it leaves no trace; it did not. Put "
            "back the random numbers and all else that it used."
        )
    problem.train(method, begun)
    problem.train(twin, twin_begun)
    compare(
        "Training after `inference` must go on as if it had not been",
        problem.snapshot(twin),
        problem.snapshot(method),
        "Something that is not in `state_dict` was changed. " + remedy,
    )


class _LeftByError(Exception):
    """Raised where an evaluation might fail."""


def _returned_task(returned: object, task: Task) -> Task:
    if not isinstance(returned, Task) or returned.index != task.index:
        raise ContractError(
            "`begin_task` must return the task to train on, with the `index` of the one it got, "
            f"got {returned!r}. To change the data: `dataclasses.replace(task, train=...)`."
        )
    return returned


def _largest(gradients: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, float]:
    return {name: float(gradients[name].abs().max()) for name in names}


def _traces(method: Method) -> dict[str, Tensor]:
    """Everything that someone might leave changed."""
    traces = {f"state {name}": value for name, value in problem.snapshot(method).items()}
    for name, p in method.named_parameters():
        traces[f"`requires_grad` of {name}"] = torch.tensor(p.requires_grad)
        traces[f"the place of {name}"] = torch.tensor(p.data_ptr())
        if p.grad is not None:
            traces[f"the gradient of {name}"] = p.grad.clone()
    for name, module in method.named_modules():
        hooks = len(module._forward_hooks) + len(module._forward_pre_hooks)
        traces[f"the mode of {name or 'the method'}"] = torch.tensor(module.training)
        traces[f"the hooks of {name or 'the method'}"] = torch.tensor(hooks)
    return traces | {"torch's random numbers": torch.get_rng_state()}


def _content(task: Task) -> dict[str, Tensor]:
    """Which objects a task holds, and the numbers in them."""
    fields = ("name", "index", "train", "valid", "test", "classes")
    content = {name: torch.tensor(id(getattr(task, name))) for name in fields}
    data = task.train
    assert isinstance(data, Data)
    return content | {"inputs": data.inputs.clone(), "targets": data.targets.clone()}


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

    >>> from uclearn.methods.baselines import FineTuning
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
