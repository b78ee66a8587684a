"""A method that follows an optimiser, whoever calls it.

The penalty's gradient is added right before each move, once, whatever led to it: micro-batches
that were added up, a loss that was scaled for half precision (a move that a scaler skips is skipped
here, too), processes whose gradients were averaged. So a trainer needs to know nothing of it.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn
from torch.optim import Optimizer

from uclearn.errors import CheckpointError, SettingError
from uclearn.methods.contract import Method, is_own
from uclearn.methods.parts.wrapper import Wrapper, innermost


def attach(method: Method, optimizer: Optimizer, batch_size: int) -> None:
    """From now on each move of `optimizer` is held back by `method`; the loss needs no penalty.

    Args:
        method: UCL, EWC, SI, MAS, RWalk or VCL: one whose penalty has a closed form. It is switched
            to it (`closed_form`).
        optimizer: of `method.parameter_groups(lr)`; each task has its own.
        batch_size: the examples behind one move, over all micro-batches and processes.

    >>> import torch, uclearn
    >>> method = uclearn.UCL(torch.nn.Linear(2, 1), torch.zeros(1, 2))
    >>> optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    >>> attach(method, optimizer, batch_size=8)
    >>> method.model(torch.ones(8, 2)).square().mean().backward()
    >>> optimizer.step()
    """
    inner = closed(method)

    def before(_: Optimizer, args: Any, kwargs: Any) -> None:
        if any(callable(value) for value in (*args[1:], *kwargs.values())):
            raise SettingError(
                "`optimizer.step` was given a closure, which computes gradients after the "
                "penalty's was added. Call `method.adjust_gradients(batch_size=...)` behind "
                "`backward` within the closure instead of `attach`."
            )
        inner.adjust_gradients(batch_size=batch_size)

    def after(_: Optimizer, args: Any, kwargs: Any) -> None:
        inner.end_step(batch_size=batch_size)

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(after)


def closed(method: Method) -> Method:
    """The innermost method, switched to its closed form; refused where there is none."""
    inner, wrappers = innermost(method), []
    while isinstance(method, Wrapper):
        wrappers.append(method)
        method = method.method
    by_batch = [w for w in wrappers if not is_own(w.penalty, Wrapper.penalty)]
    if by_batch or "closed_form" not in inspect.signature(type(inner).__init__).parameters:
        name = type(by_batch[0] if by_batch else inner).__name__
        raise SettingError(
            f"`method` must have a penalty in closed form, and {name} has none: "
            "its penalty depends on the batch. Add `method.penalty(inputs=x)` to the loss yourself."
        )
    for each in (inner, *wrappers):
        each.closed_form = True
    return inner


def memory_of(method: Method) -> dict[str, Any]:
    """What a checkpoint must hold: a method's state without weights that are frozen, which the
    model brings along."""
    frozen = {
        f"model.{name}"
        for name, parameter in method.model.named_parameters(remove_duplicate=False)
        if not parameter.requires_grad
    }
    return {key: value for key, value in method.state_dict().items() if key not in frozen}


def remember(method: Method, memory: dict[str, Any], source: str) -> None:
    """Take up again what `memory_of` gave; `source` is named where it does not fit."""
    wanted, found = set(memory_of(method)), set(memory)
    if wanted != found:
        raise CheckpointError(
            f"{source} must come from the same model, method and settings. It differs in "
            f"{', '.join(sorted(wanted ^ found)[:3])}."
        )
    nn.Module.load_state_dict(method, memory, strict=False)
