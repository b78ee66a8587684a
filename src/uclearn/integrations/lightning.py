"""A callback for Lightning's `Trainer`.

    method = uclearn.UCL(network, example=x[:1])
    module = MyModule(method.model)  # configure_optimizers: Adam(method.parameter_groups(lr))
    trainer = Trainer(callbacks=[ContinualCallback(method, batch_size=256)])
    trainer.fit(module, first)
    method.end_task()

The penalty is added behind `backward`, once for each move of the optimiser whatever is accumulated,
and before gradients are clipped. Checkpoints of the trainer hold what the method remembers.
"""

from __future__ import annotations

from typing import Any

from pytorch_lightning import Callback
from torch import nn

from uclearn.integrations.guard import Guard
from uclearn.integrations.optimizers import closed, memory_of, remember
from uclearn.methods.contract import Method


class ContinualCallback(Callback):  # type: ignore[misc]
    """Lets a method follow what a trainer does.

    Args:
        method: one whose penalty has a closed form (see `uclearn.integrations.attach`).
        batch_size: the examples behind one move, over all micro-batches and processes.
    """

    def __init__(self, method: Method, batch_size: int) -> None:
        self.method, self.batch_size = closed(method), batch_size
        self._moved = False

    def on_before_optimizer_step(self, trainer: Any, pl_module: nn.Module, optimizer: Any) -> None:
        """Behind `backward`: add the penalty's gradient."""
        self.method.adjust_gradients(batch_size=self.batch_size)
        self._moved = True

    def on_train_batch_end(self, *_: Any) -> None:
        """Where the optimiser moved: a step is over."""
        if self._moved:
            self.method.end_step(batch_size=self.batch_size)
        self._moved = False

    def state_dict(self) -> dict[str, Any]:
        """What the method remembers, for the trainer's checkpoints."""
        return memory_of(self.method)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take it up again."""
        remember(self.method, state_dict, "The checkpoint")


class GateCallback(Callback):  # type: ignore[misc]
    """Has a guard judge each `fit`. Where it refuses (`guard.passed` is False), the model is what
    it was before; do not call `method.end_task` then. Checkpoints hold what it was, so that going
    on from one is judged as a whole."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return self.guard.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the update that was under way."""
        self.guard.load_state_dict(state_dict)

    def on_train_start(self, *_: Any) -> None:
        """Look at what is known."""
        self.guard.begin()

    def on_train_end(self, *_: Any) -> None:
        """Look again."""
        self.guard.end()
