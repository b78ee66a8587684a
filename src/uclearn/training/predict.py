"""What a method predicts, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.gaussian import use_samples
from uclearn.methods.contract import Method
from uclearn.networks import run


@dataclass(frozen=True)
class Prediction:
    """What a method predicts, and how sure it is."""

    probabilities: Tensor
    """(batch, classes), averaged over draws."""
    entropy: Tensor
    """(batch,) in nats: 0 is certain."""
    disagreement: Tensor
    """(batch,) mutual information between prediction and weights: the part of the entropy that
    comes from not knowing the weights; 0 without draws."""
    task: Tensor
    """(batch,) the task each prediction is made for: given, or inferred."""


@torch.no_grad()
def predict(method: Method, inputs: Any, task: int, draws: int = 0) -> Prediction:
    """Class probabilities with their uncertainty.

    Args:
        method: any method.
        inputs: a batch.
        task: which task it belongs to; `uclearn.live.infer_task` finds out where that is not known.
        draws: predictions averaged over that many draws of the weights; 0: the means alone.
    """
    with method.inference(task) as network:
        each = torch.stack(list(_draw_probabilities(network, inputs, task, draws)))
    mean = each.mean(0)
    entropy = _entropy(mean)
    return Prediction(
        probabilities=mean,
        entropy=entropy,
        disagreement=(entropy - _entropy(each).mean(0)).clamp_min(0),
        task=torch.full((len(mean),), task),
    )


def _draw_probabilities(network: nn.Module, inputs: Any, task: int, draws: int) -> Iterator[Tensor]:
    if draws == 0:
        yield run(network, inputs, task).softmax(dim=-1)
        return
    with use_samples(network):
        for _ in range(draws):
            yield run(network, inputs, task).softmax(dim=-1)


def _entropy(probabilities: Tensor) -> Tensor:
    entropy: Tensor = torch.special.entr(probabilities).sum(dim=-1)
    return entropy
