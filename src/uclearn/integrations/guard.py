"""A gate for trainers of others: an update that ruins what was learned before is taken back.

`uclearn.integrations.transformers.GateCallback` and `uclearn.integrations.lightning.GateCallback`
call it when training begins and ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from uclearn.errors import CheckpointError
from uclearn.integrations.optimizers import memory_of, remember
from uclearn.live.canaries import right_answers
from uclearn.live.compared import compare
from uclearn.live.gate import Gate
from uclearn.live.new_data import NewData, as_data
from uclearn.methods.contract import Method


class Guard:
    """Compares a model before and after an update, on canaries of old tasks.

    Args:
        method: that holds the model.
        gate: may the update pass?
        canaries: by old task, in their order, examples that were never trained on, in any form that
            `Learner.learn` takes, such as a dictionary with `labels`.

    >>> import torch, uclearn
    >>> method = uclearn.Method(torch.nn.Linear(2, 2))
    >>> x = torch.randn(50, 2)
    >>> guard = Guard(method, Gate(), {"january": (x, method.model(x).argmax(1))})
    >>> guard.begin()
    >>> _ = method.model.weight.data.neg_(), method.model.bias.data.neg_()
    >>> guard.end()
    False
    >>> torch.equal(method.model(x).argmax(1), guard.canaries["january"].targets)
    True
    """

    def __init__(self, method: Method, gate: Gate, canaries: Mapping[str, NewData]) -> None:
        self.method, self.gate = method, gate
        self.canaries = {name: as_data(given, name) for name, given in canaries.items()}
        self.passed: bool | None = None
        """Whether the last update was let in; None: there was none yet."""
        self.reason = ""
        """Why, or why not."""
        self._before: dict[str, Tensor] = {}
        self._state: dict[str, Tensor] = {}

    def begin(self) -> None:
        """Training begins: what is there now is what must not be lost; where it goes on, what was
        there when it began (`load_state_dict`)."""
        if self._state:
            return
        self._before = self._answers()
        self._state = {key: value.clone() for key, value in memory_of(self.method).items()}

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """What an update is compared with, for a checkpoint in the midst of it."""
        return {"answers": dict(self._before), "memory": dict(self._state)}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go on with the update that was under way: it is compared with what was there when it
        began, and taken back to that."""
        if state["answers"].keys() != (self.canaries.keys() if state["memory"] else set()):
            raise CheckpointError(
                "The state of the guard must be of the same canaries, got those of "
                f"{', '.join(state['answers']) or 'none'} instead of {', '.join(self.canaries)}."
            )
        self._before, self._state = dict(state["answers"]), dict(state["memory"])

    def end(self) -> bool:
        """Training is over: judge it, and take it back to the bit if it may not pass (unless the
        gate only warns)."""
        after = self._answers()
        compared = [
            compare(name, self._before[name], right, self.gate.sure)
            for name, right in after.items()
        ]
        fine, self.reason = self.gate.judge(compared)
        self.passed = fine or self.gate.mode == "warn"
        if not self.passed:
            remember(self.method, self._state, "The state before the update")
        self._before, self._state = {}, {}
        return self.passed

    def _answers(self) -> dict[str, Tensor]:
        known = enumerate(self.canaries.items())
        return {name: right_answers(self.method, data, index) for index, (name, data) in known}
