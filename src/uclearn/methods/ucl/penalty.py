"""What UCL remembers of each layer, how firmly it holds the layer to it, the penalty of it all, and
how what it remembers grows with the model.

A `LayerAnchor` remembers one layer as the previous task left it. `UCLPenalty` works on all layers
at once: in a small network a step costs what its calls cost, not what they compute, so small
parameters are laid end to end and worked on as one, and so are the uncertainties of all layers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from uclearn.gaussian import GaussianLayer
from uclearn.gaussian.layers import softplus_inverse
from uclearn.methods.contract import gradient_of
from uclearn.methods.ucl.batch_norm import tracking_norms
from uclearn.methods.ucl.rules import Start, evidence
from uclearn.methods.ucl.seen import SeenInputs
from uclearn.native import calls
from uclearn.penalties import (
    Given,
    Grip,
    Moved,
    add_hold_gradient,
    hold,
    output_drift,
    output_gradient,
    spread_and_gradient,
    spread_gradient,
)
from uclearn.sizes import SMALL_ANCHOR


class AnchoredParameter(NamedTuple):
    """A parameter of a layer (or its uncertainties), and what the previous task left of it."""

    held_by: LayerAnchor
    trained: str
    """Name of the layer's parameter; uncertainties are `rho`, with sigma = softplus(rho)."""
    left: str
    """Name of the anchor's buffer; uncertainties are kept as `sigma`."""
    grip: Grip | None = None
    """How firmly it is held; None for uncertainties, which have a term of their own."""

    @property
    def parameter(self) -> nn.Parameter:
        """As it is now."""
        parameter: nn.Parameter = getattr(self.held_by.layer, self.trained)
        return parameter

    @property
    def anchor(self) -> Tensor:
        """As the previous task left it."""
        anchor: Tensor = getattr(self.held_by, self.left)
        return anchor


