"""From any plain network to one with node-wise uncertainty, and back.

Conversion works on a copy and by exact type: a subclass may do anything in its forward pass, so it
is refused unless registered. Whatever cannot be handled is listed whole, with reason and remedy.

Where means and standard deviations start (paper, supplement 2):

- constant: the same sigma everywhere, means drawn as He does;
- adaptive: of the variance 2/n that He gives a weight, the share `ratio` goes to the noise,
  sigma^2 = ratio * 2/n, and the rest to the means, Var[mean] = (1 - ratio) * 2/n;
- either sigma with the means left as they are, for a network that has already learned.

n is the fan-in of a linear layer and the fan-out of a convolution. Biases start at 0.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import nn

from uclearn.choices import check_choice
from uclearn.errors import SettingError, UnsupportedLayerError
from uclearn.gaussian import layers as gaussian
from uclearn.gaussian.draws import SteadyBatchNorm1d, SteadyBatchNorm2d, SteadyBatchNorm3d
from uclearn.gaussian.layers import GaussianLayer, Sampling
from uclearn.gaussian.noise import Noise

Means = Literal["keep", "draw"]
Sigma = float | Callable[[GaussianLayer], float]
"""One initial standard deviation for all layers, or a rule for each."""


def initial_sigma(layer: GaussianLayer, sigma: Sigma | None, ratio: float | None) -> float:
    """The standard deviation that a layer's nodes start with: `sigma` itself (or what it makes of
    the layer), or by `ratio`.

    >>> from uclearn.gaussian.layers import GaussianLinear
    >>> round(initial_sigma(GaussianLinear(400, 10), sigma=None, ratio=0.5), 6)
    0.05
    """
    if sigma is not None:
        return sigma(layer) if callable(sigma) else sigma
    check_initial(sigma, ratio)
    assert ratio is not None
    return math.sqrt(ratio * 2 / layer.fan())


def check_initial(sigma: Sigma | None, ratio: float | None) -> None:
    """Exactly one of the two, each in its range."""
    if (sigma is None) == (ratio is None):
        raise SettingError(
            f"Give either `sigma` or `ratio`, not both and not neither: got sigma={sigma}, "
            f"ratio={ratio}. `sigma` is one initial standard deviation for all layers, `ratio` "
            "the share of each layer's initial variance given to noise."
        )
    if ratio is not None and not 0 < ratio < 1:
        raise SettingError(
            f"`ratio` must lie strictly between 0 and 1, got {ratio}. It is the share of the "
            "initial variance given to noise."
        )
    if sigma is not None and not callable(sigma) and not (sigma > 0 and math.isfinite(sigma)):
        raise SettingError(
            f"`sigma` must be positive and finite, got {sigma}. It is the initial standard "
            "deviation of every weight; the paper uses 0.06."
        )


def check_means(means: str) -> None:
    """One of the two choices."""
    remark = " `keep` leaves the weights of the given model, `draw` draws new ones."
    check_choice("means", means, get_args(Means), remark)


def draw_means(layer: GaussianLayer, ratio: float | None, generator: torch.Generator) -> None:
    """New means, uniform with variance (1 - ratio) * 2/n, and biases 0. Without a ratio all of
    He's variance goes to the means."""
    fan = layer.fan()
    bound = math.sqrt(3 * (1 - (ratio or 0.0)) * 2 / fan)
    with torch.no_grad():
        fresh = torch.empty(layer.weight.shape, device="cpu")
        fresh.uniform_(-bound, bound, generator=generator)
        layer.weight.copy_(fresh)
        if isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
            layer.weight[layer.padding_idx] = 0
        if layer.bias is not None:
            layer.bias.zero_()


_GAUSSIAN: dict[type[nn.Module], type[GaussianLayer]] = {
    nn.Linear: gaussian.GaussianLinear,
    nn.Conv1d: gaussian.GaussianConv1d,
    nn.Conv2d: gaussian.GaussianConv2d,
    nn.Conv3d: gaussian.GaussianConv3d,
    nn.ConvTranspose2d: gaussian.GaussianConvTranspose2d,
    nn.Embedding: gaussian.GaussianEmbedding,
}
_STEADY: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: SteadyBatchNorm1d,
    nn.BatchNorm2d: SteadyBatchNorm2d,
    nn.BatchNorm3d: SteadyBatchNorm3d,
}
_NORMS: set[type[nn.Module]] = {
    *_STEADY,
    *_STEADY.values(),
    nn.LayerNorm,
    nn.RMSNorm,
    nn.GroupNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
}


def register_layer(plain: type[nn.Module], converted: type[GaussianLayer]) -> None:
    """Teach conversion a layer of yours: modules of exactly the type `plain` become `converted`,
    which must be a subclass of both `GaussianLayer` and `plain`."""
    if not all(issubclass(converted, base) for base in (GaussianLayer, plain)):
        raise SettingError(
            f"`converted` must be a subclass of GaussianLayer and of {plain.__name__}, got "
            f"{converted.__name__}. Write `class {converted.__name__}(GaussianLayer, "
            f"{plain.__name__})`."
        )
    _GAUSSIAN[plain] = converted


def register_norm(norm: type[nn.Module]) -> None:
    """Teach conversion a normalisation of yours: it passes features on one by one, and `weight`
    and `bias` hold one number per feature (`normalized_shape`, or else the channels)."""
    _NORMS.add(norm)


