"""Data as they come from a user, in whatever form: read into memory, and checked against the
network before anything is learned."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from uclearn.errors import DataError, UclearnError
from uclearn.fields import Examples, Fields, alike, as_fields, described
from uclearn.methods.contract import lent
from uclearn.networks import MultiHead, answer, call, run_trunk
from uclearn.tasks import Data, DataLike, FromLoader, Joined, stored
from uclearn.tasks.loader import labelled
from uclearn.tasks.sources.arrays import from_arrays

NewData: TypeAlias = Any
"""`(inputs, targets)` as tensors or arrays, inputs by name in a dictionary where the network is
called so; one dictionary with `labels` in it; a torch `Dataset` or `DataLoader`; or `Data`."""


def as_data(data: NewData, name: str = "data") -> Data:
    """`data` in memory, checked: not empty, finite, labels counted from 0; all of task 0.

    `name` is what errors call it. Whole-number targets are labels, others are for regression.

    >>> len(as_data((np.zeros((5, 2), dtype=np.float32), [0, 1, 0, 1, 1])))
    5
    """
    inputs, targets = _pair(data, name)
    if not len(inputs):
        raise DataError(f"`{name}` must hold at least one example, got none.")
    checked = as_inputs(inputs, f"The inputs of `{name}`")
    try:
        labels = from_arrays(torch.zeros(len(checked)), targets, places=True).labels
    except DataError as error:
        text = str(error).replace("`inputs`", f"The inputs of `{name}`")
        raise DataError(text.replace("`targets`", f"The targets of `{name}`")) from error
    return Data(checked, labels)


def as_inputs(x: Any, name: str = "`x`") -> Examples:
    """A batch to predict for, checked: a tensor, or `Fields` of what was given by name."""
    if isinstance(x, Mapping | Fields):
        return Fields({key: as_inputs(x[key], f"`{key}` of {name}") for key in x})
    if not len(x):
        raise DataError(f"{name} must hold at least one example, got none.")
    try:
        return from_arrays(x, torch.zeros(len(x))).inputs
    except DataError as error:
        raise DataError(str(error).replace("`inputs`", name)) from error


def _pair(data: NewData, name: str) -> tuple[Any, Any]:
    if isinstance(data, Mapping):
        data = labelled(data, name)
    if isinstance(data, tuple | list) and len(data) == 2:
        return data[0], np.asarray(data[1]) if isinstance(data[1], list) else data[1]
    if isinstance(data, TorchDataset):
        if not isinstance(data, Sized):
            raise DataError(f"`{name}` must have a length; this {type(data).__name__} has none.")
        if not len(data):
            raise DataError(f"`{name}` must hold at least one example, got none.")
        data = DataLoader(data, batch_size=1024)
    if isinstance(data, DataLoader):
        data = FromLoader(data)
    if isinstance(data, Data | Joined | FromLoader):
        return _prepared(stored(data))
    raise DataError(
        f"`{name}` must be (inputs, targets), a torch Dataset or DataLoader, or "
        f"uclearn.tasks.Data, got {type(data).__name__}."
    )


def _prepared(data: DataLike) -> tuple[Examples, Tensor]:
    if not len(data):
        return torch.zeros(0), torch.zeros(0)
    pieces = [data.batch(rows) for rows in torch.arange(len(data)).split(1024)]
    return torch.cat([p.inputs for p in pieces]), torch.cat([p.targets for p in pieces])


# -- does it fit the network? ----------------------------------------------------------------


def check_inputs(model: nn.Module, inputs: Examples, example: Any, name: str) -> None:
    """Refuse inputs that the network cannot take; `example` is what it took so far, or None."""
    if alike(inputs, as_fields(example)):
        return
    try:
        with lent(model) as network, torch.no_grad():
            run_trunk(network, inputs[:1].to(next(model.parameters()).device))
    except UclearnError:
        raise
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        known = isinstance(example, Tensor | Fields)
        so_far = f" So far it took {described(example)}." if known else ""
        raise DataError(
            f"`{name}` must fit the network, got examples of {described(inputs)}, which it cannot "
            f"take: {str(error).splitlines()[0]}.{so_far}"
        ) from error


def outputs_of(model: nn.Module, example: Any) -> int | None:
    """How many outputs a network without heads has for each example, or for each of its places;
    None: there is nothing to count."""
    if isinstance(model, MultiHead):
        return None
    made = _made(model, example)
    return int(made.shape[1]) if made.dim() > 1 else None


def _made(model: nn.Module, example: Any) -> Tensor:
    with lent(model) as network, torch.no_grad():
        return answer(call(network, example))


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
    """Refuse targets that cannot be compared with the outputs of a network."""
    labels = not data.targets.is_floating_point()
    if isinstance(model, MultiHead) or (labels and data.targets.dim() == 1):
        if labels and data.targets.dim() > 1:
            raise DataError(
                "The targets of `data` must be one label for each example where a network has "
                f"heads, got shape {tuple(data.targets.shape)}."
            )
        return
    made = _made(model, example)
    if labels and made.shape[2:] != data.targets.shape[1:]:
        raise DataError(
            "The targets of `data` must be one label for each example, or one for each place of "
            f"the network's outputs {tuple(made.shape[2:])}, counted from 0, got shape "
            f"{tuple(data.targets.shape)}."
        )
    if not labels and made[0].numel() != data.targets[0].numel():
        raise DataError(
            f"The network's outputs of shape {tuple(made.shape[1:])} cannot be compared with "
            f"targets of shape {tuple(data.targets.shape[1:])}. Give targets of the outputs' shape "
            "(labels are whole numbers), or a `loss` of your own."
        )
