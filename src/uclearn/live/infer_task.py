"""Which task is this? The one whose head is least uncertain of it.

A head of C classes can be uncertain up to log C, so heads are compared by their entropy as a share
of that. How often this is right depends on the data; measure it with `inference_accuracy` before
you rely on it. It is far more often right for a batch that is known to come from one task
(`together`), since the shares are then averaged over the batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from uclearn.methods.contract import Method
from uclearn.tasks import DataLike, iterate
from uclearn.training.session import Prediction, predict


def least_uncertain(candidates: Sequence[Prediction], together: bool = False) -> Prediction:
    """Of the predictions of each task's head for the same batch, for each example the least
    uncertain one; `together`: of one task for the whole batch."""
    shares = torch.stack([relative_entropy(one) for one in candidates])  # (tasks, batch)
    if together:
        shares = shares.mean(dim=1, keepdim=True).expand_as(shares)
    best = shares.argmin(dim=0)
    rows = torch.arange(len(best))
    widest = max(one.probabilities.shape[1] for one in candidates)
    padded = [F.pad(o.probabilities, (0, widest - o.probabilities.shape[1])) for o in candidates]
    return Prediction(
        probabilities=torch.stack(padded)[best, rows],
        entropy=torch.stack([one.entropy for one in candidates])[best, rows],
        disagreement=torch.stack([one.disagreement for one in candidates])[best, rows],
        task=best,
    )


def margin(candidates: Sequence[Prediction], together: bool = False) -> Tensor:
    """(batch,) how much more uncertain the second-best task's head is than the best one's, as a
    share of the largest entropy: 0 is a toss-up, 1 leaves no doubt."""
    shares = torch.stack([relative_entropy(one) for one in candidates])
    if together:
        shares = shares.mean(dim=1, keepdim=True).expand_as(shares)
    best: Tensor = shares.topk(2, dim=0, largest=False).values  # (2, batch)
    return best[1] - best[0]


def relative_entropy(prediction: Prediction) -> Tensor:
    """(batch,) entropy as a share of the largest possible; 1 for a head of a single class, which
    is never uncertain and so says nothing."""
    classes = prediction.probabilities.shape[1]
    if classes == 1:
        return torch.ones_like(prediction.entropy)
    return prediction.entropy / math.log(classes)


@dataclass(frozen=True)
class InferenceAccuracy:
    """How well tasks are told apart."""

    task: float
    """Share of examples whose task was found, mean over tasks."""
    label: float
    """Share of examples whose task and label were both found, mean over tasks."""
    label_told: float
    """The same where the task is told."""
    batch: float
    """Share of batches whose task was found."""
    batch_size: int


@torch.no_grad()
def inference_accuracy(
    method: Method, tasks: Sequence[DataLike], draws: int = 0, batch_size: int = 16
) -> InferenceAccuracy:
    """Measure task inference on labelled data of each task, by number, that were not trained on.

    `draws` of the weights (0: the means alone); `batch_size` examples are taken to belong together.
    """
    scores = [_scores(method, index, tasks, draws, batch_size) for index in range(len(tasks))]
    found, label, told, batch = (sum(each) / len(tasks) for each in zip(*scores, strict=True))
    return InferenceAccuracy(found, label, told, batch, batch_size)


def _scores(
    method: Method, index: int, tasks: Sequence[DataLike], draws: int, batch_size: int
) -> tuple[float, float, float, float]:
    data = tasks[index]
    batches = list(iterate(data, 1024))
    targets = torch.cat([batch.targets for batch in batches])
    every = predict_each(method, [batch.inputs for batch in batches], range(len(tasks)), draws)
    chosen = least_uncertain(every)
    right = chosen.task == index
    hit = right & (chosen.probabilities.argmax(dim=1) == targets)
    told = every[index].probabilities.argmax(dim=1) == targets
    shares = torch.stack([relative_entropy(one) for one in every])
    whole = len(data) // batch_size * batch_size
    means = shares[:, :whole].unflatten(1, (-1, batch_size)).mean(dim=2)  # (tasks, batches)
    together = means.argmin(dim=0) == index
    return _share(right), _share(hit), _share(told), _share(together)


def _share(right: Tensor) -> float:
    return float(right.double().mean())


def predict_each(
    method: Method, batches: Sequence[Tensor], tasks: Iterable[int], draws: int
) -> list[Prediction]:
    """By task what its head predicts for all batches, one after the other as if they were one."""
    return [_joined([predict(method, batch, task, draws) for batch in batches]) for task in tasks]


def _joined(parts: Sequence[Prediction]) -> Prediction:
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Prediction(*(torch.cat(column).cpu() for column in columns))
