"""The one contract: what a method of continual learning is.

A `Method` is a module that owns a network, plus what it must not forget. Unchanged, it *is*
fine-tuning. Eight hooks, each with a neutral default, in the order in which a loop calls them:

    task = method.begin_task(task)                      # adds a head; returns the data to train on
    optimizer = Adam(method.parameter_groups(lr=1e-3))
    for x, y in ...:
        method.begin_step(step)
        loss = loss_fn(method.model(x), y) + method.penalty(step)
        optimizer.zero_grad(); loss.backward()
        method.adjust_gradients(step)                   # these two lines: or `move`
        optimizer.step()
        method.end_step(step)
    method.end_task(task, losses)
    with method.inference(task) as network: ...

In a loop of your own the keywords that a method needs suffice, `method.penalty(batch_size=256)`;
no step has to be built. Everything a method remembers lives in its `state_dict`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from uclearn.errors import CheckpointError, TaskError
from uclearn.gaussian.noise import Noise
from uclearn.methods.facts import Facts, remembers_nothing
from uclearn.methods.losses import Loss
from uclearn.networks import MultiHead, run
from uclearn.ranks import present
from uclearn.tasks.data import iterate
from uclearn.tasks.task import Task

Losses = Callable[[], Iterable[Tensor]]
"""Calls up the finished task once more: batches of per-example losses, (batch,), with graph."""

Inputs = Iterable[Any] | None
"""Batches of the finished task's inputs; None: they are to be taken from the task."""


class StepFields(TypedDict, total=False):
    """What a step says, as keywords."""

    task: int
    inputs: Any
    batch_size: int
    progress: float
    examples: int


@dataclass(frozen=True)
class Step:
    """Where a loop stands. A loop of one's own may leave out what its method does not need."""

    task: int = 0
    """Number of the task being learned."""
    inputs: Any = None
    """The batch, as the network gets it."""
    batch_size: int | None = None
    """Examples behind one move of the optimiser: all micro-batches, all processes."""
    progress: float | None = None
    """How much of the epoch is over, 0 to 1."""
    examples: int | None = None
    """Training examples of the task."""

    def need(self, field: str, why: str) -> Any:
        """A field that the method cannot do without.

        >>> Step(batch_size=256).need("batch_size", "the penalty is divided by it")
        256
        """
        value = getattr(self, field)
        if value is None:
            raise TaskError(
                f"`{field}` is needed here: {why}. Pass it as a keyword, `{field}=...`, "
                "or in the step."
            )
        return value


def as_step(step: Step | None, given: StepFields) -> Step:
    """The step a hook was called with, in either spelling."""
    return replace(step or Step(), **given) if given or step is None else step


