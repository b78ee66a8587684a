"""What conversion would do with each module of a network, and why.

Two ways to look: strictly, where whatever is not known exactly stands against conversion (methods
that must know every node), or not, where it stays as it is, its parameters are `loose`, and what
makes use of them is followed operation by operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import nn

from uclearn.errors import UnsupportedLayerError
from uclearn.gaussian.kinds import GAUSSIAN, NORMS, base_of, gaussian_version
from uclearn.gaussian.layers import GaussianLayer
from uclearn.gaussian.probe import feature_dim

SHOWN = 3
"""Names of modules with one and the same problem that are spelled out."""


class Problem(NamedTuple):
    """What stands against conversion."""

    name: str
    kind: str
    reason: str


@dataclass(frozen=True)
class Survey:
    """What conversion would do with each module, by qualified name."""

    layers: dict[str, nn.Module] = field(default_factory=dict)
    norms: dict[str, nn.Module] = field(default_factory=dict)
    dims: dict[str, int] = field(default_factory=dict)
    """Of norms, the dimension of their features, where it does not follow from what they are."""
    opaque: dict[str, nn.Module] = field(default_factory=dict)
    loose: dict[str, nn.Module] = field(default_factory=dict)
    """Modules whose own parameters belong to no node that is known; they are followed."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a module is loose."""
    free: frozenset[str] = frozenset()
    """Parameters that were named in `plain`."""
    problems: list[Problem] = field(default_factory=list)

    def loose_parameters(self) -> Iterator[tuple[str, nn.Module, list[str]]]:
        """Each loose module, by name, with the names of its own parameters that learn and are not
        free; a parameter that several modules share counts once."""
        known = {id(p) for module in self.layers.values() for p in module.parameters()}
        for place, module in self.loose.items():
            own = []
            for name, parameter in module.named_parameters(recurse=False):
                free = f"{place}.{name}".lstrip(".") in self.free
                if parameter.requires_grad and not free and id(parameter) not in known:
                    known.add(id(parameter))
                    own.append(name)
            if own:
                yield place, module, own


def survey(
    model: nn.Module, plain: Iterable[str] = (), *, strict: bool = True, loose: Iterable[str] = ()
) -> Survey:
    """Look at every module: converted, followed, left plain, or a problem.

    Args:
        model: any network, plain or converted.
        plain: qualified names of modules that stay as they are, with all below them; or of single
            parameters.
        strict: what is not known is a problem; otherwise it is `loose`.
        loose: modules that are loose whatever they are.
    """
    plain = set(plain)
    everything = dict(model.named_modules(remove_duplicate=False))
    parameters = dict(model.named_parameters(remove_duplicate=False))
    found = Survey(free=frozenset(plain & parameters.keys() - everything.keys()))
    look = _Look(found, strict, set(loose))
    wanted = {id(everything[name]) for name in plain if name in everything}
    skipped: set[int] = set()
    for name, module in model.named_modules():
        if id(module) in skipped:
            continue
        if id(module) in wanted:
            found.opaque[name] = module
            skipped.update(id(below) for below in module.modules())
            continue
        look.place(name, module)
    found.problems.extend(
        Problem(name, "", "named in `plain`, but the model has no such module or parameter")
        for name in sorted(plain - everything.keys() - parameters.keys())
    )
    return found


