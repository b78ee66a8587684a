"""The penalty by `uclearn.native`: one call, one pass over the weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import nn

from uclearn.methods.contract import gradient_of
from uclearn.methods.ucl.anchors import AnchoredParameter, Term
from uclearn.native import calls, holding
from uclearn.native.adam import Adam


class FusedPenalty:
    """The whole penalty in one call of `uclearn.native`, one pass over the weights.

    Args:
        anchored: everything that is held.
        sigmas: the uncertainties.
    """

    def __init__(
        self, anchored: Sequence[AnchoredParameter], sigmas: Sequence[AnchoredParameter]
    ) -> None:
        self._anchored, self._sigmas = anchored, sigmas
        # read from the layers' own tables: in a small network each look-up counts
        self._places: list[tuple[dict[str, Any], str]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._anchored, self._sigmas)  # addresses are good for one copy only

    @cached_property
    def _hold(self) -> holding.Hold | None:
        """None where something is not as the library needs it."""
        everything = (*self._anchored, *self._sigmas)
        self._places = [(each.held_by.layer._parameters, each.trained) for each in everything]
        if not calls.usable(*(each.anchor for each in everything)):
            return None
        pulled = [_by_rows(each) for each in self._anchored]
        whole = [each for each in pulled if each is not None]
        previous = [sigma.anchor for sigma in self._sigmas]
        return holding.Hold(whole, previous) if len(whole) == len(pulled) else None

    def term(self, settings: tuple[float, float, bool]) -> Term | None:
        """All of it; None: not here."""
        hold, parameters = self._hold, self._trained()
        if hold is None or parameters is None:
            return None
        value, gradients = hold.value_and_gradients(parameters, settings)
        return Term(parameters, torch.tensor(value), gradients)

    def add_gradients(
        self, settings: tuple[float, float, bool], optimizer: Adam | None = None
    ) -> bool:
        """Add them to what the parameters have, or have `optimizer` add them on its way; False: not
        here, and nothing was added."""
        hold, parameters = self._hold, self._trained()
        if hold is None or parameters is None:
            return False
        gradients = [gradient_of(parameter) for parameter in parameters]
        if not calls.usable(*gradients):
            return False
        if optimizer is None:
            hold.add_gradients(parameters, gradients, settings)
        else:
            optimizer.take_in(hold, parameters, settings)
        return True

    def _trained(self) -> list[nn.Parameter] | None:
        """All that is held, weights first; None if some of it is not trained, or has moved to
        where the library cannot reach it."""
        parameters = [own.get(name) for own, name in self._places]
        found = [p for p in parameters if p is not None and p.requires_grad]
        whole = len(found) == len(parameters) and calls.usable(*found)
        return found if whole else None


def _by_rows(anchored: AnchoredParameter) -> holding.Pulled | None:
    """The grip on a parameter whose nodes are its rows; None where they are not."""
    anchor, grip = anchored.held_by.blocks(anchored.anchor), anchored.grip
    assert grip is not None
    leading = grip.node.dim()
    while leading > 0 and grip.node.shape[leading - 1] == 1:
        leading -= 1
    if grip.node.shape[:leading] != anchor.shape[:leading]:
        return None
    source = grip.source
    if source is not None:
        # (1, in, 1...) or, with groups, (groups, 1, in per group, 1...)
        nodes_at = leading - 1
        shape = (*anchor.shape[:nodes_at], 1, *anchor.shape[leading:])
        source = source.expand(shape).reshape(shape[0] if nodes_at else 1, -1).contiguous()
    freeze = None if grip.freeze is None else grip.freeze.reshape(-1).contiguous()
    return holding.Pulled(anchored.anchor, grip.node.reshape(-1).contiguous(), source, freeze)
