"""Do the data fit the network? Asked before anything is learned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import DataError, SettingError, UclearnError
from uclearn.methods.contract import lent
from uclearn.networks.heads import MultiHead, run, run_trunk
from uclearn.tasks import Data


def check_inputs(model: nn.Module, inputs: Tensor, example: Any, name: str) -> None:
    """Refuse inputs that the network cannot take; `example` is what it took so far, or None."""
    if isinstance(example, Tensor) and _alike(inputs, example):
        return
    try:
        with lent(model) as network, torch.no_grad():
            run_trunk(network, inputs[:1].to(next(model.parameters()).device))
    except UclearnError:
        raise
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        so_far = "" if not isinstance(example, Tensor) else f" So far it took {_words(example)}."
        raise DataError(
            f"`{name}` must fit the network, got examples of {_words(inputs)}, which it cannot "
            f"take: {str(error).splitlines()[0]}.{so_far}"
        ) from error


def outputs_of(model: nn.Module, example: Any) -> int | None:
    """How many outputs a network without heads has for each example; None: not a plain vector."""
    if isinstance(model, MultiHead):
        return None
    with lent(model) as network, torch.no_grad():
        made = network(*example) if isinstance(example, tuple) else run(network, example)
    return int(made.shape[1]) if isinstance(made, Tensor) and made.dim() == 2 else None


def class_count(data: Data, given: int | None, task: str) -> int | None:
    """Of a task that begins: as `given`, else as many as the labels need; None for regression."""
    labels = data.targets
    if labels.is_floating_point():
        return given
    count = int(labels.max()) + 1 if given is None else given
    if count < 2:
        raise DataError(
            f"All labels of task {task!r} are 0, and a head with one output cannot learn anything. "
            "Give the number of classes that there will be: `classes=2`."
        )
    return count


def check_labels(
    data: Data, classes: int | None, where: str, remedy: str, name: str = "data"
) -> None:
    """Refuse labels for which there is no output."""
    if classes is None or data.targets.is_floating_point():
        return
    high = int(data.targets.max())
    if high >= classes:
        outside = int((data.targets >= classes).sum())
        raise DataError(
            f"The labels of `{name}` must lie between 0 and {classes - 1} ({where}), got {outside} "
            f"beyond, up to {high}. {remedy}"
        )


def check_targets(model: nn.Module, data: Data, example: Any) -> None:
    """Refuse numbers that cannot be compared with the outputs of a network without heads."""
    if isinstance(model, MultiHead) or not data.targets.is_floating_point():
        return
    with lent(model) as network, torch.no_grad():
        made = network(*example) if isinstance(example, tuple) else network(example)
    if made[0].numel() != data.targets[0].numel():
        raise DataError(
            f"The network's outputs of shape {tuple(made.shape[1:])} cannot be compared with "
            f"targets of shape {tuple(data.targets.shape[1:])}. Give targets of the outputs' shape "
            "(labels are whole numbers), or a `loss` of your own."
        )


def check_classes(classes: int, outputs: int) -> None:
    """Outputs can be added to a network, not taken away."""
    if classes < outputs:
        raise SettingError(
            f"`classes` must be at least {outputs}, the outputs that the network has, got "
            f"{classes}. Leave it out unless classes are to be added."
        )


def _alike(inputs: Tensor, example: Tensor) -> bool:
    return inputs.shape[1:] == example.shape[1:] and inputs.dtype == example.dtype


def _words(inputs: Tensor) -> str:
    return f"shape {tuple(inputs.shape[1:])} and type {str(inputs.dtype).removeprefix('torch.')}"