class _Look:
    """One walk through a model."""

    def __init__(self, found: Survey, strict: bool, loose: set[str]) -> None:
        self.found, self.strict, self.loose = found, strict, loose
        self._owners: dict[int, str] = {}
        self._dims: dict[object, int | None] = {}

    def place(self, name: str, module: nn.Module) -> None:
        """Sort a module in."""
        self._sort(name, module)
        for parameter_name, parameter in module.named_parameters(recurse=False):
            full = f"{name}.{parameter_name}".lstrip(".")
            if self.strict and id(parameter) in self._owners and parameter.requires_grad:
                reason = (
                    f"the same tensor as {self._owners[id(parameter)]}. Tied weights have two sets "
                    "of nodes; untie them or name one of the modules in `plain`"
                )
                self.found.problems.append(Problem(full, "", reason))
            self._owners.setdefault(id(parameter), full)

    def _sort(self, name: str, module: nn.Module) -> None:
        own = dict(module.named_parameters(recurse=False))
        learned = [
            p
            for key, p in own.items()
            if p.requires_grad and f"{name}.{key}".lstrip(".") not in self.found.free
        ]
        kind, found = type(module), self.found
        if kind in NORMS:
            self._add_norm(name, module, NORMS[kind])
        elif not own:
            return
        elif any(isinstance(p, nn.UninitializedParameter) for p in own.values()):
            reason = "has no weights yet. Run the model once, then convert it"
            found.problems.append(Problem(name, kind.__name__, reason))
        elif not any(p.requires_grad for p in module.parameters()):
            found.opaque[name] = module  # frozen weights cannot drift
        elif not learned:
            return  # constants beside layers that learn: what goes on between them is followed
        else:
            self._sort_learned(name, module)

    def _sort_learned(self, name: str, module: nn.Module) -> None:
        reason = _refusal(module, self.strict)
        if name in self.loose:
            reason = "its weights are used without calling it, or its inputs are not what they seem"
        if reason is None:
            self.found.layers[name] = module
        elif self.strict:
            self.found.problems.append(Problem(name, type(module).__name__, reason))
        elif (dim := self._feature_dim(module)) is not None:
            self._add_norm(name, module, dim)
        else:
            self.found.loose[name] = module
            self.found.reasons[name] = reason.partition(". ")[0]

    def _add_norm(self, name: str, module: nn.Module, dim: int | None) -> None:
        self.found.norms[name] = module
        if dim is None and type(module).__module__.partition(".")[0] not in ("torch", "uclearn"):
            shape = getattr(module, "normalized_shape", None)
            dim = self._feature_dim(module) if shape is None else None
        if dim is not None:
            self.found.dims[name] = dim

    def _feature_dim(self, module: nn.Module) -> int | None:
        """Modules of one type and size are asked once."""
        key = (type(module), *(p.shape for p in module.parameters()))
        if key not in self._dims:
            self._dims[key] = feature_dim(module)
        return self._dims[key]


def _refusal(module: nn.Module, strict: bool) -> str | None:
    kind = type(module)
    known = kind in GAUSSIAN or issubclass(kind, GaussianLayer)
    if not known and (strict or gaussian_version(kind) is None):
        base = base_of(kind)
        if base is not None:
            return (
                f"a subclass of {base.__name__}, whose forward pass may differ. Register a "
                "Gaussian version with uclearn.gaussian.register_layer, or name it in `plain`"
            )
        return (
            "no Gaussian version of it is known. Write it with Linear and Conv layers, register "
            "one with uclearn.gaussian.register_layer (or register_norm), or name it in `plain`"
        )
    if "weight" not in module._parameters:
        return (
            "its weight is no parameter but computed before each use (weight_norm, spectral_norm, "
            "pruning). Make it permanent (remove_weight_norm, prune.remove), or name it in `plain`"
        )
    if isinstance(module, nn.Embedding) and (module.max_norm is not None or module.sparse):
        return (
            "embeddings with `max_norm` or `sparse` change weights outside of the optimiser. "
            "Switch both off, or name it in `plain`"
        )
    return None


def require_convertible(found: Survey) -> None:
    """Raise if anything stands against conversion, naming all of it at once."""
    if found.problems:
        raise UnsupportedLayerError(
            "This model cannot be converted as it is:\n- " + "\n- ".join(_lines(found)) + "."
        )
    if not found.layers and next(found.loose_parameters(), None) is None:
        known = ", ".join(kind.__name__ for kind in GAUSSIAN)
        raise UnsupportedLayerError(
            f"This model has no layer that could be made Gaussian. Known layers: {known}. "
            "Frozen layers (requires_grad=False) and those named in `plain` do not count."
        )


def _lines(found: Survey) -> list[str]:
    """One for each kind of problem, in the order in which they turn up."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, kind, reason in found.problems:
        groups.setdefault((kind, reason), []).append(name or "the model itself")
    return [
        f"{few(names)}{f' ({kind})' if kind else ''}: {reason}"
        for (kind, reason), names in groups.items()
    ]


def few(names: list[str]) -> str:
    """The first of them, and how many more.

    >>> few(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
