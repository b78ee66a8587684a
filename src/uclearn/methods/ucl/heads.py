"""Heads that follow the trunk.

When a task has been learned, the features that the trunk gives its heads have moved, for the inputs
of earlier tasks as well; but the heads of those tasks still read them as they were. How features
moved is known on the inputs of the task that ends, since UCL remembers the trunk as it was before.
With f what heads are given now and f + g what they were given then, an old head W f + b becomes

    W (1 + M) f + b,     M = E[g f^T] (E[f f^T] + HELD / k^4 S + RIDGE v)^-1

which says to the new inputs what it said before, as well as a linear map can (least squares).

The new inputs speak for the old ones only so far as they are like them. k is the cosine between the
covariances of what a layer was given in earlier tasks, which UCL remembers, and of what it is given
now, in the layer where that is least (`Memory.alike`): 1 for the same inputs, 0 where they have
nothing in common. S, the second moments of what heads were given in earlier tasks, counts as
examples on which nothing moved, the more of them the smaller k; v is the mean square of a feature
over all of these, for directions in which none of them speaks. Where the new inputs are silent, M
is 0. A trunk that has not moved leaves every head exactly as it was.

A head that has learned since then, such as one of a task that came back or was replayed, reads what
is there already, and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.methods.contract import lent
from uclearn.methods.ucl.seen import EXAMPLES
from uclearn.networks import MultiHead, that_counts
from uclearn.ranks import present

HELD, RIDGE = 0.05, 0.03
"""Chosen on digits and letters (docs/rules.md)."""
_APART = 1e-3
"""A smaller k tells nothing more."""


class OldHeads(nn.Module):
    """The heads of earlier tasks: a fingerprint of each as the previous task left it, and what they
    were given.

    Args:
        features: of the trunk.
    """

    left: Tensor
    """(heads,) int64."""
    tasks: Tensor
    seen: Tensor
    """(features, features): second moments, averaged over tasks."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("left", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("tasks", torch.tensor(0))
        self.register_buffer("seen", torch.zeros(features, features))

    def note(self, model: nn.Module) -> None:
        """The task is over: these are the heads of earlier tasks from now on."""
        heads = model.heads if isinstance(model, MultiHead) else ()
        found = [_fingerprint(head) for head in heads]
        self.left = torch.tensor(found, dtype=torch.int64, device=self.left.device)

    def untouched(self, model: MultiHead) -> list[nn.Linear]:
        """Those that nobody has trained since, and that may change."""
        known = zip(model.heads, self.left.tolist(), strict=False)
        return [
            head
            for head, left in known
            if type(head) is nn.Linear  # one that reads more than features knows better
            and all(p.requires_grad for p in head.parameters())
            and _fingerprint(head) == left
        ]

    @torch.no_grad()
    def follow(
        self,
        model: MultiHead,
        calls: Iterable[Callable[[], Any]],
        as_it_was: Callable[[], AbstractContextManager[None]],
        alike: float,
    ) -> None:
        """A task is over: read from now on what the trunk has become.

        Args:
            model: as it is now.
            calls: forward passes of the model over inputs of the task.
            as_it_was: within, the model has the weights that the previous task left.
            alike: k.
        """
        old = self.untouched(model)
        moments = _Moments(model.features)
        with lent(model), _listening_to(model.trunk) as heard:
            for call in calls:
                call()
                if old:
                    with as_it_was():
                        call()
                moments.add(*heard)
                heard.clear()
                if moments.count >= EXAMPLES:  # of a loader there may be any number
                    break
        given, moves = moments.found()
        if self.seen.shape != given.shape:  # a trunk that grew: what it gave before is not known
            self.seen, self.tasks = self.seen.new_zeros(given.shape), self.tasks * 0
        if old:
            weighed = given + HELD / max(alike, _APART) ** 4 * self.seen.cpu().double()
            ridge = RIDGE * weighed.diagonal().mean()
            weighed.diagonal().add_(ridge.clamp_min(torch.finfo(given.dtype).tiny))
            turn = torch.linalg.solve(weighed, moves, left=False)
            for head in old:
                head.weight.add_((head.weight.cpu().double() @ turn).to(head.weight))
        self.tasks += 1
        self.seen.lerp_(given.to(self.seen), 1 / float(self.tasks))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        for name, own in list(self.named_buffers()):
            saved = state_dict.setdefault(prefix + name, own)  # earlier versions had none
            setattr(self, name, own.new_zeros(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *others)


class _Moments:
    """Of what heads are given, f, and of how it moved, g: sums over examples of f f^T and g f^T."""

    def __init__(self, features: int) -> None:
        self.count = 0
        self._sums = torch.zeros(2, features, features, dtype=torch.float64)

    def add(self, now: Tensor, before: Tensor | None = None) -> None:
        """A batch: (..., features) each."""
        given = now.flatten(0, -2).cpu().double()
        self._sums[0] += given.mT @ given
        if before is not None:
            self._sums[1] += (before.flatten(0, -2).cpu().double() - given).mT @ given
        self.count += len(given)

    def found(self) -> Tensor:
        """(2, features, features): the means, over the examples of all processes."""
        count = torch.tensor(float(self.count), dtype=torch.float64)
        present().sum_([count, self._sums])
        return self._sums / count.clamp_min(1)


@contextmanager
def _listening_to(trunk: nn.Module) -> Iterator[list[Tensor]]:
    """Within, what the trunk puts out is put into the list."""
    heard: list[Tensor] = []

    def hear(_: nn.Module, __: Any, output: Any) -> None:
        heard.append(output if isinstance(output, Tensor) else that_counts(output))

    hook = trunk.register_forward_hook(hear)
    try:
        yield heard
    finally:
        hook.remove()


def _fingerprint(head: nn.Module) -> int:
    digest = blake2b(digest_size=8)
    for parameter in head.parameters():
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return int.from_bytes(digest.digest(), signed=True)
