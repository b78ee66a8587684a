"""A trained network for deployment: plain, smaller if wanted, in a file that others can run.

    exported = export(method, "model.onnx", task=2, prune=0.01, data=validation)

The network that comes out is ordinary torch without any of the method: mean weights, original
classes. With `prune` the nodes that no task relies on are taken out first. What is written is read
back, run on the same inputs and compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from uclearn.errors import SettingError, TaskError
from uclearn.fields import Fields
from uclearn.gaussian import export as plain_copy
from uclearn.live.formats import Format, chosen_format, write
from uclearn.methods.contract import Method
from uclearn.methods.losses import Score, correct
from uclearn.methods.parts.wrapper import strengths_of
from uclearn.methods.ucl.batch_norm import RunningStatistics
from uclearn.networks import MultiHead, call, run
from uclearn.surgery.prune import Pruned, mean_scores
from uclearn.surgery.prune import prune as prune_network
from uclearn.surgery.resize import close, tensors
from uclearn.tasks import DataLike, iterate


@dataclass(frozen=True)
class Exported:
    """A network ready to be deployed, and what is known about it."""

    network: nn.Module
    """Called as `network(x)`: the outputs of the chosen head, or of all heads side by side. It is
    on the CPU."""
    parameters_before: int
    parameters_after: int
    removed: Mapping[str, int]
    """Nodes taken out, by layer."""
    score_before: tuple[float, ...]
    """Accuracy on each data set before anything was taken out; empty without data."""
    score_after: tuple[float, ...]
    speed_up: float
    """How many times as fast as before, measured side by side on a batch; 1 if nothing went."""
    path: Path | None
    difference: float
    """The largest difference between the file's outputs and the network's, on the same inputs."""

    def __str__(self) -> str:
        words = [
            f"{self.parameters_before:,} -> {self.parameters_after:,} parameters, "
            f"{sum(self.removed.values())} nodes removed, {self.speed_up:.2f} times as fast"
        ]
        pairs = zip(self.score_before, self.score_after, strict=True)
        scored = [f"{old:.4f} -> {new:.4f}" for old, new in pairs]
        words += [f"score on the held-out data: {', '.join(scored)}"] if scored else []
        words += [f"written to {self.path}, checked to {self.difference:.1e}"] if self.path else []
        return "; ".join(words)


def export(
    method: Method,
    path: str | Path | None = None,
    *,
    format: Format | None = None,
    task: int | None = None,
    prune: float | None = None,
    data: DataLike | Sequence[DataLike] | None = None,
    example: Any = None,
    keep: Iterable[str] = (),
    score: Score = correct,
) -> Exported:
    """Take the network out of a method, make it smaller if wanted, and write it to a file.

    Args:
        method: any method; left as it is.
        path: where to write; None: only return the network.
        format: `"torch"` (a `torch.export` program) or `"onnx"` (extra `uclearn[onnx]`); None: by
            the end of the path, `.pt2` or `.onnx`.
        task: with heads, the one to export; None: all of them side by side.
        prune: how much accuracy may be lost on `data` for the sake of a smaller network, 0.01 is
            one point; None: nothing is taken out.
        data: held-out examples, one data set or several; each keeps within the tolerance by itself.
        example: a small batch of inputs (a tuple for several arguments); None: from `data`.
        keep: layers that keep all of their nodes.
        score: (outputs, targets) -> one number per example, by default 1 where the label is right.

    >>> from uclearn import UCL
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> x = torch.randn(6, 4)
    >>> exported = export(UCL(net, example=x), example=x)
    >>> torch.equal(exported.network(x), net(x)), exported.parameters_after
    (True, 58)
    """
    kind = chosen_format(path, format)
    sets = list(data) if isinstance(data, Sequence) else [] if data is None else [data]
    example = _example(example, sets)
    network = _taken_out(method, task, example)
    head = None if task is None else 0
    if prune is None:
        scores = mean_scores(network, sets, score, head)
        pruned = Pruned(network, {}, scores, scores)
    elif not sets:
        raise SettingError(
            "`data` must be given where `prune` is: held-out examples tell how many nodes can go."
        )
    else:
        pruned = prune_network(
            network,
            sets,
            prune,
            strengths=strengths_of(method),
            keep=keep,
            score=score,
            head=head,
            example=example,
        )
    before, after = (_callable(each, example) for each in (network, pruned.network))
    difference = 0.0 if path is None else write(after, Path(path), kind, example)
    return Exported(
        network=after,
        parameters_before=parameters(before),
        parameters_after=parameters(after),
        removed=pruned.removed,
        score_before=pruned.before,
        score_after=pruned.after,
        speed_up=speed_up(before, after, _batch(example, sets)) if pruned.removed else 1.0,
        path=None if path is None else Path(path),
        difference=difference,
    )


def _taken_out(method: Method, task: int | None, example: Any) -> nn.Module:
    """A plain copy of the network that the method lends to predict with, with the chosen head."""
    _check_task(method, task)
    with method.inference(task) as lent_network, torch.no_grad():
        network = plain_copy(lent_network).eval().requires_grad_(False).cpu()
        device = next(lent_network.parameters()).device
        there = tree_map_only(Tensor, lambda tensor: tensor.to(device), example)
        expected = [tensor.cpu() for tensor in _predicted(lent_network, task, there)]
    if isinstance(network, MultiHead) and task is not None:
        network.heads = nn.ModuleList([network.heads[task]])
    if not all(map(close, tensors(call(_callable(network, example), example)), expected)):
        raise TaskError(
            f"What {type(method).__name__} lends to predict with is more than a network (an "
            "average over draws): a plain copy of it computes something else, so it cannot be "
            "exported."
        )
    return network


def _predicted(network: nn.Module, task: int | None, example: Any) -> list[Tensor]:
    """What the method itself predicts: for one task, or for all side by side."""
    if not isinstance(network, MultiHead):
        return tensors(call(network, example))
    heads = range(len(network.heads)) if task is None else [task]
    return [torch.cat([run(network, example, head) for head in heads], dim=-1)]


def _check_task(method: Method, task: int | None) -> None:
    heads = len(method.model.heads) if isinstance(method.model, MultiHead) else None
    if heads == 0:
        raise TaskError("The network has no head yet: learn a task first, then export.")
    if task is not None and not 0 <= task < (1 if heads is None else heads):
        known = "the network has no heads: leave it out" if heads is None else f"0 to {heads - 1}"
        raise SettingError(f"`task` must be one of the heads ({known}), got {task}.")
    kept = (part for part in method.modules() if isinstance(part, RunningStatistics))
    if task is None and heads is not None and any(part.differ for part in kept):
        raise SettingError(
            "`task` must be given where batch norms keep statistics per task, got None: no one "
            "network serves all heads."
        )


class AllHeads(nn.Module):
    """A trunk and all of its heads, side by side: (batch, classes of all tasks)."""

    def __init__(self, network: MultiHead) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Every head's outputs."""
        features = self.network.embed(named if named else inputs[0])
        return torch.cat([head(features) for head in self.network.heads], dim=-1)