@dataclass(frozen=True)
class Survey:
    """What conversion would do with each module, by qualified name."""

    layers: dict[str, nn.Module] = field(default_factory=dict)
    norms: dict[str, nn.Module] = field(default_factory=dict)
    opaque: dict[str, nn.Module] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def survey(model: nn.Module, plain: Iterable[str] = ()) -> Survey:
    """Look at every module: converted, followed, left plain, or a problem.

    Args:
        model: any network, plain or converted.
        plain: qualified names of modules that stay as they are, with all below them.
    """
    found = Survey()
    plain = set(plain)
    everything = dict(model.named_modules(remove_duplicate=False))
    wanted = {id(everything[name]) for name in plain if name in everything}
    owners: dict[int, str] = {}
    skipped: set[int] = set()
    for name, module in model.named_modules():
        if id(module) in skipped:
            continue
        if id(module) in wanted:
            found.opaque[name] = module
            skipped.update(id(below) for below in module.modules())
            continue
        _place(found, name, module)
        for parameter_name, parameter in module.named_parameters(recurse=False):
            full = f"{name}.{parameter_name}".lstrip(".")
            if id(parameter) in owners and parameter.requires_grad:
                found.problems.append(
                    f"{full}: the same tensor as {owners[id(parameter)]}. Tied weights have two "
                    "sets of nodes; untie them or name one of the modules in `plain`"
                )
            owners.setdefault(id(parameter), full)
    found.problems.extend(
        f"{name}: named in `plain`, but the model has no such module"
        for name in sorted(plain - everything.keys())
    )
    return found


def _place(found: Survey, name: str, module: nn.Module) -> None:
    own = list(module.parameters(recurse=False))
    kind = type(module)
    if kind in _NORMS:
        found.norms[name] = module
    elif not own:
        return
    elif any(isinstance(p, nn.UninitializedParameter) for p in own):
        found.problems.append(
            f"{name or 'the model itself'} ({kind.__name__}): has no weights yet. Run the model "
            "once, then convert it"
        )
    elif not any(p.requires_grad for p in module.parameters()):
        found.opaque[name] = module  # frozen weights cannot drift
    elif not any(p.requires_grad for p in own):
        return  # a constant beside layers that learn: what goes on between them is followed
    elif (reason := _refusal(module)) is not None:
        found.problems.append(f"{name or 'the model itself'} ({kind.__name__}): {reason}")
    else:
        found.layers[name] = module


def _refusal(module: nn.Module) -> str | None:
    kind = type(module)
    if kind not in _GAUSSIAN and not isinstance(module, GaussianLayer):
        base = next((plain for plain in _GAUSSIAN if isinstance(module, plain)), None)
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


def convert(
    model: nn.Module,
    *,
    sigma: Sigma | None = None,
    ratio: float | None = None,
    means: Means = "keep",
    sampling: Sampling = "weight",
    noisy_bias: bool = False,
    plain: Iterable[str] = (),
    noise: Noise | None = None,
    seed: int = 0,
) -> nn.Module:
    """A copy of `model` whose layers are Gaussian; in `eval()` it computes the same, to the bit,
    unless `means="draw"`.

    Args:
        model: left untouched.
        sigma: one initial standard deviation for all layers, or a rule for each; or
        ratio: the share of each layer's initial variance given to noise.
        means: `"keep"` the weights of `model`, or `"draw"` new ones as He does.
        sampling: `"weight"` (one draw of the weights per forward pass) or `"local"`.
        noisy_bias: give each bias a standard deviation too.
        plain: qualified names of modules that stay as they are (heads).
        noise: the stream of normal numbers that all layers share.
        seed: for drawn means.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> noisy, x = convert(net, sigma=0.1), torch.randn(3, 4)
    >>> torch.equal(noisy.eval()(x), net(x)), torch.equal(noisy.train()(x), net(x))
    (True, False)
    """
    check_initial(sigma, ratio)
    check_means(means)
    plain = tuple(plain)
    require_convertible(survey(model, plain))
    converted = copy.deepcopy(model)
    found = survey(converted, plain)
    noise = noise or Noise(seed)
    generator = torch.Generator().manual_seed(seed)
    for layer in found.layers.values():
        gaussian_layer = _swap_class(layer, _GAUSSIAN.get(type(layer)))
        start = initial_sigma(gaussian_layer, sigma, ratio)
        gaussian_layer.become_gaussian(start, sampling, noisy_bias, noise)
        if means == "draw":
            draw_means(gaussian_layer, ratio, generator)
    for norm in found.norms.values():
        norm.__class__ = _STEADY.get(type(norm), type(norm))
    return converted


def require_convertible(found: Survey) -> None:
    """Raise if anything stands against conversion, naming all of it at once."""
    if found.problems:
        raise UnsupportedLayerError(
            "This model cannot be converted as it is:\n- " + "\n- ".join(found.problems) + "."
        )
    if not found.layers:
        known = ", ".join(kind.__name__ for kind in _GAUSSIAN)
        raise UnsupportedLayerError(
            f"This model has no layer that could be made Gaussian. Known layers: {known}. "
            "Frozen layers (requires_grad=False) and those named in `plain` do not count."
        )


def export(model: nn.Module) -> nn.Module:
    """A copy of a converted model made of the original classes, with the mean weights."""
    plain = copy.deepcopy(model)
    back = {converted: kind for kind, converted in (_GAUSSIAN | _STEADY).items()}
    for module in plain.modules():
        if isinstance(module, GaussianLayer):
            del module.rho, module.rho_bias
            for attribute in ("noise", "sampling", "draws"):
                module.__dict__.pop(attribute, None)
        module.__dict__.pop("steady", None)
        module.__class__ = back.get(type(module), type(module))
    return plain


def _swap_class(layer: nn.Module, converted: type[GaussianLayer] | None) -> GaussianLayer:
    # the copy keeps its hooks, names and tensors; only what it computes changes
    if converted is not None:  # None: it is Gaussian already
        layer.__class__ = converted
    assert isinstance(layer, GaussianLayer)
    return layer
