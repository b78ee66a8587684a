"""The few lines of optimisation that methods need themselves: VCL's start, a coreset's refit.

Not the training loop: no schedule, no validation, nothing saved. But it calls the hooks of the
contract in their order, so that it serves any method, and a plain network as `Method(network)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

import torch
from torch import Tensor

from uclearn.errors import SettingError
from uclearn.methods.contract import Method, Step
from uclearn.methods.losses import Loss, example_losses, has_draws, usual_loss
from uclearn.networks import run
from uclearn.tasks.data import Batch, DataLike, generator, iterate


def fit(
    method: Method,
    data: DataLike,
    *,
    task: int = 0,
    epochs: int,
    lr: float = 1e-3,
    batch_size: int = 256,
    loss: Loss | None = None,
    seed: int = 0,
) -> None:
    """Train a method's network on `data` with Adam. The method's task has begun already.

    Args:
        method: its `model` is left in training mode, without gradients.
        data: examples.
        task: the number of the task that is learned.
        epochs: how many times to go through them.
        lr: learning rate.
        batch_size: examples per step.
        loss: per example; None: cross-entropy for labels, squared error for other targets.
        seed: of the order of the examples and of what the network draws, such as dropout.

    >>> from torch import nn
    >>> from uclearn.tasks import Data
    >>> line = Data(torch.linspace(-1, 1, 64)[:, None], torch.linspace(-3, 3, 64)[:, None])
    >>> method = Method(nn.Linear(1, 1))
    >>> fit(method, line, epochs=100, lr=0.1, batch_size=16)
    >>> round(method.model.weight.item(), 2)
    3.0
    """
    order = generator(seed, "fit")
    optimizer = torch.optim.Adam(method.parameter_groups(lr))
    device = next(method.model.parameters()).device
    method.model.train()
    with _own_randomness(device, seed):
        for _ in range(epochs):
            for batch, step in _steps(data, batch_size, task, order, device):
                method.begin_step(step)
                output = run(method.model, batch.inputs, batch.task)
                error = mean_loss(output, batch.targets, loss)
                optimizer.zero_grad()
                (error + method.penalty(step)).backward()
                method.move(optimizer, step)
                method.end_step(step)
    optimizer.zero_grad()


def mean_loss(outputs: Tensor, targets: Tensor, loss: Loss | None = None) -> Tensor:
    """The mean loss of a batch, and of all draws where the network returned several.

    Args:
        outputs: (batch, ...), or (draws, batch, ...).
        targets: (batch,) labels, for outputs (batch, classes); or (batch, ...) like the outputs.
        loss: per example; None: cross-entropy for labels, squared error for other targets.

    >>> mean_loss(torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]), torch.tensor([[0.0], [0.0]]))
    tensor(7.5000)
    """
    if has_draws(outputs, targets):
        targets = targets.expand(len(outputs), *targets.shape).flatten(0, 1)
        outputs = outputs.flatten(0, 1)
    return example_losses(loss or usual_loss, outputs, targets).mean()


class FitSettings(TypedDict):
    """Keywords of `fit`."""

    epochs: int
    lr: float
    batch_size: int
    seed: int


def fit_settings(prefix: str, epochs: int, lr: float, batch_size: int, seed: int) -> FitSettings:
    """The keywords of `fit`, or a refusal of the setting whose name begins with `prefix`."""
    if epochs < 0:
        raise SettingError(
            f"`{prefix}_epochs` must be 0 or greater, got {epochs}. It is how many times the "
            "examples are gone through; 0 leaves it out."
        )
    if not lr > 0:
        raise SettingError(f"`{prefix}_lr` must be positive, got {lr}. It is a learning rate.")
    if batch_size < 1:
        raise SettingError(
            f"`{prefix}_batch_size` must be at least 1, got {batch_size}. It is the examples per "
            "step."
        )
    return {"epochs": epochs, "lr": lr, "batch_size": batch_size, "seed": seed}


def _steps(
    data: DataLike, size: int, task: int, order: torch.Generator, device: torch.device
) -> Iterator[tuple[Batch, Step]]:
    """One epoch, each batch with the step it stands for."""
    last = max(-(-len(data) // size) - 1, 0)
    for number, batch in enumerate(iterate(data, size, order)):
        # the last step of an epoch stands at its end, so that gates that harden do so fully
        progress = min(number / last, 1.0) if last else 1.0
        batch = Batch(batch.inputs.to(device), batch.targets.to(device), batch.task)
        yield batch, Step(task, batch.inputs, len(batch.targets), progress, len(data))


@contextmanager
def _own_randomness(device: torch.device, seed: int) -> Iterator[None]:
    """Dropout and the like draw from `seed`, and torch's global state is as if they had not."""
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices, device_type="cuda" if not devices else device.type):
        torch.manual_seed(seed)
        yield
