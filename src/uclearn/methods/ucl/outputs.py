"""Layers that are held to what their nodes say to what they have been given."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uclearn.gaussian import GaussianLayer
from uclearn.methods.contract import gradient_of
from uclearn.methods.ucl.anchors import GaussianAnchor, Term, exact
from uclearn.methods.ucl.pretrained import strengths_by
from uclearn.methods.ucl.rules import (
    affordable,
    evidence,
    gained_by_acting,
    most_held,
    share_of_measured,
)
from uclearn.methods.ucl.seen import SeenInputs
from uclearn.native import calls, holding
from uclearn.penalties import Given, Moved, OutputHold, half_product, output_drift, steepest


class OutputAnchor(GaussianAnchor):
    """A Gaussian layer that is held to what its nodes say to what they have been given."""

    def __init__(self, layer: GaussianLayer) -> None:
        super().__init__(layer)
        self.seen = SeenInputs(layer)
        self._node = self.sigma  # (groups, nodes per group) squared strength, once tightened
        self._hold: OutputHold | None = None
        self._spoken: holding.Spoken | None = None
        self._words: tuple[Tensor, Tensor] | None = None
        """Of an embedding the words that were seen, and how often."""

    @torch.no_grad()
    def be_as_certain_as_measured(
        self,
        curvature: Tensor,
        beta: float,
        batch_size: int,
        *,
        acted: bool,
        lr: float | None,
        share: float = 1.0,
    ) -> None:
        """Nodes gain in strength, since the previous task, what the curvature of this one warrants;
        those that have learned to be more certain than that stay so, unless by acting.

        Args:
            curvature: (nodes,) as `measured`.
            beta: weight of eq. (6).
            batch_size: that the task was learned with.
            acted: whether it was learned by acting.
            lr: of the means.
            share: of what all tasks hold together, what is held.
        """
        counted = curvature * share_of_measured(self.layer)
        measured = strengths_by(counted, float(self.initial), beta, batch_size).square() - 1
        before = self.strength().square().clamp_min(1)
        given = self.seen.given()
        if acted:
            gained = gained_by_acting(measured)
        elif given is not None and self.layer.weight.dim() > 2:
            gained = measured * affordable(self._price(given, measured) / batch_size)
        else:
            gained = measured
        squared = before + gained
        if given is not None:
            most = most_held(steepest(given) * self.even * share, batch_size, lr)
            squared = squared.clamp_max(most).maximum(before)
        sigma = self.initial / squared.sqrt()
        rho = sigma + torch.log(-torch.expm1(-sigma))
        known = self.layer.rho.data
        known.copy_(rho if acted else torch.minimum(known, rho))

    def _price(self, given: Given, gained: Tensor) -> float:
        """What eq. (4) says of undoing all that the nodes say, by what they have `gained`."""
        weight = self.layer.inputs_last(exact(self.layer.weight.detach())).flatten(2)
        node = (gained * self.even).view(weight.shape[:2])
        bias = self.layer.bias
        own = None if bias is None else exact(bias.detach()).view_as(node)
        return float(output_drift(Moved(weight, own), given, node)[0])

    def tighten(
        self, arriving: Tensor, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> None:
        """Weights and biases are held together; which node feeds a weight is in what was seen."""
        self.anchored = []
        groups = self.layer.inputs_last(self.weight).shape[0]
        self._node = (evidence(self.strength()) * drift * self.even).view(groups, -1)
        given = self.seen.given()
        self._hold = None if given is None else OutputHold(given, self._node)
        self._spoken = self._words = None
        if given is not None and self.seen.words:
            seen = given.covariance[0].nonzero().flatten()
            self._words = seen, given.covariance[0][seen].unsqueeze(-1)
        if given is not None and (rows := self._by_rows(self.weight)) is not None:
            bias = self._buffers.get("bias")
            kept = (rows[0], bias, given.mean[0])
            self._spoken = holding.Spoken(*kept, float(given.one), self._node[0], self.seen.width)

    def output_term(self, scale: float) -> Term | None:
        """Of weight and bias, whichever of them is trained."""
        trained = self._trained()
        if self._hold is None or not trained:
            return None
        if self._words is not None:
            weight, (words, rows, value) = trained["weight"], self._pulled_words(scale)
            gradient = torch.zeros_like(weight).index_copy_(0, words, rows)
            return Term([weight], value, [gradient])
        if (term := self._term_by_library(trained, scale)) is not None:
            return term
        moved = self._moved()
        pull = self._hold.gradient(moved, scale)
        gradients = {"weight": self._as_stored(pull.weight)}
        if pull.bias is not None:
            gradients["bias"] = pull.bias.flatten().to(self.bias.dtype)
        wanted = [gradients[name] for name in trained]
        return Term(list(trained.values()), half_product(pull, moved), wanted)

    def add_output_gradients(self, scale: float) -> None:
        """Where rows of the weight are nodes, by products that add to its gradient."""
        trained = self._trained()
        if self._hold is None or not trained:
            return
        weight = trained.get("weight")
        if self._words is not None and weight is not None:
            words, pull, _ = self._pulled_words(scale)
            gradient_of(weight).index_add_(0, words, pull)
            return
        rows = None if weight is None else self._by_rows(gradient_of(weight))
        if rows is None or rows.dtype != self._node.dtype:
            term = self.output_term(scale)
            assert term is not None
            for parameter, gradient in zip(term.parameters, term.gradients, strict=True):
                gradient_of(parameter).add_(gradient)
            return
        to_bias = gradient_of(trained["bias"]) if "bias" in trained else None
        pulled = self._pulled_rows(to_bias, scale)
        if pulled is not None:
            self._hold.add_products(rows, pulled.unsqueeze(1))
            return
        bias_rows = None if to_bias is None else to_bias.unsqueeze(0)
        self._hold.add_gradient(Moved(rows, bias_rows), self._moved(), scale)

    @torch.no_grad()
    def silence_idle(self) -> None:
        """Weights from inputs that have never said anything become 0: what the layer makes of all
        that it was given does not change, and whoever speaks up later is not heard at once."""
        if not self.seen.words:
            view = self.layer.inputs_last(self.layer.weight)
            view.mul_(~self.seen.idle().view(len(view), 1, *view.shape[2:]))

    def _trained(self) -> dict[str, nn.Parameter]:
        own = self.layer._parameters
        both = {name: own.get(name) for name in ("weight", "bias")}
        return {name: p for name, p in both.items() if p is not None and p.requires_grad}

    def _pulled_words(self, scale: float) -> tuple[Tensor, Tensor, Tensor]:
        """Which words were seen, what pulls at them, (words, nodes), and the value."""
        assert self._words is not None
        words, times = self._words
        moved = exact(self.layer.weight[words]) - exact(self.weight[words])
        pull = moved * times * (self._node * scale)
        return words, pull.to(self.weight.dtype), (pull * moved).sum() / 2

    def _moved(self) -> Moved:
        """Since the previous task."""
        layer = self.layer
        moved = layer.inputs_last(exact(layer.weight)) - layer.inputs_last(exact(self.weight))
        moved = moved.flatten(2)
        if layer.bias is None:
            return Moved(moved, None)
        return Moved(moved, (exact(layer.bias) - exact(self.bias)).view_as(self._node))

    def _by_rows(self, weight: Tensor) -> Tensor | None:
        """(1, nodes, inputs): a view, where weights are stored so."""
        view = self.layer.inputs_last(weight)
        dense = len(view) == 1 and view.is_contiguous() and not self.seen.words
        return view.flatten(2) if dense else None

    def _pulled_rows(self, to_bias: Tensor | None, scale: float) -> Tensor | None:
        """From one pass of the library over the weights; None: not here."""
        spoken, bias = self._spoken, self.layer.bias
        rows = None if spoken is None else self._by_rows(self.layer.weight.detach())
        if spoken is None or rows is None:
            return None
        others = (each for each in (bias, to_bias) if each is not None)
        if not calls.usable(spoken.anchor, spoken.mean, spoken.node, rows, *others):
            return None
        return holding.pulled_rows(spoken, rows[0], bias, to_bias, scale)

    def _term_by_library(self, trained: dict[str, nn.Parameter], scale: float) -> Term | None:
        """The term where both are trained, or there is no bias; None: not here."""
        assert self._hold is not None
        if len(trained) < (1 if self.layer.bias is None else 2):
            return None
        bias = trained.get("bias")
        to_bias = None if bias is None else torch.zeros_like(bias)
        pulled = self._pulled_rows(to_bias, scale)
        if pulled is None:
            return None
        gradients = [torch.empty_like(trained["weight"])]
        into = gradients[0].flatten(1).unsqueeze(0)
        self._hold.add_products(into, pulled.unsqueeze(1), fresh=True)
        value = holding.along(gradients[0], trained["weight"], self.weight)
        if bias is not None and to_bias is not None:
            gradients.append(to_bias)
            value += holding.along(to_bias, bias, self.bias)
        return Term(list(trained.values()), torch.tensor(value / 2), gradients)

    def _as_stored(self, gradient: Tensor) -> Tensor:
        """In the shape of the weight, from (groups, nodes, inputs)."""
        stored = torch.empty_like(self.layer.weight)
        if self._by_rows(stored) is not None:
            return gradient.view(stored.shape).to(stored.dtype)
        view = self.layer.inputs_last(stored)
        view.copy_(gradient.reshape(view.shape))
        return stored
