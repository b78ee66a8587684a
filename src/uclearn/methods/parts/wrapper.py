"""What is around a method: every word is passed on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Unpack

from torch import Tensor, nn

from uclearn.methods.contract import Losses, Method, Step, StepFields
from uclearn.tasks.task import Task


class Wrapper(Method):
    """A method around another: as it stands here it changes nothing.

    Its `model` is the inner method's, its `state_dict` holds the inner method's under `method.`.

    Args:
        method: the method that is wrapped; not copied.
    """

    method: Method

    def __init__(self, method: Method) -> None:
        nn.Module.__init__(self)  # no model of its own, which Method would make
        self.method = method
        self.closed_form, self.noise = method.closed_form, method.noise

    @property
    def model(self) -> nn.Module:  # type: ignore[override]
        """The inner method's network."""
        return self.method.model

    def begin_task(self, task: Task) -> Task:
        """As the inner method."""
        return self.method.begin_task(task)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """As the inner method."""
        return self.method.parameter_groups(lr)

    def begin_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """As the inner method."""
        self.method.begin_step(step, **given)

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """As the inner method."""
        return self.method.penalty(step, **given)

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """As the inner method."""
        self.method.adjust_gradients(step, **given)

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """As the inner method."""
        self.method.end_step(step, **given)

    def end_task(
        self,
        task: Task | None = None,
        losses: Losses | None = None,
        *,
        inputs: Iterable[Any] | None = None,
    ) -> None:
        """As the inner method."""
        self.method.end_task(task, losses, inputs=inputs)

    def inference(self, task: int | None = None) -> AbstractContextManager[nn.Module]:
        """As the inner method."""
        return self.method.inference(task)