def _callable(network: nn.Module, example: Any) -> nn.Module:
    """A network that is called with inputs alone."""
    if not isinstance(network, MultiHead):
        return network
    if len(network.heads) > 1 or isinstance(example, Mapping | Fields):
        return AllHeads(network).eval()
    return nn.Sequential(network.trunk, network.heads[0]).eval()


def _example(example: Any, sets: Sequence[DataLike]) -> Any:
    if example is not None:
        return tree_map_only(Tensor, lambda tensor: tensor.detach().cpu(), example)
    if not sets:
        raise SettingError(
            "`example` must be given where `data` is not: a small batch of inputs, such as x[:2]."
        )
    return next(iter(iterate(sets[0], 2))).inputs


def _batch(example: Any, sets: Sequence[DataLike]) -> Any:
    return next(iter(iterate(sets[0], 256))).inputs if sets else example


def parameters(network: nn.Module) -> int:
    """How many numbers a network has learned.

    >>> parameters(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in network.parameters())


@torch.no_grad()
def speed_up(slow: nn.Module, fast: nn.Module, inputs: Any, repeats: int = 15) -> float:
    """How many times as fast `fast` is: the quotient of the shortest of several interleaved runs,
    which a busy machine disturbs least."""
    best = [float("inf"), float("inf")]
    for repeat in range(repeats + 2):  # the first two only warm up
        for place, network in enumerate((slow, fast)):
            start = time.perf_counter()
            call(network, inputs)
            taken = time.perf_counter() - start
            best[place] = min(best[place], taken) if repeat > 1 else best[place]
    return best[0] / best[1]
