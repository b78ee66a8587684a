"""Faults are planted in methods that keep the contract; the right check finds each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Unpack

import pytest
import torch
from torch import Tensor, nn

from uclearn.methods import checks
from uclearn.methods.baselines import FineTuning
from uclearn.methods.checks import CHECKS, Check, ContractError, Make, check_all
from uclearn.methods.contract import Losses, Method, Step, StepFields, as_step, lent
from uclearn.methods.ewc import EWC
from uclearn.methods.hat import HAT
from uclearn.methods.lwf import LwF
from uclearn.methods.replay import WithReplay
from uclearn.methods.ucl import UCL
from uclearn.methods.ucl.anchors import LayerAnchor
from uclearn.tasks import Data, Task


class Springs(Method):
    """A method of one's own, as small as they come: every weight on a spring.

    penalty = weight/2 * sum (theta - anchor)^2, with weight 0 before the first task has ended.
    """

    weight: Tensor

    def __init__(self, model: nn.Module, example: Any = None) -> None:
        super().__init__(model)
        self._names = [name for name, _ in self.model.named_parameters()]
        self.register_buffer("weight", torch.tensor(0.0))
        for name in self._names:
            self.keep(name, torch.zeros_like(self.model.get_parameter(name)))

    def keep(self, name: str, value: Tensor) -> None:
        self.register_buffer(self.place(name), value.detach().clone())

    def place(self, name: str) -> str:
        return "anchor " + name.replace(".", "/")

    def anchor(self, name: str) -> Tensor:
        return self.get_buffer(self.place(name))

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        moved = [self.model.get_parameter(name) - self.anchor(name) for name in self._names]
        return self.weight / 2 * torch.stack([each.square().sum() for each in moved]).sum()

    def end_task(
        self,
        task: Task | None = None,
        losses: Losses | None = None,
        *,
        inputs: Iterable[Any] | None = None,
    ) -> None:
        for name in self._names:
            self.keep(name, self.model.get_parameter(name))
        self.weight.fill_(1.0)


def test_a_method_of_ones_own_passes() -> None:
    check_all(Springs)


# -- faults in the words -----------------------------------------------------------------------


class ForgottenParameter(Springs):
    def __init__(self, model: nn.Module, example: Any = None) -> None:
        super().__init__(model)
        self.temperature = nn.Parameter(torch.tensor(1.0))


class ParameterTwice(Springs):
    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        return super().parameter_groups(lr) * 2


class ForgottenUncertainty(UCL):
    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        return super().parameter_groups(lr)[:1]


class ScalesTheData(Springs):
    def begin_task(self, task: Task) -> Task:
        assert isinstance(task.train, Data)
        task.train.inputs.mul_(2)
        return super().begin_task(task)


class MovesWeightsAtOnce(Springs):
    def begin_task(self, task: Task) -> Task:
        with torch.no_grad():
            self.model.get_parameter(self._names[0]).mul_(1.1)
        return super().begin_task(task)


class ReturnsNothing(Springs):
    def begin_task(self, task: Task) -> Task:
        super().begin_task(task)
        return None  # type: ignore[return-value]


class DividedByOneLess(Springs):
    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        size = as_step(step, given).need("batch_size", "it is divided by")
        return super().penalty() / torch.tensor(size - 1.0)


class OnePerLayer(Springs):
    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        return super().penalty().reshape(1)


class AnchorBesideTheWeights(Springs):
    def keep(self, name: str, value: Tensor) -> None:
        super().keep(name, value + 0.01)


class NeverBackToTraining(Springs):
    def inference(self, task: int | None = None) -> Any:
        return self._lend()

    @contextmanager
    def _lend(self) -> Iterator[nn.Module]:
        yield self.model.eval()


class AllBackToTraining(NeverBackToTraining):
    @contextmanager
    def _lend(self) -> Iterator[nn.Module]:
        yield self.model.eval()
        self.model.train()


class BackOnlyAfterSuccess(NeverBackToTraining):
    @contextmanager
    def _lend(self) -> Iterator[nn.Module]:
        modes = [(module, module.training) for module in self.model.modules()]
        yield self.model.eval()
        for module, training in modes:
            module.training = training


class LendsInTraining(NeverBackToTraining):
    @contextmanager
    def _lend(self) -> Iterator[nn.Module]:
        yield self.model


class DrawsInPassing(NeverBackToTraining):
    @contextmanager
    def _lend(self) -> Iterator[nn.Module]:
        torch.rand(1)
        with lent(self.model) as network:
            yield network


class ClearsGradients(NeverBackToTraining):
    @contextmanager
    def _lend(self) -> Iterator[nn.Module]:
        self.zero_grad()
        with lent(self.model) as network:
            yield network


class CountsLooks(NeverBackToTraining):
    """What it changes is not in the state, but training sees it."""

    looks = 0

    @contextmanager
    def _lend(self) -> Iterator[nn.Module]:
        self.looks += 1
        with lent(self.model) as network:
            yield network

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        return super().penalty() * (1 + self.looks)


# -- faults in what lasts ----------------------------------------------------------------------


class UnsavedAnchor(Springs):
    def keep(self, name: str, value: Tensor) -> None:
        self.register_buffer(self.place(name), value.detach().clone(), persistent=False)


class UnsavedTeacher(LwF):
    def end_task(self, *args: Any, **others: Any) -> None:
        super().end_task(*args, **others)
        self.out_of_sight = list(self.teachers)
        self.teachers = nn.ModuleList()

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        self.teachers = nn.ModuleList(getattr(self, "out_of_sight", []))
        value = super().penalty(step, **given)
        self.teachers = nn.ModuleList()
        return value


class PickledState(Springs):
    def get_extra_state(self) -> dict[str, int]:
        return {"tasks": 3}

    def set_extra_state(self, state: dict[str, int]) -> None:
        pass


class OwnHook(Springs):
    """Works out something after loading, but in the method that the hook was made for."""

    def __init__(self, model: nn.Module, example: Any = None) -> None:
        super().__init__(model)
        self.worked_out = 0.0
        self.register_load_state_dict_post_hook(lambda *_: self.work_out())  # type: ignore[no-untyped-call]

    def work_out(self) -> None:
        self.worked_out = sum(float(self.anchor(name).sum()) for name in self._names)

    def end_task(self, *args: Any, **others: Any) -> None:
        super().end_task(*args, **others)
        self.work_out()

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        return super().penalty() + self.worked_out


class Uncopyable(Springs):
    def end_task(self, *args: Any, **others: Any) -> None:
        super().end_task(*args, **others)
        self.graph = self.penalty() * 2  # not a leaf


class Unseeded(Springs):
    def keep(self, name: str, value: Tensor) -> None:
        own = torch.Generator()
        own.seed()
        super().keep(name, value + 1e-3 * torch.randn(value.shape, generator=own))


# -- faults in what it does --------------------------------------------------------------------


class AliasedAnchor(Springs):
    def keep(self, name: str, value: Tensor) -> None:
        self.register_buffer(self.place(name), value.detach())


class AliasOutOfSight(Springs):
    def anchor(self, name: str) -> Tensor:
        return self.model.get_parameter(name).detach()


class AliasedMeans(UCL):
    def end_task(self, *args: Any, **others: Any) -> None:
        super().end_task(*args, **others)
        for held in self.held:
            assert isinstance(held, LayerAnchor)
            held.weight = held._layer[0].get_parameter("weight").detach()


class MeansThatFollow(UCL):
    """The same fault where no storage is shared: the anchor is taken before every look."""

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        for held in self.held:
            assert isinstance(held, LayerAnchor)
            held.remember()
        return super().penalty(step, **given)


class NothingToHold(Springs):
    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        return super().penalty() * 0


class WithoutGradient(Springs):
    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        return super().penalty().detach()


class UnimportantWeights(EWC):
    def end_task(self, *args: Any, **others: Any) -> None:
        super().end_task(*args, **others)
        for importance in self.memory.importance.tensors():
            importance.zero_()


class UnmaskedGates(HAT):
    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        pass


class EmptyMemory(WithReplay):
    def end_task(self, *args: Any, **others: Any) -> None:
        self.method.end_task(*args, **others)


def unsaved_memory(model: nn.Module, example: Any) -> Method:
    method = WithReplay(FineTuning(model), size=10)
    method.memory._non_persistent_buffers_set.update({"inputs", "targets", "tasks"})
    return method


FAULTS: list[tuple[Make, Check, str]] = [
    (ForgottenParameter, checks.check_parameter_groups, "missing: temperature; twice: none"),
    (ParameterTwice, checks.check_parameter_groups, "missing: none; twice: model."),
    (ForgottenUncertainty, checks.check_parameter_groups, "rho"),
    (ScalesTheData, checks.check_begin_task, "alone, but these differ: inputs."),
    (MovesWeightsAtOnce, checks.check_begin_task, "must not move weights"),
    (ReturnsNothing, checks.check_begin_task, "must return the task to train on"),
    (DividedByOneLess, checks.check_penalty, "for a batch of 1 in task"),
    (OnePerLayer, checks.check_penalty, "must be a finite scalar"),
    (AnchorBesideTheWeights, checks.check_rest, "must be zero, got up to 0.01"),
    (NeverBackToTraining, checks.check_inference, "the mode of model"),
    (AllBackToTraining, checks.check_inference, "the mode of model"),
    (BackOnlyAfterSuccess, checks.check_inference, "the mode of model"),
    (LendsInTraining, checks.check_inference, "in evaluation mode, got training"),
    (DrawsInPassing, checks.check_inference, "torch's random numbers"),
    (ClearsGradients, checks.check_inference, "the gradient of"),
    (CountsLooks, checks.check_inference, "must go on as if it had not been"),
    (UnsavedAnchor, checks.check_save_and_load, "the penalty. Keep what a method remembers"),
    (UnsavedTeacher, checks.check_save_and_load, "the penalty"),
    (unsaved_memory, checks.check_save_and_load, "model.0.weight"),
    (PickledState, checks.check_save_and_load, "tensors alone"),
    (OwnHook, checks.check_copy, "must load a state as the original does"),
    (Uncopyable, checks.check_copy, "`copy.deepcopy` of the method must work"),
    (Unseeded, checks.check_reproducible, "The same seed must give the same state"),
    (AliasedAnchor, checks.check_own_memory, "but these do: anchor 0/weight"),
    (AliasedMeans, checks.check_own_memory, "held.0.weight"),
    (AliasOutOfSight, checks.check_holds, "Does the anchor alias the live weights?"),
    (lambda m, e: MeansThatFollow(m, e), checks.check_holds, "nothing holds what was learned"),
    (NothingToHold, checks.check_holds, "it stays 0"),
    (UnimportantWeights, checks.check_holds, "the penalty does not see weights move"),
    (lambda m, e: UnmaskedGates(m, e, tasks=3), checks.check_holds, "leaves the weights' grad"),
    (lambda m, e: EmptyMemory(FineTuning(m)), checks.check_holds, "adds no data"),
    (NothingToHold, checks.check_acts, "bit for bit those of fine-tuning"),
    (WithoutGradient, checks.check_acts, "a `penalty` without gradient"),
    (AliasOutOfSight, checks.check_acts, "The method does not act"),
    (UnimportantWeights, checks.check_acts, "The method does not act"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "check", "message"), FAULTS)
def test_a_planted_fault_is_found(fault: Make, check: Check, message: str) -> None:
    with pytest.raises(ContractError, match=re.escape(message)):
        check(fault, False)


def test_every_check_finds_some_fault() -> None:
    assert {check for _, check, _ in FAULTS} == set(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "honest", [UCL, EWC, LwF, lambda m, e: HAT(m, e, tasks=3), lambda m, e: WithReplay(EWC(m))]
)
def test_without_the_fault_nothing_is_found(honest: Callable[..., Method]) -> None:
    check_all(honest, heads=[False])
