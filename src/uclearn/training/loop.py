"""One task, learned: the one place where the order of a method's hooks is written."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.methods.contract import Method, Step, lent
from uclearn.methods.losses import Loss, Score, correct, example_losses
from uclearn.networks import run
from uclearn.ranks import ALONE, Ranks
from uclearn.tasks import Batch, DataLike, Task, iterate
from uclearn.tasks.data import generator
from uclearn.tasks.loader import begun_from_seed
from uclearn.training.plan import Advice, Patience, Plan

_UNCUT = 60
"""Examples that are not divided between processes when importance is measured: groups of 2, 3, 4,
5, 6, 10, 12, 15, 20, 30 or 60 of them (EWC's `fisher_batch`) are then the same, however many."""
AS_IT_IS = nullcontext()
"""In place of autocast: the forward pass has all its digits."""
_SAVED = ("epoch", "batch", "loss_sum", "examples_seen", "best", "stopped")
"""What of a loop goes into a checkpoint as it is."""

AfterStep = Callable[["TaskLoop", Step, Tensor], None]


def train_step(
    method: Method,
    batch: Batch,
    step: Step,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    clip_norm: float | None = None,
    *,
    ranks: Ranks = ALONE,
    autocast: AbstractContextManager[Any] = AS_IT_IS,
) -> Tensor:
    """One move of the optimiser; returns the mean loss of the batch, without the penalty.

    Args:
        method: what learns.
        batch: the examples; of several processes that learn together, this one's share.
        step: where the loop stands; its `batch_size` counts the examples of all processes.
        loss: per example.
        optimizer: moves the method's parameters.
        clip_norm: largest norm of the gradient, None for any.
        ranks: the processes, whose gradients are averaged over the examples of the whole batch.
            The penalty, the same in all of them, is left unchanged by that.
        autocast: around the forward pass.
    """
    method.begin_step(step)
    with autocast:
        outputs = _all_digits(run(method.model, batch.inputs, batch.task))
    mean_loss = example_losses(loss, outputs, batch.targets).mean()
    total = mean_loss if method.closed_form else mean_loss + method.penalty(step)
    optimizer.zero_grad()
    total.backward()
    mean_loss = _averaged(mean_loss.detach(), optimizer, step, ranks)
    if clip_norm is None:
        method.move(optimizer, step)
    else:
        method.adjust_gradients(step)
        nn.utils.clip_grad_norm_(method.parameters(), clip_norm)
        optimizer.step()
    method.end_step(step)
    return mean_loss


def _all_digits(outputs: Tensor) -> Tensor:
    """A loss or a score needs more digits than bfloat16 has."""
    return outputs.float() if outputs.dtype is torch.bfloat16 else outputs


def _averaged(
    mean_loss: Tensor, optimizer: torch.optim.Optimizer, step: Step, ranks: Ranks
) -> Tensor:
    """The gradients of all processes, and the loss, as one process would have found them."""
    if ranks.size == 1:
        return mean_loss
    whole = step.need("batch_size", "the gradients of a batch are averaged over its examples")
    moved = [p for group in optimizer.param_groups for p in group["params"]]
    return ranks.average_gradients(moved, ranks.weight(whole), mean_loss)


@dataclass
class TaskLoop:
    """Learns one task, epoch by epoch, and can stand still after any step."""

    method: Method
    task: Task
    """As `begin_task` returned it."""
    plan: Plan
    loss: Loss
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch that are done."""
    loss_sum: float = 0.0
    """Of this epoch, over examples."""
    examples_seen: int = 0
    patience: Patience = field(default_factory=Patience)
    best: dict[str, Any] | None = None
    optimizer: torch.optim.Optimizer = field(init=False)
    examples: int = field(init=False)
    """To train on; a loader may have to count them."""
    stopped: bool = False
    ranks: Ranks = ALONE

    def __post_init__(self) -> None:
        self.examples = len(self.task.train)
        self.method.task_steps = self.plan.epochs * self.batches
        self._fresh_optimizer()

    @property
    def batches(self) -> int:
        """Batches of an epoch."""
        return -(-self.examples // self.plan.batch_size)

    @property
    def done(self) -> bool:
        """No epoch is left, the schedule has stopped, or there is nothing to learn from."""
        return self.stopped or self.epoch >= self.plan.epochs or self.examples == 0

    @property
    def device(self) -> torch.device:
        """Where the method is."""
        return next(self.method.parameters()).device

    def run_epoch(self, after_step: AfterStep) -> dict[str, Any]:
        """The rest of the present epoch, then what the schedule makes of it."""
        order = generator(self.plan.seed, f"order of task {self.task.index}, epoch {self.epoch}")
        self.method.train()
        device = self.device
        autocast = self.plan.autocast(device)
        for batch in iterate(self.task.train, self.plan.batch_size, order, self.batch):
            placed = share(batch, self.ranks).to(device)
            step = self._step(placed.inputs, len(batch.targets), self.batch / self.batches)
            self._set_rates(len(batch.targets))
            value = train_step(
                self.method,
                placed,
                step,
                self.loss,
                self.optimizer,
                self.plan.clip_norm,
                ranks=self.ranks,
                autocast=autocast,
            )
            self.batch += 1
            self.loss_sum += value.item() * len(batch.targets)
            self.examples_seen += len(batch.targets)
            after_step(self, step, value)
        return self._end_epoch()

    def finish(self) -> None:
        """Back to the best epoch, then consolidate."""
        if self.best is not None:
            self.method.load_state_dict(self.best)
        with lent(self.method.model):
            self.method.end_task(self.task, self._losses)

    def state(self) -> dict[str, Any]:
        """For a checkpoint: all of it but the method."""
        return {
            **{name: getattr(self, name) for name in _SAVED},
            "schedule": asdict(self.patience),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Stand where a checkpoint stood."""
        for name in _SAVED:
            setattr(self, name, state[name])
        self.patience = Patience(**state["schedule"])
        self._fresh_optimizer()
        self.optimizer.load_state_dict(state["optimizer"])

    def _end_epoch(self) -> dict[str, Any]:
        network = self.method.model
        if self.ranks.size > 1:
            self.ranks.copy_first_([*network.parameters(), *network.buffers()])
        mean_loss = self.loss_sum / max(self.examples_seen, 1)
        if not math.isfinite(mean_loss):
            raise TaskError(
                f"The loss of task {self.task.name!r} became {mean_loss} in epoch {self.epoch}. "
                f"Lower `lr` (now {self.plan.lr / self.patience.slower:g}), set `clip_norm`, or "
                "look at the data for values that are not finite."
            )
        told = {"task": self.task.index, "epoch": self.epoch, "loss": mean_loss}
        if self.plan.patience is not None:
            told["validation_loss"] = judged = self._validation_loss()
            advice = self.patience.judge(judged, self.plan)
            if advice is Advice.KEEP:
                self._remember()
            elif advice is Advice.SLOW_DOWN:
                self._fresh_optimizer()
            self.stopped = advice is Advice.STOP
            told["slower"] = self.patience.slower
        self.epoch, self.batch, self.loss_sum, self.examples_seen = self.epoch + 1, 0, 0.0, 0
        return told

    @torch.no_grad()
    def _validation_loss(self) -> float:
        with self.method.inference(self.task.index) as network:
            autocast = self.plan.autocast(self.device)
            mean_loss = validation_loss(
                network, self.task, self.loss, ranks=self.ranks, autocast=autocast
            )
        if self.plan.select_by == "penalised":
            some = next(iter(iterate(self.task.validation(), self.plan.batch_size)))
            step = self._step(some.inputs.to(self.device), self.plan.batch_size, 1.0)
            mean_loss += float(self.method.penalty(step))
        return mean_loss

    def _step(self, inputs: Tensor, batch_size: int, progress: float) -> Step:
        return Step(
            task=self.task.index,
            inputs=inputs,
            batch_size=batch_size,
            progress=progress,
            examples=self.examples,
        )

    def _losses(self) -> Iterable[Tensor]:
        for batch in portion(self.task.train, self.plan.batch_size, self.ranks, _UNCUT):
            placed = batch.to(self.device)
            outputs = run(self.method.model, placed.inputs, placed.task)
            yield example_losses(self.loss, outputs, placed.targets)

    def _fresh_optimizer(self) -> None:
        groups = self.method.parameter_groups(self.plan.lr)
        self.optimizer = self.plan.make_optimizer(groups, self.patience.slower)
        self._full_rates = [group["lr"] for group in self.optimizer.param_groups]

    def _set_rates(self, coming: int) -> None:
        """Every group's learning rate for a step of `coming` examples, as the plan has it in the
        step's middle: there no rate is 0. It follows from where the loop stands alone."""
        if not self.plan.is_scheduled:
            return
        epoch = min((self.examples_seen + coming / 2) / max(self.examples, 1), 1.0)
        rate = self.plan.rate((self.epoch + epoch) / self.plan.epochs)
        for group, full in zip(self.optimizer.param_groups, self._full_rates, strict=True):
            group["lr"] = full * rate

    def _remember(self) -> None:
        """The present state is the best so far; written over the one before it, if any."""
        state = self.method.state_dict()
        if self.best is None:
            self.best = {key: tensor.detach().clone() for key, tensor in state.items()}
            return
        for key, tensor in state.items():
            self.best[key].copy_(tensor)


def validation_loss(
    network: nn.Module,
    task: Task,
    loss: Loss,
    size: int = 1024,
    *,
    ranks: Ranks = ALONE,
    autocast: AbstractContextManager[Any] = AS_IT_IS,
) -> float:
    """Mean loss over the task's validation data, of which each process goes through a part."""
    losses = partial(example_losses, loss)
    return mean_score(network, task.validation(), losses, size, ranks=ranks, autocast=autocast)


def mean_score(
    network: nn.Module,
    data: DataLike,
    score: Score = correct,
    size: int = 1024,
    *,
    ranks: Ranks = ALONE,
    autocast: AbstractContextManager[Any] = AS_IT_IS,
) -> float:
    """The mean over all examples of the score of `network`, as it is, computed under `autocast`."""
    total, count = 0.0, 0.0
    device = next(network.parameters()).device
    for batch in portion(data, size, ranks):
        placed = batch.to(device)
        with autocast:
            outputs = run(network, placed.inputs, placed.task)
        total += float(score(_all_digits(outputs), placed.targets).sum())
        count += len(placed.targets)
    total, count = ranks.sum(total, count)
    return total / max(count, 1)


# -- which examples are whose, where several processes learn one model -----------------------


def share(batch: Batch, ranks: Ranks) -> Batch:
    """This process's part of a batch; never empty (see `Ranks.share`)."""
    return batch if ranks.size == 1 else batch.rows(ranks.share(len(batch.targets)))


def portion(data: DataLike, size: int, ranks: Ranks, uncut: int = 1) -> Iterator[Batch]:
    """This process's part of `data`, consecutive examples in batches of at most `size`.

    Args:
        data: examples; every process goes through the same ones.
        size: examples per batch.
        ranks: the processes.
        uncut: so many examples that belong together go to one process.
    """
    batches = iterate(data, size)
    if ranks.size == 1:
        return batches
    own = ranks.portion(len(data), uncut)
    if ranks.rank == ranks.size - 1:  # a loader's length need not be what it yields
        own = range(own.start, sys.maxsize)
    return cut(begun_from_seed(batches, 0), own)  # a loader that shuffles: alike in every process


def cut(batches: Iterable[Batch], positions: range) -> Iterator[Batch]:
    """What of an epoch of batches lies at `positions`, in batches.

    >>> parts = [torch.arange(3), torch.arange(3, 5)]
    >>> some = [Batch(part.float(), part, 0) for part in parts]
    >>> [batch.inputs.tolist() for batch in cut(some, range(2, 4))]
    [[2.0], [3.0]]
    """
    begin = 0
    for batch in batches:
        count = len(batch.targets)
        first, last = max(positions.start - begin, 0), min(positions.stop - begin, count)
        if first < last:
            yield batch.rows(slice(first, last))
        begin += count
