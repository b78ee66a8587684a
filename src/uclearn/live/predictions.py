"""What a learner predicts, and how sure it is of it; predicting leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.gaussian import GaussianLayer, use_samples
from uclearn.live.infer_task import least_uncertain, margin, predict_each
from uclearn.methods.contract import Method
from uclearn.networks import run

DRAWS = 20
"""Draws of the weights that uncertainty is measured by."""


@dataclass(frozen=True)
class LearnerPrediction:
    """What `Learner.predict` says about a batch: a prediction with the names of the tasks."""

    tasks: tuple[str, ...]
    """Which task each example was taken for: given, or inferred."""
    outputs: Tensor
    """(batch, classes) probabilities, or for regression (batch, ...) numbers; means over draws.
    Where tasks differ in classes, 0 beyond a task's own."""
    disagreement: Tensor | None
    """(batch,) what of the uncertainty comes from not knowing the weights: the mutual information
    between answer and weights, in nats; for regression the standard deviation of the outputs,
    (batch, ...). None if not asked for, or if the method knows no uncertainty of weights."""
    task_margin: Tensor | None = None
    """(batch,) where the task was guessed: how much more uncertain the next best task's head is, 0
    for a toss-up to 1 for no doubt; None: the task was told, or there is only one."""
    classifies: bool = True
    """False: `outputs` are numbers of a regression."""

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def probabilities(self) -> Tensor:
        """(batch, classes)."""
        if not self.classifies:
            raise TaskError(
                "This task has no classes, so there are no labels and no probabilities: its "
                "answers are numbers, in `outputs`."
            )
        return self.outputs

    @property
    def labels(self) -> Tensor:
        """(batch,) the most probable class."""
        return self.probabilities.argmax(dim=1)

    @property
    def entropy(self) -> Tensor:
        """(batch,) in nats, 0 is certain: all uncertainty together."""
        entropy: Tensor = torch.special.entr(self.probabilities).sum(dim=1)
        return entropy


def classify(
    method: Method,
    x: Tensor,
    names: Sequence[str],
    task: int | None,
    draws: int,
    together: bool,
    size: int = 1024,
) -> LearnerPrediction:
    """Class probabilities of a batch, `size` examples at once; arguments as of `Learner.predict`.
    `names` are those of all tasks by number; `task` None: the one with the least uncertain head."""
    tried = range(len(names)) if task is None else [task]
    with undisturbed(method.model):
        candidates = predict_each(method, x.split(size), tried, draws)
    found = candidates[0] if task is not None else least_uncertain(candidates, together)
    return LearnerPrediction(
        tasks=tuple(names[t] for t in found.task.tolist()),
        outputs=found.probabilities,
        disagreement=found.disagreement if draws and has_spread(method.model) else None,
        task_margin=margin(candidates, together) if len(candidates) > 1 else None,
    )


@torch.no_grad()
def regress(
    method: Method, x: Tensor, name: str, task: int, draws: int, size: int = 1024
) -> LearnerPrediction:
    """Outputs of a batch as they are; with draws also their standard deviation."""
    with undisturbed(method.model), method.inference(task) as network:
        drawn = draws if has_spread(network) else 0
        with use_samples(network) if drawn else nullcontext():
            each = torch.stack(
                [
                    torch.cat([run(network, part, task) for part in x.split(size)])
                    for _ in range(drawn or 1)
                ]
            )
    spread = each.std(dim=0) if len(each) > 1 else None
    return LearnerPrediction((name,) * len(x), each.mean(0), spread, classifies=False)


def has_spread(model: nn.Module) -> bool:
    """Whether the weights of a network have an uncertainty that can be drawn from."""
    return any(isinstance(module, GaussianLayer) for module in model.modules())


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Afterwards every stream of noise stands where it stood: asking twice gives one answer, and
    learning goes on as if nobody had asked."""
    layers = [module for module in model.modules() if isinstance(module, GaussianLayer)]
    before = [(layer.noise, layer.noise.state) for layer in layers]
    try:
        yield
    finally:
        for noise, state in before:
            noise.state = state
