"""How well a method does, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.gaussian import use_samples
from uclearn.methods.contract import Method
from uclearn.methods.losses import Score, correct
from uclearn.networks.heads import has_heads, run
from uclearn.ranks import ALONE, Ranks
from uclearn.tasks import DataLike, Task, TaskSequence
from uclearn.training.loop import portion


@torch.no_grad()
def evaluate(
    method: Method,
    task: Task,
    score: Score = correct,
    size: int = 1024,
    *,
    ranks: Ranks = ALONE,
) -> float:
    """The mean score on the task's test data, told which task it is; of several processes (`ranks`)
    each goes through a part of them."""
    with method.inference(task.index) as network:
        return mean_score(network, _test_data(task), score, size, ranks=ranks)


@torch.no_grad()
def evaluate_all(
    method: Method,
    tasks: TaskSequence,
    learned: int,
    score: Score = correct,
    *,
    ranks: Ranks = ALONE,
) -> list[float]:
    """One row of the accuracy matrix: every learned task, and the tasks to come where the network
    has an output layer for them already (NaN elsewhere)."""
    tried = learned if has_heads(method.model) else len(tasks)
    scores = [evaluate(method, task, score, ranks=ranks) for task in tasks[:tried]]
    return scores + [float("nan")] * (len(tasks) - tried)


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


def mean_score(
    network: nn.Module,
    data: DataLike,
    score: Score = correct,
    size: int = 1024,
    *,
    head: int | None = None,
    ranks: Ranks = ALONE,
) -> float:
    """The mean over all examples of the score of `network`, as it is; `head` None: that of each
    example's own task."""
    total, count = 0.0, 0.0
    device = next(network.parameters()).device
    for batch in portion(data, size, ranks):
        outputs = run(network, batch.inputs.to(device), batch.task if head is None else head)
        total += float(score(outputs, batch.targets.to(device)).sum())
        count += len(batch.targets)
    total, count = ranks.sum(total, count)
    return total / max(count, 1)


def _test_data(task: Task) -> DataLike:
    if task.test is None:
        raise TaskError(
            f"Task {task.name!r} has no test data, so it cannot be judged. Give it `test`."
        )
    return task.test