class LayerAnchor(nn.Module):
    """The memory of one layer: its weights as the previous task left them.

    The layer itself is only referred to; it belongs to the model.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self._layer = (layer,)  # in a tuple, or it would be registered here too
        self.names: dict[str, str] = {}
        """By the name of what is held of the layer the name of the buffer that remembers it."""
        for name, parameter in layer.named_parameters(recurse=False):
            if self.holds(name):
                kept = name if name in ("weight", "bias") else f"left_{name}"
                self.names[name] = kept
                self.register_buffer(kept, parameter.detach().clone())
        self.anchored: list[AnchoredParameter] = []

    @property
    def layer(self) -> nn.Module:
        """The layer that is held."""
        return self._layer[0]

    def holds(self, name: str) -> bool:
        """Whether that parameter of the layer is held."""
        return name in ("weight", "bias")

    def strength(self) -> Tensor:
        """(nodes,) sigma_init / sigma' of each node that the layer makes."""
        raise NotImplementedError

    def tighten(
        self, arriving: Tensor, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> None:
        """Work out how firmly each parameter is held; the result is in `anchored`.

        Args:
            arriving: (input features,) strength of the nodes that feed each input.
            upper_freeze: whether weights are held by those, too.
            drift: weight of eq. (4).
            freeze: weight of eq. (5), None for off.
        """
        self.anchored = []
        for name, node, source in self.squared_strengths(arriving.square()):
            upper = source * drift if upper_freeze and source is not None else None
            grip = Grip(node * drift, upper, None if freeze is None else node * freeze)
            self.anchored.append(AnchoredParameter(self, name, self.names[name], grip))

    def squared_strengths(self, arriving: Tensor) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """For each parameter its name, the squared strength of the nodes that it belongs to, and of
        those that feed it (None: biases); `arriving` is squared, too."""
        raise NotImplementedError

    def blocks(self, tensor: Tensor) -> Tensor:
        """A view of something shaped like a parameter, over which its grip broadcasts."""
        return tensor

    def sigmas(self) -> list[AnchoredParameter]:
        """The uncertainties that the layer has."""
        return []

    def output_term(self, scale: float, *, valued: bool = True) -> Term | None:
        """Eq. (4) measured by what the nodes say, times `scale`; None: it is not measured so. Its
        value is 0 unless it is wanted."""
        return None

    @torch.no_grad()
    def remember(self) -> None:
        """Keep the weights as they are now."""
        for name, kept in self.names.items():
            self.get_buffer(kept).copy_(getattr(self.layer, name))


class GaussianAnchor(LayerAnchor):
    """A Gaussian layer: weights, biases and the uncertainty of its nodes."""

    weight: Tensor
    bias: Tensor
    sigma: Tensor
    sigma_bias: Tensor
    initial: Tensor

    def __init__(self, layer: GaussianLayer) -> None:
        super().__init__(layer)
        self.register_buffer("sigma", layer.sigma.detach().clone())
        if layer.sigma_bias is not None:
            self.register_buffer("sigma_bias", layer.sigma_bias.detach().clone())
        self.register_buffer("initial", layer.sigma.detach()[0].clone())
        self.even = 1.0
        """What the outputs' eq. (4) is multiplied by (`uclearn.methods.ucl.rules.evened`)."""

    @property
    def layer(self) -> GaussianLayer:
        """The layer that is held."""
        layer = self._layer[0]
        assert isinstance(layer, GaussianLayer)
        return layer

    def start(self) -> Start:
        """Where the layer started."""
        return Start(float(self.initial), self.layer.inputs_last(self.weight)[0, 0].numel())

    def strength(self) -> Tensor:
        """(nodes,) sigma_init / sigma'."""
        return self.initial / self.sigma

    def squared_strengths(self, arriving: Tensor) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """Weights are held by the stronger of both nodes, biases by their own."""
        node = self.layer.over_nodes(self.strength().square())
        yield "weight", node, self.layer.over_sources(arriving)
        if "bias" in self._buffers:
            sigma = self.sigma if self.layer.sigma_bias is None else self.sigma_bias
            yield "bias", (self.initial / sigma).square(), None

    def blocks(self, tensor: Tensor) -> Tensor:
        """Weights as their layer sees them; biases as they are."""
        return self.layer.blocks(tensor) if tensor.dim() > 1 else tensor

    def sigmas(self) -> list[AnchoredParameter]:
        """Of its nodes, and of its biases where those are noisy."""
        names = (("rho", "sigma"), ("rho_bias", "sigma_bias"))
        return [AnchoredParameter(self, *pair) for pair in names if pair[1] in self._buffers]

    @torch.no_grad()
    def be_as_certain(self, strength: Tensor) -> None:
        """Give the layer's nodes a sigma that was not learned.

        Args:
            strength: (nodes,) sigma_init / sigma.
        """
        rho = [softplus_inverse(sigma) for sigma in (self.initial / strength).tolist()]
        for each in (self.layer.rho, self.layer.rho_bias):
            if each is not None:
                # by its data: a loop may be between its forward and its backward pass
                each.data.copy_(torch.tensor(rho))

    @torch.no_grad()
    def remember(self) -> None:
        """Keep weights and uncertainties."""
        super().remember()
        self.sigma.copy_(self.layer.sigma)
        if self.layer.sigma_bias is not None:
            self.sigma_bias.copy_(self.layer.sigma_bias)


class OutputAnchor(GaussianAnchor):
    """A Gaussian layer that is held to what its nodes say to what they have been given."""

    def __init__(self, layer: GaussianLayer) -> None:
        super().__init__(layer)
        self.seen = SeenInputs(layer)
        self._given: Given | None = None
        self._node = self.sigma  # (groups, nodes per group) squared strength, once tightened

    def tighten(
        self, arriving: Tensor, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> None:
        """Weights and biases are held together; which node feeds a weight is in what was seen."""
        self.anchored = []
        self._given = self.seen.given()
        groups = self.layer.inputs_last(self.weight).shape[0]
        self._node = (evidence(self.strength()) * drift * self.even).view(groups, -1)

    def output_term(self, scale: float, *, valued: bool = True) -> Term | None:
        """Of weight and bias, whichever of them is trained."""
        layer, given = self.layer, self._given
        weight, bias = layer.get_parameter("weight"), layer.bias
        trained = [each for each in (weight, bias) if each is not None and each.requires_grad]
        if given is None or not trained:
            return None
        moved = layer.inputs_last(_exact(weight)) - layer.inputs_last(_exact(self.weight))
        moved = moved.unsqueeze(2).flatten(2, -2)  # (groups, nodes, positions, inputs)
        moved_bias = None
        if bias is not None:
            moved_bias = (_exact(bias) - _exact(self.bias)).view_as(self._node)
        drift = (Moved(moved, moved_bias), given, self._node * scale)
        if valued:
            value, pull = output_drift(*drift)
        else:
            value, pull = moved.new_zeros(()), output_gradient(*drift)
        gradients = [self._as_stored(pull.weight)] if weight.requires_grad else []
        if pull.bias is not None and bias.requires_grad:
            gradients.append(pull.bias.flatten().to(bias.dtype))
        return Term(trained, value, gradients)

    @torch.no_grad()
    def silence_idle(self) -> None:
        """Weights from inputs that have never said anything become 0: what the layer makes of all
        that it was given does not change, and whoever speaks up later is not heard at once."""
        if not self.seen.words:
            view = self.layer.inputs_last(self.layer.weight)
            view.mul_(~self.seen.idle().view(len(view), *(1,) * (view.dim() - 2), -1))

    def _as_stored(self, gradient: Tensor) -> Tensor:
        """In the shape of the weight, from (groups, nodes, positions, inputs)."""
        stored = torch.empty_like(self.layer.weight)
        view = self.layer.inputs_last(stored)
        if gradient.numel() == gradient.shape[1] * gradient.shape[3] and view.is_contiguous():
            return gradient.reshape(stored.shape).to(stored.dtype)  # rows are nodes, as they are
        view.copy_(gradient.reshape(view.shape))
        return stored


class NormAnchor(LayerAnchor):
    """A normalisation: its scale and shift belong to the nodes that arrive, like their biases; and
    any module whose own parameters belong to no node that is known.

    Args:
        layer: the module.
        only: the names of what is held of it, by default everything of its own.
    """

    def __init__(self, layer: nn.Module, only: Iterable[str] | None = None) -> None:
        self._only = None if only is None else frozenset(only)
        super().__init__(layer)

    def holds(self, name: str) -> bool:
        """Whatever was asked for."""
        return self._only is None or name in self._only

    def squared_strengths(self, arriving: Tensor) -> Iterator[tuple[str, Tensor, Tensor | None]]:
        """Scale and shift are held with the strength of their own feature, others by that of all
        features on average."""
        for name, kept in self.names.items():
            anchor = self.get_buffer(kept)
            fits = arriving.numel() == anchor.numel()
            yield name, arriving.view_as(anchor) if fits else arriving.mean(), None


class Term(NamedTuple):
    """A part of the penalty: the parameters that it is on, its value, its gradients."""

    parameters: Sequence[nn.Parameter]
    value: Tensor
    gradients: Sequence[Tensor]


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
        yield from self._output_terms(scale)
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

    def add_gradients(self, scale: float, beta: float, inflate: bool) -> None:
        """The same gradients, added to what the parameters have."""
        for term in self._output_terms(scale, valued=False):
            for parameter, gradient in zip(term.parameters, term.gradients, strict=True):
                gradient_of(parameter).add_(gradient)
        if self._fused.add_gradients((scale, beta, inflate)):
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

    def _output_terms(self, scale: float, *, valued: bool = True) -> Iterator[Term]:
        terms = (anchor.output_term(scale, valued=valued) for anchor in self._anchors)
        return (term for term in terms if term is not None)

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
    def _hold(self) -> calls.Hold | None:
        """None where something is not as the library needs it."""
        everything = (*self._anchored, *self._sigmas)
        self._places = [(each.held_by.layer._parameters, each.trained) for each in everything]
        if not calls.usable(*(each.anchor for each in everything)):
            return None
        pulled = [_by_rows(each) for each in self._anchored]
        whole = [each for each in pulled if each is not None]
        previous = [sigma.anchor for sigma in self._sigmas]
        return calls.Hold(whole, previous) if len(whole) == len(pulled) else None

    def term(self, settings: tuple[float, float, bool]) -> Term | None:
        """All of it; None: not here."""
        hold, parameters = self._hold, self._trained()
        if hold is None or parameters is None:
            return None
        value, gradients = hold.value_and_gradients(parameters, settings)
        return Term(parameters, torch.tensor(value), gradients)

    def add_gradients(self, settings: tuple[float, float, bool]) -> bool:
        """Add them to what the parameters have; False: not here, and nothing was added."""
        hold, parameters = self._hold, self._trained()
        if hold is None or parameters is None:
            return False
        gradients = [gradient_of(parameter) for parameter in parameters]
        if not calls.usable(*gradients):
            return False
        hold.add_gradients(parameters, gradients, settings)
        return True

    def _trained(self) -> list[nn.Parameter] | None:
        """All that is held, weights first; None if some of it is not trained, or has moved to
        where the library cannot reach it."""
        parameters = [own.get(name) for own, name in self._places]
        found = [p for p in parameters if p is not None and p.requires_grad]
        whole = len(found) == len(parameters) and calls.usable(*found)
        return found if whole else None


def _by_rows(anchored: AnchoredParameter) -> calls.Pulled | None:
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
    return calls.Pulled(anchored.anchor, grip.node.reshape(-1).contiguous(), source, freeze)


def _one_by_one(
    anchored: Iterable[AnchoredParameter],
) -> Iterator[tuple[list[nn.Parameter], Tensor, Tensor, Grip]]:
    for each in anchored:
        if (parameter := each.parameter).requires_grad:
            blocks = each.held_by.blocks
            assert each.grip is not None
            yield [parameter], blocks(_exact(parameter)), blocks(_exact(each.anchor)), each.grip


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
    return _exact(whole)


def _exact(tensor: Tensor) -> Tensor:
    """In single precision at least: squares of small differences are lost in half of it."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


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


@torch.no_grad()
def grow(method: Any, growth: Any) -> None:
    """After the model of a UCL was widened (`growth`: a `uclearn.surgery.growth.Growth`): new nodes
    have the initial sigma, as if the previous task had left it, and are anchored where they are; a
    new feature's statistics are neutral."""
    for held in method.held:
        assert isinstance(held, LayerAnchor)
        for name, kept in held.names.items():
            setattr(held, kept, growth.extended(held.layer, name, held.get_buffer(kept)))
        if isinstance(held, GaussianAnchor):
            _free_nodes(held, growth)
        if isinstance(held, OutputAnchor):
            places = growth.of(held.layer).features.to(held.sigma.device)
            held.seen = held.seen.widened(held.layer, places, NEW)
    method.statistics.per_task = _statistics(method, growth)
    method.retrace(growth.example)


NEW = -1
"""As `uclearn.surgery.resize` marks what was not there before."""


def _free_nodes(held: GaussianAnchor, growth: Any) -> None:
    initial, layer = float(held.initial), held.layer
    nodes = growth.of(layer).nodes
    fresh = growth.is_new(nodes).to(layer.rho.device)
    for which in ("sigma", "sigma_bias"):
        if which in held._buffers:
            setattr(held, which, growth.picked(held.get_buffer(which), nodes, initial))
    for rho in (layer.rho, layer.rho_bias):
        if rho is not None:
            rho[fresh] = softplus_inverse(initial)


def _statistics(method: Any, growth: Any) -> Tensor:
    """(tasks, numbers): per norm the means, then the variances."""
    flat: Tensor = method.statistics.per_task
    parts, start = [], 0
    for norm in tracking_norms(method.model):
        features = growth.of(norm).features
        before = int((~growth.is_new(features)).sum())
        for neutral in (0.0, 1.0):
            parts.append(growth.picked(flat[:, start : start + before], features, neutral, dim=1))
            start += before
    return torch.cat(parts, dim=1) if parts else flat
