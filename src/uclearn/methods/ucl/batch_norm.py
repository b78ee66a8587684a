"""Running statistics of batch norms from task to task, where the weights carry noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from uclearn.errors import SettingError, TaskError
from uclearn.gaussian import use_means
from uclearn.gaussian.norms import borrowed_statistics, reestimate, statistics, tracking_norms
from uclearn.methods.contract import forward_passes
from uclearn.tasks.task import Task

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
        if kind not in get_args(BatchNormStatistics):
            raise SettingError(
                f"`batch_norm` must be one of {', '.join(get_args(BatchNormStatistics))}, got "
                f"{kind!r}."
            )
        self.kind = kind
        self.register_buffer("per_task", _flat(model)[None][:0].clone())

    @property
    def differ(self) -> bool:
        """No one network serves all tasks."""
        return self.kind == "per-task" and self.per_task.shape[1] > 0

    def follow(self, model: nn.Module, tasks_done: int) -> None:
        """Hold what is frozen, let the rest gather."""
        for norm in tracking_norms(model):
            norm.steady = self.kind == "frozen" and tasks_done > 0

    def settle(self, model: nn.Module, task: Task | None, inputs: Iterable[Any] | None) -> None:
        """At the end of a task gather with the means what was gathered under noise, and keep it."""
        if all(norm.steady for norm in tracking_norms(model)):
            return
        if task is None and inputs is None:
            raise TaskError(
                "This model has batch norms, whose running statistics were gathered under weight "
                "noise and must be re-estimated with the mean weights. Pass batches of the "
                "finished task's inputs: `method.end_task(inputs=[x1, x2, ...])`."
            )
        with use_means(model):
            reestimate(model, forward_passes(model, task, inputs))
        if self.kind == "per-task":
            known = self.per_task  # a task that goes on replaces its own
            place = len(known) if task is None else task.index
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