class Method(nn.Module):
    """A network, plus what it must not forget. As it stands here it forgets: fine-tuning.

    Args:
        model: the network; the method works on a copy.
        copied: `model` is a (converted) copy already.

    >>> method = Method(nn.Linear(2, 2))
    >>> method.penalty()
    tensor(0.)
    """

    facts: ClassVar[Facts] = Facts(grow=remembers_nothing)
    """What the rest of the package needs to know about the method."""
    closed_form: bool = False
    """True: `adjust_gradients` adds the penalty's gradient itself, in place, and `penalty` is only
    there to be looked at (its value is true, it has no gradient). A loop that adds the penalty to
    its loss all the same stays right."""
    noise: Noise | None = None
    """What the method draws its weights from, None: it draws none. Processes that learn one model
    must each draw from a stream of their own: `method.noise.stream = rank`."""
    task_steps: int | None = None
    """Steps that the loop means to take in the task, None: it does not say. Settings by rule may
    follow it; say it before `parameter_groups`."""
    _loss_of_loop: tuple[Loss | None] = (None,)  # in a tuple: a loss that is a module is no part

    def __init__(self, model: nn.Module, *, copied: bool = False) -> None:
        super().__init__()
        self.model = (model if copied else copy.deepcopy(model)).train()

    # -- the eight hooks -------------------------------------------------------------------

    def begin_task(self, task: Task) -> Task:
        """A task begins: its head is added; the data to train on are returned."""
        if isinstance(self.model, MultiHead):
            while len(self.model.heads) <= task.index:
                if task.classes is None:
                    raise TaskError(
                        f"Task {task.name!r} needs a head, but its `classes` is None. Give the "
                        "number of outputs as `classes`, or use a network without heads."
                    )
                self.model.add_head(task.classes)
        return task

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """What the optimiser moves; each trainable parameter exactly once."""
        return [{"params": [p for p in self.model.parameters() if p.requires_grad], "lr": lr}]

    def begin_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """Before the forward pass."""

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """What is added to the loss."""
        return torch.zeros((), device=next(self.model.parameters()).device)

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """After backward, before clipping."""

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """After the optimiser moved."""

    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """A task is over: consolidate.

        Args:
            task: the finished task, as `begin_task` returned it.
            losses: its per-example losses, for methods that measure importance by them.
            inputs: batches of its inputs, for methods that need them.
        """

    def inference(self, task: int | None = None) -> AbstractContextManager[nn.Module]:
        """Lends the network to predict with, and leaves no trace."""
        return lent(self.model)

    # -- two hooks' worth in one -----------------------------------------------------------

    def move(
        self, optimizer: Optimizer, step: Step | None = None, **given: Unpack[StepFields]
    ) -> None:
        """`adjust_gradients`, then a step of the optimiser: for loops with nothing in between. With
        `uclearn.Adam` UCL does both in one pass; gradients are then left without the penalty's."""
        self.adjust_gradients(step, **given)
        optimizer.step()

    # -- the loop's loss -------------------------------------------------------------------

    def use_loss(self, loss: Loss | None) -> None:
        """Say which loss, per example, the loop learns with. A method that also trains by itself
        (VCL's start, a coreset's refits) uses it, unless it was built with a loss of its own.
        None, or not called at all: cross-entropy for labels, squared error for other targets."""
        self._loss_of_loop = (loss,)

    # -- saved states ----------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As torch's, but all or nothing: a state that does not fit leaves everything as it was."""
        rehearsal = copy.deepcopy(self)
        try:
            nn.Module.load_state_dict(rehearsal, state_dict, strict, assign)
        except (RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"`state_dict` must come from a {type(self).__name__} that was built from the "
                "same network with the same settings. Nothing was loaded, because of this "
                f"difference: {error}"
            ) from error
        return super().load_state_dict(state_dict, strict, assign)


def is_own(hook: Callable[..., Any], definition: Callable[..., Any]) -> bool:
    """Whether a method's hook is that very definition, neither overridden nor replaced."""
    return getattr(hook, "__func__", None) is definition


@contextmanager
def lent(model: nn.Module) -> Iterator[nn.Module]:
    """The model in evaluation mode; afterwards every module is in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield model
    finally:
        for module, training in modes:
            module.training = training


def forward_passes(
    model: nn.Module, task: Task | None, inputs: Inputs, head: int = 0
) -> Iterator[Tensor]:
    """Outputs over a finished task's inputs: of `inputs` through the head of that number, or else
    of `task`, of which each of several processes takes some batches."""
    if inputs is not None:
        for batch in inputs:
            yield run(model, batch, head)
    elif task is not None:
        device = next(model.parameters()).device
        for prepared in present().dealt(iterate(task.train, 256)):
            yield run(model, prepared.inputs.to(device), prepared.task)


def groups_apart(
    model: nn.Module, apart: Iterable[nn.Parameter], lr: float, lr_apart: float | None = None
) -> list[dict[str, Any]]:
    """Two parameter groups: what is trained at `lr`, and the parameters `apart` at `lr_apart`
    (None: `lr`), which no weight decay may move."""
    chosen = {id(parameter) for parameter in apart}
    parameters = [p for p in model.parameters() if p.requires_grad]
    own = [p for p in parameters if id(p) in chosen]
    return [
        {"params": [p for p in parameters if id(p) not in chosen], "lr": lr},
        {"params": own, "lr": lr if lr_apart is None else lr_apart, "weight_decay": 0.0},
    ]


def trainable(model: nn.Module, without: Sequence[str] = ()) -> dict[str, nn.Parameter]:
    """Trainable parameters by name, leaving out those below the named modules (heads)."""
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and not name.startswith(tuple(f"{w}." for w in without))
    }


def gradient_of(parameter: nn.Parameter) -> Tensor:
    """The parameter's gradient, made if it has none yet."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
