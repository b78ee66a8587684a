"""How many numbers a method has to keep, counted in the real objects."""

from __future__ import annotations

from uclearn.methods.contract import Method


def parameters_kept(method: Method) -> int:
    """Numbers that a method must keep after a task to learn the next one, the network included.

    Every floating-point tensor of its state counts, down to vectors; single numbers (a weight of a
    term, a counter) do not. Nor does a tensor that is zero throughout, such as SI's path integral
    between two tasks: it begins at zero anyway.

    >>> from torch import nn
    >>> parameters_kept(Method(nn.Linear(3, 2)))
    8
    """
    return sum(
        tensor.numel()
        for tensor in method.state_dict().values()
        if tensor.is_floating_point() and tensor.dim() > 0 and bool(tensor.any())
    )
