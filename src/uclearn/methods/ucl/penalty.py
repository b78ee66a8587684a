"""The penalty on all layers at once.

In a small network a step costs what its calls cost, not what they compute, so small parameters are
laid end to end and worked on as one, and so are the uncertainties of all layers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from uclearn.methods.contract import gradient_of
from uclearn.methods.ucl.anchors import AnchoredParameter, LayerAnchor, Term, exact
from uclearn.methods.ucl.fused import FusedPenalty
from uclearn.native.adam import Adam
from uclearn.penalties import Grip, add_hold_gradient, hold, spread_and_gradient, spread_gradient
from uclearn.sizes import SMALL_ANCHOR


class UCLPenalty:
    """The penalty on everything that is held; to be called under no_grad.

    Args:
        anchors: one for each layer, tightened.
    """

    def __init__(self, anchors: Iterable[LayerAnchor]) -> None:
        self._anchors = list(anchors)
        anchors = self._anchors
        anchored = [each for anchor in anchors for each in anchor.anchored]
        sigmas = [sigma for anchor in anchors for sigma in anchor.sigmas()]
        self._fused = FusedPenalty(anchored, sigmas)
        small = (each for each in anchored if each.anchor.numel() <= SMALL_ANCHOR)
        self._bundles = [(few, _grip_on_all(few)) for few in _alike(small)]
        self._large = [each for each in anchored if each.anchor.numel() > SMALL_ANCHOR]
        self._sigmas = _alike(sigmas)

    def terms(self, scale: float, beta: float, inflate: bool) -> Iterator[Term]:
        """Eq. (4) + eq. (5) on means and beta eq. (6) on uncertainties, times `scale`."""
        terms = (anchor.output_term(scale) for anchor in self._anchors)
        yield from (term for term in terms if term is not None)
        if (whole := self._fused.term((scale, beta, inflate))) is not None:
            yield whole
            return
        for parameters, mean, anchor, grip in self._pulled():
            value, gradient = hold(mean, anchor, grip, scale)
            yield Term(parameters, value, _split(gradient, parameters))
        for rhos, rho, previous in self._spread():
            value, gradient = spread_and_gradient(F.softplus(rho), previous, inflate=inflate)
            # d/d rho = d/d sigma * sigmoid(rho)
            gradient.mul_(rho.sigmoid()).mul_(beta * scale)
            yield Term(rhos, value * (beta * scale), _split(gradient, rhos))

    def add_gradients(
        self, scale: float, beta: float, inflate: bool, optimizer: Adam | None = None
    ) -> None:
        """The same gradients, added to what the parameters have, or by `optimizer` on its way."""
        for held in self._anchors:
            held.add_output_gradients(scale)
        if self._fused.add_gradients((scale, beta, inflate), optimizer):
            return
        for parameters, mean, anchor, grip in self._pulled():
            if len(parameters) == 1:
                target = gradient_of(parameters[0])
                if target.dtype == mean.dtype:
                    add_hold_gradient(target.view_as(mean), mean, anchor, grip, scale)
                    continue
            gradient = torch.zeros_like(mean)
            add_hold_gradient(gradient, mean, anchor, grip, scale)
            _add(gradient, parameters)
        for rhos, rho, previous in self._spread():
            gradient = spread_gradient(F.softplus(rho), previous, inflate=inflate)
            _add(gradient.mul_(rho.sigmoid()).mul_(beta * scale), rhos)

    def _pulled(self) -> Iterator[tuple[list[nn.Parameter], Tensor, Tensor, Grip]]:
        """What is trained now: parameters, and their mean, anchor and grip, as one or blocks."""
        for anchored, grip in self._bundles:
            parameters = [each.parameter for each in anchored]
            if len(anchored) > 1 and all(parameter.requires_grad for parameter in parameters):
                anchors = [each.anchor for each in anchored]
                yield parameters, _end_to_end(parameters), _end_to_end(anchors), grip
            else:
                yield from _one_by_one(anchored)
        yield from _one_by_one(self._large)

    def _spread(self) -> Iterator[tuple[list[nn.Parameter], Tensor, Tensor]]:
        """What is trained now: rhos, and them and the previous sigmas as one."""
        for sigmas in self._sigmas:
            trained = [sigma for sigma in sigmas if sigma.parameter.requires_grad]
            if trained:
                rhos = [sigma.parameter for sigma in trained]
                yield rhos, _end_to_end(rhos), _end_to_end([each.anchor for each in trained])


def _one_by_one(
    anchored: Iterable[AnchoredParameter],
) -> Iterator[tuple[list[nn.Parameter], Tensor, Tensor, Grip]]:
    for each in anchored:
        if (parameter := each.parameter).requires_grad:
            blocks = each.held_by.blocks
            assert each.grip is not None
            yield [parameter], blocks(exact(parameter)), blocks(exact(each.anchor)), each.grip


def _grip_on_all(anchored: list[AnchoredParameter]) -> Grip:
    grips = [
        each.grip.for_each(each.held_by.blocks(each.anchor))
        for each in anchored
        if each.grip is not None
    ]
    freezes = [grip.freeze for grip in grips if grip.freeze is not None]
    node = torch.cat([grip.node for grip in grips])
    return Grip(node, None, torch.cat(freezes) if freezes else None)


def _end_to_end(tensors: Sequence[Tensor]) -> Tensor:
    whole: Tensor = _flatten_dense_tensors(tensors)
    return exact(whole)


def _split(whole: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
    if len(parameters) == 1:
        return [whole.view_as(parameters[0]).to(parameters[0].dtype)]
    parts: Sequence[Tensor] = _unflatten_dense_tensors(whole, parameters)
    return [part.to(own.dtype) for part, own in zip(parts, parameters, strict=True)]


def _add(gradient: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    for parameter, part in zip(parameters, _split(gradient, parameters), strict=True):
        gradient_of(parameter).add_(part)


def _alike(anchored: Iterable[AnchoredParameter]) -> list[list[AnchoredParameter]]:
    """Groups that live in one place in one precision."""
    groups: dict[Hashable, list[AnchoredParameter]] = {}
    for each in anchored:
        groups.setdefault((each.anchor.device, each.anchor.dtype), []).append(each)
    return list(groups.values())
