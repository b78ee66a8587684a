"""The library and torch draw the same, whatever the layer, its layout and precision; and the
library does so whatever the number of threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.native.alone import threads, torch_alone, with_library
from uclearn.gaussian import GaussianLayer, Noise, Sampling, convert, fused

pytestmark = with_library


@pytest.fixture(autouse=True)
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library draws the smallest layers, too."""
    monkeypatch.setattr(fused, "TINY_DRAW", 0)


def layer_of(plain: nn.Module, sampling: Sampling) -> GaussianLayer:
    torch.manual_seed(0)
    layer = convert(plain, sigma=0.3, sampling=sampling, noise=Noise(3))
    assert isinstance(layer, GaussianLayer)
    with torch.no_grad():
        layer.rho.normal_(-1.5, 0.5)
    return layer.train()


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(37, 21), (50, 37)),
    "sequences": (lambda: nn.Linear(37, 21), (5, 10, 37)),
    "wide": (lambda: nn.Linear(300, 260), (130, 300)),
    "conv": (lambda: nn.Conv2d(3, 5, 3, padding=1), (4, 3, 9, 8)),
    "strided": (lambda: nn.Conv2d(3, 5, (3, 2), stride=(2, 3), padding=(0, 1)), (4, 3, 11, 8)),
    "dilated": (lambda: nn.Conv2d(3, 5, 3, padding=4, dilation=(2, 3)), (4, 3, 9, 8)),
    "window beyond": (lambda: nn.Conv2d(2, 3, 5, stride=2, padding=4), (2, 2, 2, 3)),
    "groups": (lambda: nn.Conv2d(4, 6, 3, groups=2), (4, 4, 9, 8)),
    "reflected": (lambda: nn.Conv2d(3, 5, 3, padding=1, padding_mode="reflect"), (4, 3, 9, 8)),
    "conv1d": (lambda: nn.Conv1d(3, 5, 3), (4, 3, 9)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 5, 3), (4, 3, 5, 5)),
}


def outcome(
    layer: GaussianLayer, x: Tensor, autocast: bool
) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
    """The output, and all gradients of a loss."""
    layer.noise.state = (3, 0)
    layer.zero_grad()
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        output = layer(x)
    weights = torch.linspace(-1, 1, output.numel()).view_as(output)
    (output.float() * weights).sum().backward()
    gradients = {name: p.grad for name, p in layer.named_parameters() if p.grad is not None}
    return output.detach().clone(), x.grad, {name: g.clone() for name, g in gradients.items()}


@pytest.mark.parametrize("last", [False, True], ids=["", "channels last"])
@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("sampling", ["weight", "local"])
@pytest.mark.parametrize("name", LAYERS)
def test_draws_and_gradients_are_those_of_torch(
    name: str, sampling: Sampling, autocast: bool, last: bool
) -> None:
    make, shape = LAYERS[name]
    layer, x = layer_of(make(), sampling), torch.randn(shape)
    if autocast and name == "transposed":
        pytest.skip("some processors lack what torch uses for it")
    if last:
        if x.dim() != 4:
            pytest.skip("has no channels")
        x = x.to(memory_format=torch.channels_last)
    found = outcome(layer, x, autocast)
    with torch_alone():
        expected = outcome(layer, x, autocast)
    assert found[0].stride() == expected[0].stride()
    rtol, atol = (0.05, 0.1) if autocast else (1e-4, 1e-4)
    torch.testing.assert_close(found[0], expected[0], rtol=rtol, atol=atol)
    assert found[2].keys() == expected[2].keys()
    pairs = [(found[1], expected[1]), *((found[2][name], expected[2][name]) for name in found[2])]
    for mine, theirs in pairs:
        assert mine is not None
        assert theirs is not None
        scale = theirs.abs().max()
        close = 2e-2 if autocast else 1e-5
        torch.testing.assert_close(mine / scale, theirs / scale, rtol=0, atol=close)


def test_where_no_input_is_active_nothing_is_noisy_and_the_slope_is_zero() -> None:
    for make, shape in (LAYERS["linear"], LAYERS["conv"]):
        layer = layer_of(make(), "local")
        output, to_input, _ = outcome(layer, torch.zeros(shape), autocast=False)
        layer.draws = False
        torch.testing.assert_close(output, layer(torch.zeros(shape)))
        assert to_input is not None
        assert to_input.isfinite().all()


@pytest.mark.parametrize("name", ["wide", "conv"])
@pytest.mark.parametrize("sampling", ["weight", "local"])
def test_second_derivatives_are_those_of_torch(name: str, sampling: Sampling) -> None:
    make, shape = LAYERS[name]
    layer = layer_of(make(), sampling)

    def curvature() -> list[Tensor]:
        layer.noise.state = (3, 0)
        x = torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape).requires_grad_()
        inputs = (x, layer.weight, layer.rho)
        slopes = torch.autograd.grad(layer(x).square().mean(), inputs, create_graph=True)
        return list(
            torch.autograd.grad(torch.stack([s.square().sum() for s in slopes]).sum(), inputs)
        )

    found = curvature()
    with torch_alone():
        expected = curvature()
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


LARGE = (LAYERS["wide"], (lambda: nn.Conv2d(3, 5, 3, padding=1), (128, 3, 9, 8)))


@pytest.mark.parametrize(("make", "shape"), LARGE, ids=["linear", "conv"])
@pytest.mark.parametrize("sampling", ["weight", "local"])
def test_draws_and_gradients_do_not_depend_on_the_number_of_threads(
    make: Callable[[], nn.Module],
    shape: tuple[int, ...],
    sampling: Sampling,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch has one thread throughout, since its products may depend on their number."""
    layer, x = layer_of(make(), sampling), torch.randn(shape)
    with threads(1):
        first = outcome(layer, x, autocast=False)
        for count in (2, 3):
            monkeypatch.setattr(torch, "get_num_threads", lambda count=count: count)
            other = outcome(layer, x, autocast=False)
            assert torch.equal(first[0], other[0])
            assert first[1] is not None
            assert other[1] is not None
            assert torch.equal(first[1], other[1])
            assert all(map(torch.equal, first[2].values(), other[2].values()))


def test_a_draw_under_autocast_is_made_in_bfloat16() -> None:
    layer = layer_of(nn.Linear(4, 3), "weight")
    with torch.autocast("cpu", torch.bfloat16):
        drawn = layer._sampled_weight()
    assert drawn.dtype is torch.bfloat16
    layer.noise.state = (3, 0)
    exact = layer.weight + F.softplus(layer.rho)[:, None] * layer.noise.normals((3, 4))
    layer.noise.state = (3, 0)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer._sampled_weight(), exact.bfloat16())
