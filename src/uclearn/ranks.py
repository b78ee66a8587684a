"""Several processes that learn one model together, each with its share of every batch.

Where torch.distributed has been initialised, all its processes are taken to learn one model;
`present()` says which of them this one is. Alone, every word here does nothing.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from uclearn.errors import SettingError, UclearnError

Item = TypeVar("Item")

_REMEDY = "The run cannot go on without it; the same command goes on from the last checkpoint."

PATIENCE = timedelta(minutes=10)
"""How long a process waits for one that is alive but does not answer; a dead one is noticed at
once."""


class RanksError(UclearnError):
    """The processes of a run lost each other."""


@dataclass(frozen=True)
class Ranks:
    """Which process this is, and what all of them do together.

    Args:
        rank: the number of this process.
        size: how many there are.

    >>> alone = Ranks()
    >>> alone.is_first, alone.sum(2.0, 3.0), alone.any(False, True)
    (True, [2.0, 3.0], [False, True])
    """

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    # -- shares ----------------------------------------------------------------------------

    def share(self, count: int) -> slice:
        """Which examples of a batch of `count` are this process's: every `size`-th.

        With fewer examples than processes some have none; those take the first, which must then
        count for nothing (`weight`).

        >>> [list(range(5))[Ranks(rank, 2).share(5)] for rank in range(2)]
        [[0, 2, 4], [1, 3]]
        """
        return slice(self.rank, None, self.size) if self.rank < count else slice(0, 1)

    def weight(self, count: int) -> float:
        """The part of a batch of `count` examples that is this process's; over all of them 1.

        >>> [Ranks(rank, 2).weight(5) for rank in range(2)]
        [0.6, 0.4]
        """
        return len(range(self.rank, count, self.size)) / count

    def portion(self, count: int, multiple: int = 1) -> range:
        """A run of consecutive examples for each process, cut at multiples of `multiple`.

        >>> [Ranks(rank, 2).portion(101, multiple=20) for rank in range(2)]
        [range(0, 40), range(40, 101)]
        """
        ends = [count * rank // (self.size * multiple) * multiple for rank in range(self.size)]
        return range(ends[self.rank], [*ends, count][self.rank + 1])

    def dealt(self, items: Iterable[Item]) -> Iterator[Item]:
        """Every `size`-th item is this process's.

        >>> list(Ranks(1, 2).dealt("abcde"))
        ['b', 'd']
        """
        return itertools.islice(items, self.rank, None, self.size)

    # -- together --------------------------------------------------------------------------

    def sum(self, *numbers: float) -> list[float]:
        """Each number summed over all processes, in double precision."""
        if self.size == 1:
            return list(numbers)
        together = torch.tensor(numbers, dtype=torch.float64, device=_message_device())
        self.sum_([together])
        return together.tolist()

    def any(self, *flags: bool) -> list[bool]:
        """Each flag, raised if any process raised it."""
        return [number > 0 for number in self.sum(*map(float, flags))]

    def wait(self) -> None:
        """Until all processes have come this far."""
        self.any(False)

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Each tensor becomes its sum over all processes."""
        if self.size > 1:
            with _company():
                for tensor in tensors:
                    dist.all_reduce(tensor)

    @torch.no_grad()
    def copy_first_(self, tensors: Iterable[Tensor]) -> None:
        """Each tensor becomes what it is in the first process."""
        if self.size > 1:
            with _company():
                for tensor in tensors:
                    dist.broadcast(tensor, src=0)

    def gather(self, tensor: Tensor) -> Tensor:
        """(size, ...): the tensors of all processes."""
        if self.size == 1:
            return tensor[None]
        sent = tensor.to(_message_device())
        room = [torch.empty_like(sent) for _ in range(self.size)]
        with _company():
            dist.all_gather(room, sent)
        return torch.stack(room).to(tensor.device)

    @torch.no_grad()
    def average_gradients(
        self, parameters: Iterable[nn.Parameter], weight: float, value: Tensor
    ) -> Tensor:
        """The gradients of all processes, weighed and summed; `value` likewise, which is returned.

        A parameter that no process has a gradient for keeps none, so that optimisers leave it
        alone (the heads of other tasks); where some have one, the others count as 0.

        Args:
            parameters: the same, in the same order, in every process.
            weight: of this process's gradients; over all processes 1.
            value: a number, such as the loss.
        """
        if self.size == 1:
            return value
        given = list(parameters)
        # Two messages: heads of other tasks, which nobody has a gradient for, do not travel.
        known = (float(parameter.grad is not None) for parameter in given)
        averaged, *processes = self.sum(weight * float(value), *known)
        moved = [parameter for parameter, count in zip(given, processes, strict=True) if count]
        for gradients in _by_type(moved):
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            flat *= weight
            self.sum_([flat])
            pieces = flat.split([gradient.numel() for gradient in gradients])
            for gradient, piece in zip(gradients, pieces, strict=True):
                gradient.copy_(piece.view_as(gradient))
        return torch.full_like(value, averaged)


ALONE = Ranks()
"""One process."""


def present() -> Ranks:
    """This process among those that learn one model: all that torch.distributed knows of."""
    if dist.is_available() and dist.is_initialized():
        return Ranks(dist.get_rank(), dist.get_world_size())
    return ALONE


def launched() -> bool:
    """Whether torchrun, or what speaks like it, started this process beside others."""
    told = os.environ
    return {"RANK", "MASTER_ADDR"} <= told.keys() and int(told.get("WORLD_SIZE", "1")) > 1


@contextmanager
def together() -> Iterator[Ranks]:
    """Within: joined with the other processes that torchrun started, if it did.

    Tensors on the CPU travel by gloo, those on a GPU by nccl.
    """
    if not launched() or dist.is_initialized():
        yield present()
        return
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(choose_device("cuda"))
        backend = "cpu:gloo,cuda:nccl"
    with _company("Could not meet"):
        dist.init_process_group(backend, timeout=PATIENCE)
    signal.signal(signal.SIGTERM, _say_why)
    try:
        yield present()
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            dist.destroy_process_group()
        raise
    dist.destroy_process_group()  # not after an error: the others may be gone


def choose_device(wanted: str | None = None) -> torch.device:
    """The device to learn on.

    Args:
        wanted: as torch names it; None: a GPU if there is one, else the CPU. Of several GPUs each
            process that torchrun started takes its own.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    name = wanted or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingError(
            f"`device` must be one that this machine has, such as cpu or cuda, got {name!r}: "
            f"{reason}"
        ) from error
    if device == torch.device("cuda"):  # none in particular
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


def _say_why(number: int, frame: object) -> None:
    """Torchrun ends the others when one process has died; they say so, and die of its signal."""
    sys.stderr.write(f"Ended by torchrun, as another process of this run has ended. {_REMEDY}\n")
    sys.stderr.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextmanager
def _company(trouble: str = "Lost touch with") -> Iterator[None]:
    """What the backends say when another process is gone, in words."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise RanksError(
            f"{trouble} the other processes of this run: one of them has ended or does not "
            f"answer. {_REMEDY} (torch.distributed: {' '.join(str(error).split())})"
        ) from error


def _message_device() -> torch.device:
    """Where a tensor must live to travel: nccl alone carries nothing from the CPU."""
    return torch.device("cpu" if "gloo" in str(dist.get_backend_config()) else "cuda")


def _by_type(parameters: Iterable[nn.Parameter]) -> Iterable[list[Tensor]]:
    """The gradients, 0 where there is none, in groups that one message can carry."""
    groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        groups.setdefault((parameter.dtype, parameter.device), []).append(parameter.grad)
    return groups.values()
