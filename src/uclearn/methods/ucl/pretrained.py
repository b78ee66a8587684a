"""The forward passes by which a network is looked at, and what strengths follow from what is found:
of a network that knew something before it was given to UCL, and of one whose task is over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.methods.contract import Inputs, Losses
from uclearn.methods.parts.surprise import Kind, surprise
from uclearn.methods.ucl.looking import Answers, Surprise
from uclearn.methods.ucl.seen import RecentCalls, sample
from uclearn.networks import MultiHead, answer, call
from uclearn.ranks import present
from uclearn.tasks import iterate
from uclearn.tasks.task import Task


def passes_over(
    model: nn.Module, task: Task | None, inputs: Inputs, recent: RecentCalls
) -> Iterator[Answers]:
    """Forward passes over `inputs`, over about `EXAMPLES` examples of `task`, or, in a loop that
    names neither, over what the model was last called with."""
    if inputs is not None:
        for batch in inputs:
            yield partial(_answers, model, batch)
    elif task is not None:
        device = next(model.parameters()).device
        for prepared in present().dealt(iterate(sample(task), 256)):
            yield partial(_answers, model, prepared.to(device).inputs)
    else:
        for given, keywords in recent.calls:
            yield partial(_answers, model, given[0] if given else None, (given, keywords))


def _answers(model: nn.Module, inputs: Any, as_called: Any = None) -> Sequence[Tensor]:
    """What a model says to a batch: by each of its heads; without heads yet, what enters them."""
    if isinstance(model, MultiHead):
        features = model.embed(inputs)
        return [head(features) for head in model.heads] or [features]
    if as_called is not None:
        given, keywords = as_called
        said = model(*given, **keywords)
    else:
        said = call(model, inputs)
    return [answer(said)]


def answers_to(calls: Iterable[Callable[[], Any]]) -> Iterator[Answers]:
    """The same forward passes, with what the model answers."""
    for one in calls:
        yield partial(_answer, one)


def _answer(one: Callable[[], Any]) -> Sequence[Tensor]:
    found = answer(one())
    return [found if found.dim() > 1 else found.unsqueeze(1)]  # one class alone is no choice


def by_chance(classes: bool) -> Surprise:
    """The surprise of logits or of numbers, with signs that are drawn."""
    kind: Kind = "classes" if classes else "numbers"
    return partial(surprise, kind=kind, generator=torch.Generator().manual_seed(0))


def of_answers(kind: Kind) -> Surprise:
    """Their surprise, with signs that follow from them: any number of processes finds the same."""
    return partial(surprise, kind=kind, generator=None)


def of_mean_squares(numbers: Tensor) -> Tensor:
    """The same of numbers, where a loop takes the mean over those of an example, as torch does."""
    return surprise(numbers, "numbers", generator=None) / math.sqrt(numbers[0].numel())


def told_by(losses: Losses) -> Iterator[Answers]:
    """The forward passes of losses that are surprises: -log of the chance of what was drawn."""
    for batch in losses():
        yield partial(list, (batch,))


def as_told(surprises: Tensor) -> Tensor:
    """What needs no signs: what was drawn has them."""
    return surprises


def strengths_by(curvature: Tensor, initial: float, beta: float, batch_size: float) -> Tensor:
    """(nodes,) what sigma_init / sigma would have become while batches of that size were learned.

    By hand: sigma_init^2 B H / (2 beta) = 0.01 * 100 * 3 / (2 * 0.5) = 3, and 1 + 3 = 2^2.

    >>> import torch
    >>> strengths_by(torch.tensor([0.0, 3.0]), initial=0.1, beta=0.5, batch_size=100)
    tensor([1., 2.])
    """
    return (1 + curvature * (initial**2 * batch_size / (2 * beta))).sqrt()
