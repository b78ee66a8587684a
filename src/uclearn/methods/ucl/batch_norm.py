"""Running statistics of batch norms from task to task, where the weights carry noise.

A batch norm gathers its running statistics under weight noise but uses them with mean weights,
so they are re-estimated with the means when a task ends, and may be held from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from uclearn.choices import check_choice
from uclearn.errors import TaskError
from uclearn.gaussian import use_means
from uclearn.gaussian.draws import SteadyBatchNorm
from uclearn.methods.contract import lent
from uclearn.ranks import present

BatchNormStatistics = Literal["shared", "per-task", "frozen"]


class RunningStatistics(nn.Module):
    """Shared by all tasks, kept for each, or frozen after the first.

    Args:
        model: converted; every call is given it anew, as it belongs to the method.
        kind: which of the three.
    """

    per_task: Tensor
    """(tasks, numbers); no rows unless they are kept for each task."""

    def __init__(self, model: nn.Module, kind: BatchNormStatistics) -> None:
        super().__init__()
        check_choice("batch_norm", kind, get_args(BatchNormStatistics))
        self.kind = kind
        self.register_buffer("per_task", _flat(model)[None][:0].clone())

    @property
    def differ(self) -> bool:
        """No one network serves all tasks."""
        return self.kind == "per-task" and self.per_task.shape[1] > 0

    def follow(self, model: nn.Module, *, known: bool) -> None:
        """Hold what is frozen once something is known, let the rest gather."""
        for norm in tracking_norms(model):
            norm.steady = self.kind == "frozen" and known

    def keep(self, model: nn.Module) -> None:
        """Those that a pretrained network came with are those of its task."""
        if self.kind == "per-task":
            self.per_task = _flat(model)[None].clone()

    def settle(
        self, model: nn.Module, calls: Iterable[Callable[[], Any]], place: int | None
    ) -> None:
        """At the end of a task gather with the means what was gathered under noise, and keep it.

        Args:
            model: converted.
            calls: forward passes over the task.
            place: the number of the task, None: it follows those that are known.
        """
        if all(norm.steady for norm in tracking_norms(model)):
            return
        with use_means(model):
            reestimate(model, (call() for call in calls))
        if self.kind == "per-task":
            known = self.per_task  # a task that goes on replaces its own
            place = len(known) if place is None else place
            self.per_task = torch.cat([known[:place], _flat(model)[None], known[place + 1 :]])

    @contextmanager
    def of(self, model: nn.Module, task: int | None) -> Iterator[None]:
        """Within, the model has those of a finished task, where they are kept."""
        if task is None or task >= len(self.per_task):
            yield
            return
        sizes = [tensor.numel() for tensor in statistics(model)]
        with borrowed_statistics(model, list(self.per_task[task].split(sizes))):
            yield

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        saved = state_dict.get(prefix + "per_task")
        if saved is not None and saved.shape[1:] == self.per_task.shape[1:]:
            self.per_task = saved.new_empty(saved.shape).to(self.per_task)
        super()._load_from_state_dict(state_dict, prefix, *others)


def _flat(model: nn.Module) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in statistics(model)] or [torch.zeros(0)])


def tracking_norms(model: nn.Module) -> list[SteadyBatchNorm]:
    """The batch norms that keep running statistics."""
    found = (m for m in model.modules() if isinstance(m, SteadyBatchNorm))
    return [m for m in found if m.running_mean is not None]


def reestimate(model: nn.Module, forwards: Iterable[Any]) -> None:
    """Gather the running statistics anew, as plain averages over the given forward passes.

    Steady norms keep theirs. Of several processes that learn one model each gives forward passes of
    its own; the averages are over all of them. Whatever goes wrong on the way, the model then has
    the statistics that it had before.

    Args:
        model: converted model; the caller sees to it that it uses its means.
        forwards: an iterable that runs the model once per item it yields.
    """
    norms = [norm for norm in tracking_norms(model) if not norm.steady]
    momenta = [norm.momentum for norm in norms]
    before = [(buffer, buffer.clone()) for norm in norms for buffer in norm.buffers(recurse=False)]
    with lent(model):
        try:
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # a cumulative average: every batch counts the same
                norm.train()
            with torch.no_grad():
                _average(norms, passes=sum(1 for _ in forwards))
        except BaseException:
            for buffer, own in before:
                buffer.copy_(own)
            raise
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum


def _average(norms: list[SteadyBatchNorm], passes: int) -> None:
    """Averages over the forward passes of this process become averages over those of all."""
    ranks = present()
    (total,) = ranks.sum(passes)
    if ranks.size > 1:
        for tensor in _kept(nn.ModuleList(norms)):
            ranks.sum_([tensor.mul_(passes / max(total, 1))])
    if total == 0:
        raise TaskError(
            "Running statistics of batch norms were gathered under weight noise and must be "
            "averaged anew over batches of the finished task, but there was none: no `task`, no "
            "`inputs`, and the model was not called in training mode. Pass batches of the task's "
            "inputs, `method.end_task(inputs=[x1, x2, ...])`."
        )
    if not all(bool(buffer.isfinite().all()) for norm in norms for buffer in norm.buffers()):
        raise TaskError(
            "`inputs` must be finite and lead to finite activations, but the running statistics "
            "gathered from them are not. Look for NaN or inf in the data."
        )


def _kept(model: nn.Module) -> list[Tensor]:
    """All running means and variances, in the order of the model."""
    pairs = ((norm.running_mean, norm.running_var) for norm in tracking_norms(model))
    return [tensor for pair in pairs for tensor in pair if tensor is not None]


def statistics(model: nn.Module) -> list[Tensor]:
    """A copy of all running means and variances, in the order of the model."""
    return [tensor.detach().clone() for tensor in _kept(model)]


def restore_statistics(model: nn.Module, saved: list[Tensor]) -> None:
    """Put back what `statistics` gave."""
    for place, tensor in zip(_kept(model), saved, strict=True):
        place.copy_(tensor)


@contextmanager
def borrowed_statistics(model: nn.Module, saved: list[Tensor]) -> Iterator[None]:
    """Use other statistics for a while."""
    own = statistics(model)
    restore_statistics(model, saved)
    try:
        yield
    finally:
        restore_statistics(model, own)
