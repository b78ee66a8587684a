"""Everything of a model that UCL holds, how firmly, and how that follows from a look at a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from uclearn.gaussian import GaussianLayer, Survey
from uclearn.methods.ucl.anchors import GaussianAnchor, LayerAnchor, NormAnchor
from uclearn.methods.ucl.looking import Look, Surprise, look
from uclearn.methods.ucl.loose import LooseAnchor
from uclearn.methods.ucl.outputs import OutputAnchor
from uclearn.methods.ucl.penalty import UCLPenalty
from uclearn.methods.ucl.pretrained import strengths_by
from uclearn.methods.ucl.rules import ALONE, beta_by_rule, caution, evened
from uclearn.topology import Topology

Hold = Literal["outputs", "weights"]


class Memory:
    """An anchor for each layer, for each normalisation, for each module with other parameters.

    Args:
        found: what conversion made of the model.
        hold: what eq. (4) keeps.
        pretrained: what the model knew before is measured.
    """

    def __init__(self, found: Survey, hold: Hold, pretrained: bool) -> None:
        measures = hold == "outputs" or pretrained
        self.layers: dict[str, GaussianLayer] = {
            name: layer for name, layer in found.layers.items() if isinstance(layer, GaussianLayer)
        }
        self.norms = {name: norm for name, norm in found.norms.items() if _learned(found, name)}
        anchor = OutputAnchor if hold == "outputs" else GaussianAnchor
        self.held = nn.ModuleList(
            [anchor(layer) for layer in self.layers.values()]
            + [NormAnchor(norm, _learned(found, name)) for name, norm in self.norms.items()]
            + [LooseAnchor(m, own, measures=measures) for _, m, own in found.loose_parameters()]
        )

    def anchors(self) -> Iterator[LayerAnchor]:
        """All of them, layers first."""
        for held in self.held:
            assert isinstance(held, LayerAnchor)
            yield held

    def gaussian(self) -> list[GaussianAnchor]:
        """Those of layers."""
        return [held for held in self.held if isinstance(held, GaussianAnchor)]

    def outputs(self) -> list[OutputAnchor]:
        """Those of layers that are held to what their nodes say."""
        return [held for held in self.held if isinstance(held, OutputAnchor)]

    def loose(self) -> list[LooseAnchor]:
        """Those of parameters of no known node."""
        return [held for held in self.held if isinstance(held, LooseAnchor)]

    # -- what is found when a task ends ------------------------------------------------------

    def look(
        self,
        model: nn.Module,
        passes: Iterable[Callable[[], Any]],
        surprise: Surprise | None,
    ) -> Look:
        """What layers are given and, unless `surprise` is None, how much hangs on everything."""
        return look(
            model,
            [held.layer for held in self.gaussian()],
            passes,
            seen=[held.seen for held in self.outputs()],
            loose=[bundle for held in self.loose() for bundle in held.bundled()],
            surprise=surprise,
        )

    def see(self, looked: Look) -> None:
        """What layers were given counts as a task."""
        for held, sums in zip(self.outputs(), looked.sums, strict=True):
            held.seen.add_task(sums)

    def be_as_certain_as_measured(
        self,
        looked: Look,
        beta: float,
        batch_size: int,
        *,
        acted: bool,
        lr: float | None,
        share: float,
    ) -> None:
        """Nodes and rows on which much hangs in a task that was learned become certain, even if
        sigma had no time for it; in one that was learned by acting, no others. To be said once the
        task was seen."""
        for held, curvature in zip(self.outputs(), looked.curvature, strict=True):
            held.be_as_certain_as_measured(
                curvature, beta, batch_size, acted=acted, lr=lr, share=share
            )
        self._gain(looked, ALONE * batch_size, beta)

    def be_as_certain(self, looked: Look, beta: float, share: float) -> None:
        """So do those of a network that was finished before; with a share of the usual caution."""
        for held, curvature in zip(self.gaussian(), looked.curvature, strict=True):
            start, size = float(held.initial), looked.batch_size
            held.be_as_certain(strengths_by(curvature * share, start, beta, size))
        self._gain(looked, share * looked.batch_size, beta)

    def _gain(self, looked: Look, factor: float, beta: float) -> None:
        rows = iter(looked.rows)
        if looked.rows:
            factor *= caution((held.start() for held in self.gaussian()), beta)
            for held in self.loose():
                held.gain([next(rows) for _ in held.bundles], factor)

    def remember(self) -> None:
        """Weights and uncertainties as they are now."""
        for held in self.anchors():
            held.remember()

    def alike(self, looked: Look) -> float:
        """How much what the layers are given in the task that ends varies as it did in earlier
        tasks: the cosine of the two covariances, of the layer where it is least; 0 if nothing
        varied. To be asked before the former is seen."""
        found = [
            held.seen.alike(sums) for held, sums in zip(self.outputs(), looked.sums, strict=True)
        ]
        return min((cosine for cosine in found if cosine is not None), default=0.0)

    def holds_all_of(self, module: nn.Module) -> bool:
        """Whether everything of a module that learns is remembered (or is an uncertainty)."""
        known = {id(now) for now, _ in self._pairs()}
        for layer in self.layers.values():
            known |= {id(layer.rho), id(layer.rho_bias)}
        return all(id(p) in known for p in module.parameters() if p.requires_grad)

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        """Within, the model has the weights that the previous task left."""
        pairs = self._pairs()
        for now, before in pairs:
            now.data, before.data = before.data, now.data
        try:
            yield
        finally:  # in reverse: layers may share a weight
            for now, before in reversed(pairs):
                now.data, before.data = before.data, now.data

    def _pairs(self) -> list[tuple[nn.Parameter, Tensor]]:
        """What is held, as it is now and as it was."""
        return [
            (held.layer.get_parameter(name), held.get_buffer(kept))
            for held in self.anchors()
            for name, kept in held.names.items()
        ]

    # -- how firmly ----------------------------------------------------------------------------

    def strengths(self) -> Tensor:
        """(all nodes,) sigma_init / sigma'; 1 where there are none."""
        found = [held.strength() for held in self.gaussian()]
        return torch.cat(found) if found else torch.ones(1)

    def settle_beta(self) -> float:
        """By rule; what a layer differs from the average is made up for in eq. (4)."""
        gaussian = self.gaussian()
        starts = [held.start() for held in gaussian]
        beta = beta_by_rule(starts)
        for held, start in zip(gaussian, starts, strict=True):
            held.even = evened(start, beta)
        return beta

    def tighten(
        self, topology: Topology, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> UCLPenalty:
        """Work out, from what is remembered, how firmly each weight is held; the arguments are as
        those of `LayerAnchor.tighten`."""
        everything, strengths = list(self.anchors()), self.strengths()
        usual = strengths.square().mean().sqrt()
        names = [*self.layers, *self.norms]
        for name, held in zip(names, everything, strict=False):
            arriving = topology.arriving(name, strengths)
            if isinstance(held, NormAnchor):  # what no node feeds is held as the others are
                arriving = torch.where(arriving > 0, arriving, usual)
            held.tighten(arriving, upper_freeze, drift, freeze)
        for held in everything[len(names) :]:
            held.tighten(usual, upper_freeze, drift, freeze)
        return UCLPenalty(everything)


def _learned(found: Survey, place: str) -> list[str]:
    """The parameters of a normalisation that learn and were not named in `plain`."""
    own = found.norms[place].named_parameters(recurse=False)
    return [n for n, p in own if p.requires_grad and f"{place}.{n}".lstrip(".") not in found.free]
