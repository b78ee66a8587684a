"""HAT, hard attention to the task (Serrà, Surís, Miron, Karatzoglou; ICML 2018).

Every task has a gate a = sigmoid(s e) at every hidden node (see `gates`) and learns, along with the
weights, which nodes it uses. What an earlier task uses is not changed any more: the gradient of
the weight from feature j to node i is multiplied by

    1 - min(u_i, u_j)

where u is 1 for what any earlier task uses, else 0. So a weight may still be learned if either of
its ends is free: to earlier tasks that end is closed, and all that comes through it is 0. A task is
charged for the free nodes that it opens:

    mean loss  +  c * sum_i a_i (1 - u_i) / sum_i (1 - u_i)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from uclearn.errors import SettingError, TaskError, UnsupportedLayerError
from uclearn.methods.contract import (
    Inputs,
    Losses,
    Method,
    Step,
    StepFields,
    as_step,
    groups_apart,
    lent,
)
from uclearn.methods.facts import Cost, Facts, Range
from uclearn.methods.hat import gates
from uclearn.methods.hat.gates import Kept, NodeGates, keep
from uclearn.methods.hat.wiring import wire
from uclearn.methods.parts.wrapper import check_setting
from uclearn.networks import MultiHead, has_heads
from uclearn.tasks.task import Task


class HAT(Method):
    """Each task opens the nodes it needs; the weights that make them are kept, bit for bit.

    When a task ends, its gates become 0 or 1 and stay so, and what they let through stays exactly
    as it is, under any optimiser: a task's predictions never change again. Gates stand behind every
    hidden layer. Heads, and the output layer of a network without heads, have none; there, too,
    what an earlier task reads is kept. Normalisations are kept whole after the first task, and
    batch norms with running statistics are refused: they belong to all tasks at once.

    A loop must call `begin_step`, `adjust_gradients` and `end_step`. The task being learned is the
    one that `begin_task` named last; `end_task` goes on to the next. Published with
    plain SGD and a learning rate of 0.05; Adam with a falling rate works, too. Beyond the
    embeddings, it holds a second copy of the weights and a mask of their size, to put back what
    momentum and weight decay move.

    Args:
        model: any network of Linear, Conv, Embedding and normalisation layers; copied.
        example: a small batch of inputs, to find out which nodes feed which weights (a tuple for
            several arguments).
        tasks: how many there will be, known in advance: each has its embeddings from the start.
        strength: c, what opening all free nodes costs, in units of the loss. It is relative to
            their number already and needs no rule.
        smax: the largest scale of the gates.
        seed: of the embeddings.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> method = HAT(net, torch.zeros(1, 4), tasks=2)
    >>> optimizer = torch.optim.SGD(method.parameter_groups(lr=0.05))
    >>> method.begin_step(progress=0.5)
    >>> loss = method.model(torch.randn(16, 4)).square().mean() + method.penalty()
    >>> loss.backward(); method.adjust_gradients(); optimizer.step(); method.end_step()
    >>> method.end_task()
    >>> method.used()["0"].shape
    torch.Size([8])
    """

    facts = Facts(
        needs_task=True,
        answers_alike=False,
        search={"strength": Range(0.05, 5.0, log=True), "smax": Range(50.0, 2000.0, log=True)},
        cost=lambda n: Cost(  # trained by SGD, which has no moments
            n.plain + n.tasks * n.hidden, n.shared + n.head + n.tasks * n.hidden, moments=0
        ),
    )

    present: Tensor

    def __init__(
        self,
        model: nn.Module,
        example: Any,
        *,
        tasks: int,
        strength: float = 0.75,
        smax: float = 400.0,
        seed: int = 0,
    ) -> None:
        _check_settings(tasks, strength, smax)
        super().__init__(model)
        self.tasks, self.strength, self.smax = tasks, strength, smax
        self._found = gates.gateable(self.model)
        self._wiring = wire(self.model, example, self._found, heads=has_heads(self.model))
        generator = torch.Generator().manual_seed(seed)
        self._gates: dict[str, NodeGates] = {
            name: gates.add_gate(layer, tasks, smax, generator)
            for name, layer in self._found.layers.items()
            if name not in self._wiring.outputs
        }
        if not self._gates:
            raise UnsupportedLayerError(
                "This model has no hidden nodes that could be gated: all its layers make outputs. "
                "Put a hidden layer before the output layer."
            )
        self.register_buffer("present", torch.tensor(0))
        self._kept: list[Kept] = []
        self._exposed: list[Kept] = []
        self._free = torch.zeros(0)
        # the hook is handed its module: a copy of this method must not reach back to it
        self.register_load_state_dict_post_hook(lambda method, _: method._restore())  # type: ignore[no-untyped-call]
        self._restore()

    # -- the contract ----------------------------------------------------------------------

    def begin_task(self, task: Task) -> Task:
        """Its head is added; its gates are the ones that learn."""
        if task.index >= self.tasks:
            raise TaskError(
                f"Task {task.name!r} has `index` {task.index}, but this HAT was built for "
                f"{self.tasks} tasks. It must know their number in advance: give a larger `tasks`."
            )
        self._enter(task.index)
        return super().begin_task(task)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """The weights, then the embeddings, which no weight decay may pull to the half-open 0."""
        return groups_apart(self.model, (gate.embedding for gate in self._gates.values()), lr)

    def begin_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """The gates harden as the epoch goes on."""
        progress = as_step(step, given).need("progress", "gates harden as an epoch goes on")
        if not 0 <= progress <= 1:
            raise SettingError(
                f"`progress` must lie between 0 and 1, got {progress}. It is how much of the epoch "
                "is over."
            )
        scale = gates.anneal(progress, self.smax)
        for gate in self._gates.values():
            gate.scale.fill_(scale)

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """`c * sum a (1 - u) / sum (1 - u)`, at the scale of the step's progress, or else the one
        that `begin_step` set."""
        progress = as_step(step, given).progress
        scale = None if progress is None else gates.anneal(progress, self.smax)
        opened = torch.cat([gate.soft(scale) for gate in self._gates.values()])
        return self.strength * gates.sparsity(opened, self._free)

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """Nothing for what earlier tasks use; for the embeddings, more where gates are steep."""
        self._exposed = gates.mask_gradients(self._kept)
        learning = [g for g in self._gates.values() if g.embedding.grad is not None]
        if learning:  # all layers at once: their nodes are few
            embeddings = torch.cat([gate.embedding.detach()[gate.task] for gate in learning])
            factors = gates.compensation(embeddings, learning[0].scale, self.smax)
            for gate, own in zip(learning, factors.split([g.nodes for g in learning]), strict=True):
                assert gate.embedding.grad is not None
                gate.embedding.grad[gate.task].mul_(own)

    @torch.no_grad()
    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """What earlier tasks use is put back, should the optimiser have moved it; embeddings stay
        where they can learn."""
        gates.put_back(self._exposed)
        for gate in self._gates.values():
            # those of other tasks have not moved
            gate.embedding[gate.task].clamp_(-gates.EMBEDDING_LIMIT, gates.EMBEDDING_LIMIT)

    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """The gates become 0 or 1; what they let through is kept. The next task's gates are up."""
        present = int(self.present)
        if present >= self.tasks:
            raise TaskError(
                f"All {self.tasks} tasks that this HAT was built for are over. It must know their "
                "number in advance: give a larger `tasks`."
            )
        for gate in self._gates.values():
            gate.finish()
        self._enter(present + 1)
        self._restore()

    @contextmanager
    def inference(self, task: int | None = None) -> Iterator[nn.Module]:
        """The network with the task's gates, 0 or 1; None: those of the task being learned."""
        if task is not None and not 0 <= task < self.tasks:
            raise TaskError(
                f"`task` must be one of the {self.tasks} tasks that this HAT was built for (0 to "
                f"{self.tasks - 1}), got {task}."
            )
        before = [gate.task for gate in self._gates.values()]
        with lent(self.model) as network:
            try:
                for gate in self._gates.values():
                    gate.task = gate.task if task is None else task
                yield network
            finally:
                for gate, own in zip(self._gates.values(), before, strict=True):
                    gate.task = own

    # -- for people ------------------------------------------------------------------------

    def used(self) -> dict[str, Tensor]:
        """Per gated layer (nodes,) bool: the nodes that finished tasks use."""
        return {name: gate.used() for name, gate in self._gates.items()}

    # -- inside ----------------------------------------------------------------------------

    def _enter(self, task: int) -> None:
        self.present.fill_(task)
        for gate in self._gates.values():
            gate.task = min(task, self.tasks - 1)  # after the last, its gates stay

    def _restore(self) -> None:
        """Follow what the state says: after the end of a task and after loading one."""
        self._enter(int(self.present))
        used = torch.cat([gate.used() for gate in self._gates.values()])
        self._free = 1 - used.to(next(iter(self._gates.values())).embedding.dtype)
        self._kept = self._exposed = [*self._kept_layers(), *self._kept_shared()]

    def _kept_layers(self) -> Iterator[Kept]:
        """What makes a used node out of features that are alive where it is used."""
        nodes = self._used_nodes()
        for name, layer in self._found.layers.items():
            own = nodes[self._wiring.topology.nodes(name)]
            for which, parameter in layer.named_parameters(recurse=False):
                if which == "weight":
                    alive = self._wiring.alive(name, nodes)
                    yield from keep(parameter, gates.join_mask(layer, own, alive))
                else:
                    yield from keep(parameter, own)

    def _kept_shared(self) -> Iterator[Kept]:
        """Normalisations, once a task is finished, and the heads of finished tasks."""
        finished = next(iter(self._gates.values())).finished
        for norm in self._found.norms.values():
            for parameter in norm.parameters(recurse=False):
                yield from keep(parameter, finished.any())
        for heads in (m.heads for m in self.model.modules() if isinstance(m, MultiHead)):
            for over, head in zip(finished, heads, strict=False):
                for parameter in head.parameters():
                    yield from keep(parameter, over)

    def _used_nodes(self) -> Tensor:
        """(total,) bool: inputs always, outputs once a task is finished, gated nodes by gates."""
        nodes = torch.zeros(
            self._wiring.topology.total, dtype=torch.bool, device=self.present.device
        )
        nodes[self._wiring.inputs] = True
        for name, gate in self._gates.items():
            nodes[self._wiring.topology.nodes(name)] = gate.used()
        for name in self._wiring.outputs:
            nodes[self._wiring.topology.nodes(name)] = gate.finished.any()
        return nodes

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        result = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if hasattr(self, "_kept"):
            self._restore()  # what was worked out lives where the weights live
        return result


def _check_settings(tasks: int, strength: float, smax: float) -> None:
    if tasks < 1:
        raise SettingError(
            f"`tasks` must be at least 1, got {tasks}. It is how many tasks there will be; each "
            "has its gates from the start."
        )
    costs = "It is what opening a free node costs; the paper uses 0.75."
    check_setting("strength", strength, costs)
    if not (smax > 1 and math.isfinite(smax)):
        raise SettingError(
            f"`smax` must be greater than 1 and finite, got {smax}. Within an epoch the gates' "
            "scale goes from 1/smax to smax; the paper uses 400."
        )
