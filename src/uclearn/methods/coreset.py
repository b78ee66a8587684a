"""Coresets: some examples of each task are withheld from training and learned last of all.

When the network is to predict, a copy of it is refitted on them, used, and thrown away; what goes
on learning has never seen them. From VCL (Nguyen, Li, Bui, Turner; ICLR 2018); it works around any
method.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Unpack

import torch
from torch import Tensor, nn

from uclearn.choices import check_choice
from uclearn.errors import SettingError, TaskError
from uclearn.fields import Examples, as_buffers, from_buffers
from uclearn.methods.contract import Inputs, Losses, Method, Step, StepFields
from uclearn.methods.losses import Loss
from uclearn.methods.parts.fit import fit, fit_settings
from uclearn.methods.parts.wrapper import Wrapper
from uclearn.networks import has_heads
from uclearn.tasks.data import Data, DataLike, generator, iterate, join
from uclearn.tasks.loader import stored
from uclearn.tasks.task import Task


class WithCoreset(Wrapper):
    """Any method, with a coreset per task.

    After a task has ended, `inference` lends a copy of the network that was refitted on coresets by
    the method itself, its penalty included: with heads on the coreset of the task that is asked
    for, without on those of all tasks together. Refitted copies are kept until the method changes,
    so that looking again costs nothing; with heads there may be one for each task. While a task is
    being learned, between `begin_task` and `end_task`, the network is lent as it is.

    It holds `size` prepared examples per task.

    Args:
        method: the method that is wrapped; not copied.
        size: examples that are withheld of each task (the paper: 200, and 40 for small tasks).
        choice: `"random"`, or `"k-center"`: examples that cover the task's inputs.
        refit_epochs: how many times a refit goes through the examples.
        refit_lr: its learning rate, with Adam.
        refit_batch_size: its examples per step.
        loss: of the refit, per example; None: that of the loop (see `use_loss`).
        seed: of the choice and of the refit.
    """

    learning: Tensor

    def __init__(
        self,
        method: Method,
        *,
        size: int = 200,
        choice: Choice = "random",
        refit_epochs: int = 20,
        refit_lr: float = 1e-3,
        refit_batch_size: int = 256,
        loss: Loss | None = None,
        seed: int = 0,
    ) -> None:
        _check_settings(size, choice)
        super().__init__(method)
        self._refit_settings = fit_settings("refit", refit_epochs, refit_lr, refit_batch_size, seed)
        self.size, self.choice, self.seed = size, choice, seed
        self.loss = loss
        self.coresets = Withheld()
        self.register_buffer("learning", torch.tensor(False))
        self._refits = _Refits()

    # -- the contract ----------------------------------------------------------------------

    def begin_task(self, task: Task) -> Task:
        """The coreset is chosen; the method gets the rest to train on."""
        data = stored(task.train)
        if not self.size < len(data):
            raise TaskError(
                f"`size` must be smaller than the number of training examples, got {self.size}; "
                f"task {task.name!r} has {len(data)}. They are withheld from training."
            )
        draw = generator(self.seed, f"coreset {task.index}")
        chosen = CHOICES[self.choice](data, self.size, draw)
        rest = torch.ones(len(data), dtype=torch.bool)
        rest[chosen] = False
        self.coresets.put(task, data.subset(chosen))
        self.learning.fill_(True)
        train = data.subset(rest.nonzero().flatten())
        return self.method.begin_task(replace(task, train=train))

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """As the inner method; copies that were refitted before are out of date."""
        self.method.end_step(step, **given)
        self._refits.clear()

    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """The method consolidates; from now on predictions are made by refitted copies."""
        self.method.end_task(task, losses, inputs=inputs)
        self.learning.fill_(False)
        self._refits.clear()

    @contextmanager
    def inference(self, task: int | None = None) -> Iterator[nn.Module]:
        """A copy refitted on the task's coreset, or without heads on all of them together."""
        with self._lender(task).inference(task) as network:
            yield network

    # -- inside ----------------------------------------------------------------------------

    def _lender(self, task: int | None) -> Method:
        """The method that lends its network: a refitted copy, if there is anything to refit on."""
        known = self.coresets.tasks()
        if self.learning or not known or not self._refit_settings["epochs"]:
            return self.method
        shared = not has_heads(self.model)
        task = max(known) if task is None or shared else task
        if task not in known:
            return self.method
        refits = self._refits.as_of(self)
        if task not in refits:
            refits[task] = self._refit(task, known if shared else [task])
        return refits[task]

    def _refit(self, task: int, tasks: list[int]) -> Method:
        # evaluation may have switched gradients off, and tensors made in inference mode never learn
        with torch.inference_mode(False), torch.enable_grad():
            method = copy.deepcopy(self.method)
            if method.noise is not None:
                method.noise.stream = 0  # every process makes the same copy
            refitted = method.begin_task(self.coresets.as_task(task, tasks))
            loss = self.loss or self._loss_of_loop[0]
            fit(method, refitted.train, task=task, loss=loss, **self._refit_settings)
        return method


