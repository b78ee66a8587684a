"""Heads that follow the trunk.

When a task has been learned, the features that the trunk gives its heads have moved, for the inputs
of earlier tasks as well; but the heads of those tasks still read them as they were. How features
moved is known on the inputs of the task that ends, since UCL remembers the trunk as it was before.
With f what a head is given now and f + g what it was given then,

    W (f + g) + b  =  W (f + E[g] + M (f - E[f])) + b   as well as a linear M can tell,

    M = Cov[g, f] (Cov[f] + RIDGE v)^-1,     v = mean variance of a feature,

and so an old head becomes W (1 + M) with the bias b + W (E[g] - M E[f]). Only what was seen to move
is followed: where the inputs vary little, M is 0, and a trunk that has not moved leaves every head
exactly as it was. A head that has learned since then, such as one of a task that came back or was
replayed, reads what is there already, and stays.
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

RIDGE = 0.1
"""Chosen on letters (docs/rules.md): with 100 to 1,200 examples 0.03 to 0.3 are as good."""


class OldHeads(nn.Module):
    """The heads of earlier tasks, by a fingerprint of each as the previous task left it."""

    left: Tensor
    """(heads,) int64."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("left", torch.zeros(0, dtype=torch.int64))

    def note(self, model: nn.Module) -> None:
        """The task is over: these are the heads of earlier tasks from now on."""
        heads = model.heads if isinstance(model, MultiHead) else ()
        found = [_fingerprint(head) for head in heads]
        self.left = torch.tensor(found, dtype=torch.int64, device=self.left.device)

    def untouched(self, model: nn.Module) -> list[nn.Linear]:
        """Those that nobody has trained since, and that may change."""
        heads = model.heads if isinstance(model, MultiHead) else ()
        known = zip(heads, self.left.tolist(), strict=False)
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
        model: nn.Module,
        calls: Iterable[Callable[[], Any]],
        as_it_was: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Read from now on what the trunk has become.

        Args:
            model: as it is now.
            calls: forward passes of the model over inputs of the task that ends.
            as_it_was: within, the model has the weights that the previous task left.
        """
        old = self.untouched(model)
        if not old:
            return
        assert isinstance(model, MultiHead)
        moved = _Moved(model.features)
        with lent(model), _listening_to(model.trunk) as heard:
            for call in calls:
                call()
                with as_it_was():
                    call()
                moved.add(heard.pop(-2), heard.pop())
                if moved.count >= EXAMPLES:  # of a loader there may be any number
                    break
        linear, constant = moved.found()
        for head in old:
            weight = head.weight.double().cpu()
            head.weight.add_((weight @ linear).to(head.weight))
            if head.bias is not None:
                head.bias.add_((weight @ constant).to(head.bias))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        saved = state_dict.setdefault(prefix + "left", self.left[:0])  # earlier versions had none
        self.left = self.left.new_zeros(saved.shape)
        super()._load_from_state_dict(state_dict, prefix, *others)


class _Moved:
    """How features moved: sums over examples of f, of g = what they were minus f, and of their
    products with f."""

    def __init__(self, features: int) -> None:
        self.count = 0
        self._sums = torch.zeros(2, features, dtype=torch.float64)
        self._products = torch.zeros(2, features, features, dtype=torch.float64)

    def add(self, now: Tensor, before: Tensor) -> None:
        """A batch: (..., features) each."""
        features, then = (each.flatten(0, -2).double().cpu() for each in (now, before))
        for number, part in enumerate((features, then - features)):
            self._sums[number] += part.sum(0)
            self._products[number] += part.mT @ features
        self.count += len(features)

    def found(self) -> tuple[Tensor, Tensor]:
        """M, and E[g] - M E[f], over the examples of all processes."""
        count = torch.tensor(float(self.count), dtype=torch.float64)
        present().sum_([count, self._sums, self._products])
        means = self._sums / count
        spread, moves = self._products / count - means[:, :, None] * means[0]
        ridge = RIDGE * spread.diagonal().mean().clamp_min(torch.finfo(spread.dtype).tiny)
        spread.diagonal().add_(ridge)
        linear = torch.linalg.solve(spread, moves, left=False)
        return linear, means[1] - linear @ means[0]


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
