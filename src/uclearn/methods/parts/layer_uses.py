"""Noting how the layers of a network are used, to tell the gradients of its examples apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from uclearn.methods.parts.layer_gradients import Rule, linear_weight, rules_for


class Use(NamedTuple):
    """A layer was called."""

    layer: nn.Module
    input: Tensor  # (rows, ...), a whole number of rows per example
    output: GradientEdge


class Part(NamedTuple):
    """What one use of a layer contributes to the gradient of one of its parameters."""

    rule: Rule
    layer: nn.Module
    input: Tensor
    gradient: Tensor  # of the summed losses, with respect to the output
    batch: int  # examples

    def of(self, examples: slice, groups: int) -> Tensor:
        """(groups, *shape): the gradient of each group of those examples."""
        each = len(self.input) // self.batch
        rows = slice(examples.start * each, examples.stop * each)
        return self.rule(self.layer, self.input[rows], self.gradient[rows], groups)

    @property
    def size(self) -> int:
        """About how many numbers the rule makes for one example, beside its gradient."""
        kernel = torch.Size(getattr(self.layer, "kernel_size", ()))
        return kernel.numel() * self.input.numel() // self.batch

    @property
    def is_outer(self) -> bool:
        """Whether each example's gradient is one outer product of gradient and input."""
        flat = self.input.dim() == 2 and len(self.input) == self.batch
        return self.rule is linear_weight and flat


class LayerUses:
    """Notes, while it is open, what goes into each layer and where it comes out."""

    def __init__(self, model: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        self.model, self.parameters = model, parameters
        self._uses: list[Use] = []
        self._handles: list[Any] = []
        self._independent: set[int] = set()  # layers whose rows belong to one example each
        self._entangled: set[int] = set()  # and those where they do not

    def __enter__(self) -> Self:
        wanted = {id(parameter) for parameter in self.parameters}
        for module in self.model.modules():
            if any(id(p) in wanted for p in module.parameters(recurse=False)):
                # first of all hooks: others may change what they see
                self._handles.append(module.register_forward_hook(self._note, prepend=True))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._uses.clear()

    def _note(self, layer: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if arguments and isinstance(output, Tensor) and output.requires_grad and rules_for(layer):
            # the edge, not the tensor: an activation in place would take the tensor over
            self._uses.append(Use(layer, arguments[0].detach(), get_gradient_edge(output)))

    def parts(self, losses: Tensor) -> list[list[Part] | None]:
        """For each parameter the parts that make up its gradient; None where they do not.

        The graph knows how often a parameter was used. If that many uses were noted, and each
        row of those layers belongs to one example, the parts are the whole truth.
        """
        uses, self._uses = self._uses, []
        found = self._found(losses, uses) if uses else {}
        expected = _uses_in_graph(losses)
        return [
            parts if len(parts) == expected[id(parameter)] and self._clear(parts) else None
            for parameter in self.parameters
            for parts in [found.get(id(parameter), [])]
        ]

    def _found(self, losses: Tensor, uses: Sequence[Use]) -> dict[int, list[Part]]:
        gradients = _output_gradients(losses.sum(), uses)
        self._look_for_entanglement(losses, uses, gradients)
        parts: dict[int, list[Part]] = {}
        for use, gradient in zip(uses, gradients, strict=True):
            for name, rule in rules_for(use.layer).items():
                parameter = use.layer._parameters.get(name)
                if parameter is not None and gradient is not None:  # None: the losses ignore it
                    part = Part(rule, use.layer, use.input, gradient, len(losses))
                    parts.setdefault(id(parameter), []).append(part)
        return parts

    def _look_for_entanglement(
        self, losses: Tensor, uses: Sequence[Use], gradients: Sequence[Tensor | None]
    ) -> None:
        """Do the rows of each layer belong to one example each, in order?

        Then weighing the losses weighs the rows alike. Each layer is asked once.
        """
        known = self._independent | self._entangled
        if all(id(use.layer) in known for use in uses):
            return
        generator = torch.Generator().manual_seed(0)
        weights = (1 + torch.rand(len(losses), generator=generator)).to(losses)
        weighed = _output_gradients(losses @ weights, uses)
        for use, gradient, other in zip(uses, gradients, weighed, strict=True):
            if gradient is None or other is None:
                continue
            if len(use.input) != len(gradient) or not _alike(gradient, other, weights):
                self._entangled.add(id(use.layer))
            elif len(losses) > 1 and bool(gradient.any()):
                self._independent.add(id(use.layer))

    def _clear(self, parts: Sequence[Part]) -> bool:
        return not any(id(part.layer) in self._entangled for part in parts)


def _alike(gradient: Tensor, weighed: Tensor, weights: Tensor) -> bool:
    each, rest = divmod(len(gradient), len(weights))
    if rest:
        return False
    scale = weights.to(gradient.dtype).repeat_interleave(each)
    expected = gradient * scale.view(-1, *[1] * (gradient.dim() - 1))
    slack = torch.finfo(gradient.dtype).eps ** 0.5 * float(expected.abs().max())
    return bool(((weighed - expected).abs() <= slack).all())


def _output_gradients(total: Tensor, uses: Sequence[Use]) -> tuple[Tensor | None, ...]:
    outputs = [use.output for use in uses]
    return torch.autograd.grad(total, outputs, retain_graph=True, allow_unused=True)


def _uses_in_graph(losses: Tensor) -> Counter[int]:
    """How often each parameter (by id) enters what the losses were computed from."""
    uses: Counter[int] = Counter()
    seen, waiting = {losses.grad_fn}, [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        for child, _ in node.next_functions if node is not None else ():
            if child is None:
                continue
            if (leaf := getattr(child, "variable", None)) is not None:
                uses[id(leaf)] += 1
            elif child not in seen:
                seen.add(child)
                waiting.append(child)
    return uses
