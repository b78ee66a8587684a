"""What a learner knows of a task it has learned."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from uclearn.live.fingerprints import hashes
from uclearn.methods.contract import Method
from uclearn.networks.heads import run
from uclearn.tasks import Data, iterate
from uclearn.training.evaluate import correct


@dataclass(frozen=True)
class Known:
    """A task by name; `index` is its number and that of its head."""

    name: str
    index: int
    classes: int | None
    """None for regression."""
    labels: tuple[str, ...] = ()
    """Names of the classes, if they have any."""
    canary: Data | None = None
    """Examples that are never trained on."""
    seen: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """Hashes of all examples that were trained on: eight bytes each."""

    def taught(self, train: Data, canary: Data | None) -> Known:
        """The same task after it was trained on `train`, guarded by `canary` as well."""
        seen = torch.cat([self.seen, hashes(train.batch(torch.arange(len(train))).inputs)]).unique()
        return replace(self, seen=seen, canary=together(self.canary, canary))

    def answers(self, method: Method) -> Tensor:
        """(examples,) 1 where `method` is right about the canary, else 0."""
        assert self.canary is not None
        return right_answers(method, self.canary, self.index)

    def document(self) -> dict[str, Any]:
        """For a saved state."""
        canary = None
        if self.canary is not None:
            batch = self.canary.batch(torch.arange(len(self.canary)))
            canary = {"inputs": batch.inputs, "targets": batch.targets}
        return {
            "name": self.name,
            "index": self.index,
            "classes": self.classes,
            "labels": list(self.labels),
            "canary": canary,
            "seen": self.seen,
        }

    @classmethod
    def from_document(cls, saved: dict[str, Any]) -> Known:
        """What `document` described."""
        canary = saved["canary"]
        data = None if canary is None else Data(**canary, task=saved["index"])
        fields = {**saved, "labels": tuple(saved["labels"]), "canary": data}
        return cls(**fields)


@torch.no_grad()
def right_answers(method: Method, data: Data, index: int) -> Tensor:
    """(examples,) 1 where `method` is right about `data` of task `index`, else 0."""
    device = next(method.parameters()).device
    with method.inference(index) as network:
        return torch.cat(
            [
                correct(run(network, batch.inputs.to(device), index).cpu(), batch.targets)
                for batch in iterate(data, 1024)
            ]
        )


def together(first: Data | None, second: Data | None) -> Data | None:
    """Both canaries as one."""
    if first is None or second is None:
        return second if first is None else first
    both = [data.batch(torch.arange(len(data))) for data in (first, second)]
    return Data(
        torch.cat([batch.inputs for batch in both]),
        torch.cat([batch.targets for batch in both]),
        task=first.task,
    )