class _Refits:
    """Refitted copies by task, as long as the method is what it was when they were made."""

    def __init__(self) -> None:
        self._copies: dict[int, Method] = {}
        self._versions: list[tuple[int, int]] = []

    def as_of(self, method: Method) -> dict[int, Method]:
        """The copies that are up to date, to be added to."""
        tensors = [*method.parameters(), *method.buffers()]
        versions = [(tensor.data_ptr(), tensor._version) for tensor in tensors]
        if versions != self._versions:
            self._copies, self._versions = {}, versions
        return self._copies

    def clear(self) -> None:
        """Forget all copies: none is up to date."""
        self._copies = {}

    def __deepcopy__(self, memo: Any) -> _Refits:
        return _Refits()  # a copy of the method makes its own


def _check_settings(size: int, choice: Choice) -> None:
    if size < 1:
        raise SettingError(
            f"`size` must be at least 1, got {size}. It is the examples withheld of each task."
        )
    check_choice("choice", choice, CHOICES)


Choice = Literal["random", "k-center"]


def k_center(points: Tensor, count: int, first: int = 0) -> Tensor:
    """`count` of the points, each time the one furthest from those chosen before.

    The largest distance of any point to the nearest chosen one is at most twice the smallest that
    is possible (Gonzalez 1985).

    Args:
        points: (points, ...).
        count: how many to choose.
        first: where to start.

    Returns:
        (count,) int64: their positions, in the order of the choice.

    >>> k_center(torch.tensor([[0.0], [1.0], [10.0], [4.0]]), 3)
    tensor([0, 2, 3])
    """
    flat = points.flatten(1)
    squares = flat.square().sum(1)
    nearest = torch.full_like(squares, torch.inf)  # squared distance to the nearest chosen point
    chosen = []
    for _ in range(count):
        chosen.append(first)
        # |p - c|^2 as |p|^2 + |c|^2 - 2 p c: one matrix product, nothing of the size of the points
        nearest = torch.minimum(nearest, squares + squares[first] - 2 * flat.mv(flat[first]))
        nearest[first] = -torch.inf  # twins of it may be chosen, itself not again
        first = int(nearest.argmax())
    return torch.tensor(chosen)


def _random(data: DataLike, count: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(len(data), generator=generator)[:count]


def _covering(data: DataLike, count: int, generator: torch.Generator) -> Tensor:
    points = torch.cat([_points(batch.inputs) for batch in iterate(data, 4096)])
    return k_center(points, count, int(torch.randint(len(data), (), generator=generator)))


def _points(inputs: Examples) -> Tensor:
    """(examples, numbers) of whatever they consist of."""
    return torch.cat([p.flatten(1).float() for p in as_buffers("", inputs).values()], dim=1)


CHOICES: dict[str, Callable[[DataLike, int, torch.Generator], Tensor]] = {
    "random": _random,
    "k-center": _covering,
}
"""(data, how many, randomness) -> positions, by the name of the choice."""


class Withheld(nn.Module):
    """The coresets of all tasks so far: prepared inputs, targets and the number of classes."""

    def put(self, task: Task, data: DataLike) -> None:
        """Keep `data` as the coreset of `task`, in place of what it had."""
        batch = data.batch(torch.arange(len(data)))
        classes = -1 if task.classes is None else task.classes
        for name, part in as_buffers(f"inputs_{task.index}", batch.inputs.clone()).items():
            self.register_buffer(name, part)
        self.register_buffer(f"targets_{task.index}", batch.targets.clone())
        self.register_buffer(f"classes_{task.index}", torch.tensor(classes))

    def tasks(self) -> list[int]:
        """The numbers of the tasks that have one."""
        return sorted(int(n.removeprefix("classes_")) for n in self._buffers if n[:8] == "classes_")

    def data(self, task: int) -> Data:
        """The coreset of one task."""
        inputs = from_buffers(f"inputs_{task}", self._buffers)
        return Data(inputs, self._kept("targets", task), task=task)

    def as_task(self, index: int, tasks: Sequence[int]) -> Task:
        """The coresets of some tasks as what task number `index` is to learn."""
        classes = int(self._kept("classes", index))
        train = self.data(tasks[0]) if len(tasks) == 1 else join(map(self.data, tasks))
        return Task(f"coreset {index}", index, train, classes=None if classes < 0 else classes)

    def _kept(self, what: str, task: int) -> Tensor:
        return self.get_buffer(f"{what}_{task}")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        # a saved method may have met other tasks than this one: room for theirs, and only theirs
        saved = {k.removeprefix(prefix): v for k, v in state_dict.items() if k.startswith(prefix)}
        for name in [name for name in self._buffers if name not in saved]:
            delattr(self, name)
        for name, tensor in saved.items():
            self.register_buffer(name, torch.empty_like(tensor))
        super()._load_from_state_dict(state_dict, prefix, *others)
