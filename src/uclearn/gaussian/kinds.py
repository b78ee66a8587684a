"""Which modules are known, and what each becomes.

A module of exactly a known type is converted to its Gaussian version. A subclass may do anything
in its forward pass, but it can be looked at: one that leaves the forward pass alone, or ends up in
that of its base (`super().forward(x) * scale`), has a Gaussian version made for it; any other is
called with a drawn weight in place of its own.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from uclearn.errors import SettingError
from uclearn.gaussian import layers as gaussian
from uclearn.gaussian.draws import (
    SteadyBatchNorm1d,
    SteadyBatchNorm2d,
    SteadyBatchNorm3d,
    SteadyOther,
)
from uclearn.gaussian.layers import GaussianLayer
from uclearn.gaussian.others import DrawsBeforeUse, GaussianInOut

GAUSSIAN: dict[type[nn.Module], type[GaussianLayer]] = {
    nn.Linear: gaussian.GaussianLinear,
    nn.Conv1d: gaussian.GaussianConv1d,
    nn.Conv2d: gaussian.GaussianConv2d,
    nn.Conv3d: gaussian.GaussianConv3d,
    nn.ConvTranspose1d: gaussian.GaussianConvTranspose1d,
    nn.ConvTranspose2d: gaussian.GaussianConvTranspose2d,
    nn.ConvTranspose3d: gaussian.GaussianConvTranspose3d,
    nn.Embedding: gaussian.GaussianEmbedding,
}
STEADY: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: SteadyBatchNorm1d,
    nn.BatchNorm2d: SteadyBatchNorm2d,
    nn.BatchNorm3d: SteadyBatchNorm3d,
}
OF_OTHERS: dict[str, type[GaussianLayer]] = {
    "transformers.pytorch_utils.Conv1D": GaussianInOut,
}
"""Layers of packages that are not imported here, and the mixin that makes them Gaussian."""
NORMS: dict[type[nn.Module], int | None] = dict.fromkeys(
    (
        *STEADY,
        *STEADY.values(),
        nn.LayerNorm,
        nn.RMSNorm,
        nn.GroupNorm,
        nn.InstanceNorm1d,
        nn.InstanceNorm2d,
        nn.InstanceNorm3d,
    )
)
"""Normalisations, and the dimension of their features; None: it follows from what they are."""


def register_layer(plain: type[nn.Module], converted: type[GaussianLayer]) -> None:
    """Teach conversion a layer of yours: modules of exactly the type `plain` become `converted`,
    which must be a subclass of both `GaussianLayer` and `plain`."""
    if not all(issubclass(converted, base) for base in (GaussianLayer, plain)):
        raise SettingError(
            f"`converted` must be a subclass of GaussianLayer and of {plain.__name__}, got "
            f"{converted.__name__}. Write `class {converted.__name__}(GaussianLayer, "
            f"{plain.__name__})`."
        )
    GAUSSIAN[plain] = converted


def register_norm(norm: type[nn.Module], dim: int | None = None) -> None:
    """Teach conversion a normalisation of yours: it passes features on one by one, and its
    parameters hold one number per feature.

    Args:
        norm: modules of exactly that type.
        dim: the dimension of the features, such as -1 behind a linear layer or 1 behind a
            convolution; None: the dimensions of `normalized_shape`, or else it is tried out.
    """
    NORMS[norm] = dim


def gaussian_version(kind: type[nn.Module]) -> type[GaussianLayer] | None:
    """What modules of this type become; None where that is not known.

    >>> class Scaled(nn.Linear):
    ...     def forward(self, input):
    ...         return super().forward(input) * 2
    >>> gaussian_version(Scaled).__mro__[1:3]
    (<class 'uclearn.gaussian.kinds.Scaled'>, <class 'uclearn.gaussian.layers.GaussianLinear'>)
    """
    if issubclass(kind, GaussianLayer):
        return kind
    if kind in GAUSSIAN:
        return GAUSSIAN[kind]
    mixin = OF_OTHERS.get(f"{kind.__module__}.{kind.__qualname__}")
    base = base_of(kind)
    bases: tuple[type[nn.Module], ...] = ()
    if mixin is not None:
        bases = (mixin, kind)
    elif base is None or hasattr(kind, "parametrizations"):
        bases = ()
    elif _defers(kind, base):
        bases = (kind, GAUSSIAN[base])
    elif not issubclass(kind, nn.Embedding):  # of which it is not known what it looks up
        bases = (DrawsBeforeUse, kind, GAUSSIAN[base])
    made: type[GaussianLayer] | None = derived(kind, *bases) if bases else None
    return made


def base_of(kind: type[nn.Module]) -> type[nn.Module] | None:
    """The known layer that a type is a subclass of."""
    return next((known for known in kind.__mro__ if known in GAUSSIAN), None)


def steady_version(kind: type[nn.Module]) -> type[nn.Module]:
    """What a normalisation becomes: batch norms must be able to keep their statistics."""
    if kind in STEADY or not issubclass(kind, _BatchNorm) or kind in STEADY.values():
        return STEADY.get(kind, kind)
    if issubclass(kind, SteadyOther):
        return kind
    made: type[nn.Module] = derived(kind, SteadyOther, kind)
    return made


def plain_version(kind: type[nn.Module]) -> type[nn.Module]:
    """The type that a converted module came from."""
    back = {converted: plain for plain, converted in (GAUSSIAN | STEADY).items()}
    return getattr(kind, "made_from", back.get(kind, kind))


def _defers(kind: type[nn.Module], base: type[nn.Module]) -> bool:
    """Whether each forward pass between a type and its base ends up in that of the base."""
    for each in kind.__mro__[: kind.__mro__.index(base)]:
        for name in ("forward", "_conv_forward"):
            own: Any = each.__dict__.get(name)
            code = getattr(own, "__code__", None)
            if own is not None and not (code is not None and _calls_super(code, name)):
                return False
    return True


def _calls_super(code: Any, name: str) -> bool:
    # `super().forward(...)` needs the cell `__class__` and the name
    return "__class__" in code.co_freevars and name in code.co_names


_MADE: dict[tuple[type[nn.Module], ...], Any] = {}


def derived(plain: type[nn.Module], *bases: type[nn.Module]) -> Any:
    """A class made of others, which remembers what it was made from; always the same one.

    Args:
        plain: what a converted module came from.
        bases: of the class, `plain` among them.
    """
    key = (plain, *bases)
    if key not in _MADE:
        prefix = "Gaussian" if any(issubclass(base, GaussianLayer) for base in bases) else "Steady"
        # where a module is loaded the class is made anew, from the names of those it is made of
        members = {
            "made_from": plain,
            "__reduce_ex__": lambda module, _: (_blank, key, module.__getstate__()),
            "__doc__": plain.__doc__,
        }
        _MADE[key] = type(f"{prefix}{plain.__name__}", bases, members)
    return _MADE[key]


def _blank(*classes: type[nn.Module]) -> nn.Module:
    kind = derived(*classes)
    module: nn.Module = kind.__new__(kind)
    return module
