"""Parameters of no known node: of recurrent layers, tokens, tables of experts, weights that are
computed before each use.

Such a parameter is held as a layer is: what hangs on each row is measured when a task ends, and in
which directions. A layer knows the latter from what it was given. Here it is taken from gradients,
which are inputs times what hangs on the row: their second moment C along a row, in units in which
its diagonal is 1 on average, is what inputs would have, weighed by how much they matter. With d_r
the change of row r since the previous task, eq. (4) becomes

    1/2 * sum_r (v_r d_r C d_r^T + FLOOR |d_r|^2)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from uclearn.methods.contract import gradient_of
from uclearn.methods.ucl.anchors import AnchoredParameter, NormAnchor, Term, exact
from uclearn.methods.ucl.rules import FLOOR, weighed
from uclearn.methods.ucl.seen import layout
from uclearn.penalties import Given, Grip, Moved, OutputHold

_KIND = re.compile("weight|bias|ih|hh")
"""What of a name does not say where a parameter leads."""


def as_rows(tensor: Tensor) -> Tensor:
    """A view (groups, rows, numbers of a row) of a parameter: a matrix is one group, a stack of
    matrices one for each, a kernel of a convolution a row; of a vector, whatever its shape, each
    number is a row.

    >>> as_rows(torch.zeros(1, 1, 8)).shape, as_rows(torch.zeros(4, 3, 2)).shape
    (torch.Size([1, 8, 1]), torch.Size([4, 3, 2]))
    """
    if sum(size > 1 for size in tensor.shape) <= 1:
        return tensor.reshape(1, -1, 1)
    if tensor.dim() > 3:
        return tensor.flatten(1).unsqueeze(0)
    return tensor if tensor.dim() == 3 else tensor.unsqueeze(0)


def side_by_side(tensors: Sequence[Tensor]) -> Tensor:
    """(groups, rows, numbers of all their rows)."""
    return torch.cat([as_rows(exact(tensor)) for tensor in tensors], -1)


class Curved(NamedTuple):
    """How much hangs on the rows of some parameters: sums over batches of squared gradients."""

    rows: Tensor
    """(groups, rows): summed over each row."""
    columns: Tensor
    """(groups, blocks, width, width): products of neighbouring columns, summed over rows."""

    @classmethod
    def nothing(cls, parameters: Sequence[Tensor]) -> Curved:
        """As many zeros."""
        groups, rows, width = side_by_side(parameters).shape
        count, width = layout(width, rows)
        zeros = exact(parameters[0].detach()).new_zeros
        return cls(zeros(groups, rows), zeros(groups, count, width, width))

    @torch.no_grad()
    def add(self, gradients: Sequence[Tensor]) -> None:
        """Those of a batch."""
        whole = side_by_side(gradients)
        self.rows.add_(whole.square().sum(-1))
        for number, part in enumerate(whole.split(self.columns.shape[-1], -1)):
            wide = part.shape[-1]
            self.columns[:, number, :wide, :wide] += part.mT @ part


class LooseAnchor(NormAnchor):
    """A module whose own parameters belong to no node that is known: each row is held by what was
    found to hang on it, and by how much nodes are on average while nothing was measured.

    Weights and biases that lead to the same place (`weight_ih_l0`, `weight_hh_l0` and both biases
    of a recurrent layer) are one parameter whose rows stand side by side.

    Args:
        module: whose parameters they are.
        only: their names.
        measures: whether anything will be measured; else nothing is kept for it.
    """

    looks: Tensor
    """How often it was measured."""

    def __init__(self, module: nn.Module, only: Iterable[str], *, measures: bool = True) -> None:
        super().__init__(module, only)
        bundles: dict[tuple[str, torch.Size], list[str]] = {}
        for name in self.names:
            shape = as_rows(module.get_parameter(name)).shape[:2]
            bundles.setdefault((_KIND.sub("", name), shape), []).append(name)
        self.bundles = list(bundles.values()) if measures else []
        for number, names in enumerate(self.bundles):
            rows, columns = Curved.nothing(self._now(names))
            self.register_buffer(f"gained_{number}", rows)
            self.register_buffer(f"columns_{number}", columns)
        self.register_buffer("looks", torch.tensor(0))
        self._holds: list[OutputHold] = []

    def bundled(self) -> list[list[nn.Parameter]]:
        """What `gain` wants to be told about."""
        return [self._now(names) for names in self.bundles]

    @torch.no_grad()
    def gain(self, found: Iterable[Curved], factor: float) -> None:
        """A task is over in which more hangs on the rows.

        Args:
            found: for each bundle, averaged over examples.
            factor: by how much a row is held for each unit of its mean curvature.
        """
        share = 1 / (float(self.looks) + 1)
        for number, (rows, columns) in enumerate(found):
            numbers = side_by_side(self._left(self.bundles[number])).shape[-1]
            self.get_buffer(f"gained_{number}").add_(rows * (factor / numbers))
            unit = columns.diagonal(dim1=-2, dim2=-1).sum((1, 2))[:, None, None, None] / numbers
            unit = unit.clamp_min(torch.finfo(columns.dtype).tiny)
            self.get_buffer(f"columns_{number}").lerp_(columns / unit, share)
        self.looks += bool(self.bundles)

    def tighten(
        self, arriving: Tensor, upper_freeze: bool, drift: Tensor, freeze: Tensor | None
    ) -> None:
        """Row by row; and every number a little, wherever it leads."""
        self._holds = []
        if self.looks == 0:
            super().tighten(arriving, upper_freeze, drift, freeze)
            return
        none = None if freeze is None else torch.zeros_like(drift)
        grip = Grip(drift * FLOOR, None, none)
        self.anchored = [AnchoredParameter(self, *both, grip) for both in self.names.items()]
        for number, names in enumerate(self.bundles):
            columns = self.get_buffer(f"columns_{number}")
            mean = columns.new_zeros(len(columns), side_by_side(self._left(names)).shape[-1])
            node = weighed(self.get_buffer(f"gained_{number}"), floor=0.0) * drift
            self._holds.append(OutputHold(Given(mean, columns, columns.new_ones(())), node))

    def output_term(self, scale: float) -> Term | None:
        """Of all that is trained."""
        terms = [
            (parameter, gradient, moved)
            for names, hold in zip(self.bundles, self._holds, strict=False)
            for parameter, gradient, moved in self._pulls(names, hold, scale)
            if parameter.requires_grad
        ]
        if not terms:
            return None
        value = torch.stack([(gradient * moved).sum() for _, gradient, moved in terms]).sum() / 2
        gradients = [gradient.view_as(own).to(own.dtype) for own, gradient, _ in terms]
        return Term([parameter for parameter, *_ in terms], value, gradients)

    def add_output_gradients(self, scale: float) -> None:
        """One by one."""
        if (term := self.output_term(scale)) is not None:
            for parameter, gradient in zip(term.parameters, term.gradients, strict=True):
                gradient_of(parameter).add_(gradient)

    def _pulls(
        self, names: Sequence[str], hold: OutputHold, scale: float
    ) -> Iterator[tuple[nn.Parameter, Tensor, Tensor]]:
        """Each parameter of a bundle, the gradient, and how far it has moved, row by row."""
        moved = side_by_side(self._now(names)) - side_by_side(self._left(names))
        pull = hold.gradient(Moved(moved, None), scale).weight
        parameters = self._now(names)
        widths = [as_rows(parameter).shape[-1] for parameter in parameters]
        parts = (whole.split(widths, -1) for whole in (pull, moved))
        yield from zip(parameters, *parts, strict=True)

    def _now(self, names: Sequence[str]) -> list[nn.Parameter]:
        return [self.layer.get_parameter(name) for name in names]

    def _left(self, names: Sequence[str]) -> list[Tensor]:
        return [self.get_buffer(self.names[name]) for name in names]
