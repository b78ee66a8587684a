"""The library and torch compute the same, whatever the layer, its layout and precision; and the
library does so whatever the number of threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.paper_ucl import paper_ucl
from uclearn import UCL
from uclearn.gaussian import GaussianLayer, Noise, Sampling, convert, fused
from uclearn.native import build, calls, holding

pytestmark = pytest.mark.skipif(
    isinstance(build.library(), str), reason="there is no library on this machine"
)


@pytest.fixture(autouse=True)
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library draws the smallest layers, too."""
    monkeypatch.setattr(fused, "TINY_DRAW", 0)


@contextlib.contextmanager
def torch_alone() -> Iterator[None]:
    """As where there is no compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "library", lambda: "switched off by a test")
        yield


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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


def held(closed_form: bool) -> UCL:
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3, groups=2), nn.GroupNorm(2, 4)),
        *(nn.Flatten(), nn.Linear(64, 150), nn.ReLU(), nn.Linear(150, 130)),
    )
    method = paper_ucl(network, torch.zeros(1, 2, 8, 8), noisy_bias=True, closed_form=closed_form)
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        method.end_task()
        for parameter in method.model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return method


@pytest.mark.parametrize(
    "options", [{}, {"upper_freeze": False}, {"freeze": False}, {"inflate": False}]
)
@pytest.mark.parametrize("closed_form", [False, True])
def test_the_penalty_is_that_of_torch(closed_form: bool, options: dict[str, bool]) -> None:
    method = held(closed_form)
    for name, value in options.items():
        setattr(method, name, value)
    method._tighten()

    def outcome() -> tuple[Tensor, list[Tensor]]:
        method.zero_grad()
        value = method.penalty(batch_size=7)
        if not closed_form:
            (3 * value).backward()
        method.adjust_gradients(batch_size=7)
        return value.detach(), [p.grad for p in method.model.parameters() if p.grad is not None]

    found = outcome()
    with torch_alone():
        method._tighten()
        expected = outcome()
    torch.testing.assert_close(found[0], expected[0])
    assert len(found[1]) == len(expected[1]) > 0
    for mine, theirs in zip(found[1], expected[1], strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("frozen", [None, "weight", "bias"])
def test_what_nodes_say_is_held_as_by_torch(
    frozen: str | None, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient that is added in place: by the library, by torch, and autograd's of the value,
    in a layer of more inputs than nodes, whose blocks are of two widths."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(131, 66, bias=bias), nn.ReLU(), nn.Linear(66, 70, bias=bias))
    method = UCL(network, torch.zeros(1, 131), seed=1, closed_form=True)
    with torch.no_grad():
        method.end_task(inputs=[torch.randn(40, 131) + 0.3])
        for parameter in method.model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    if frozen is not None and (bias or frozen == "weight"):
        method.model.get_parameter(f"0.{frozen}").requires_grad_(False)

    def outcome() -> list[Tensor]:
        method.zero_grad()
        for parameter in method.model.parameters():
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
        method.adjust_gradients(batch_size=7)
        return [p.grad for p in method.model.parameters() if p.grad is not None]

    used: list[int] = []
    by_library = holding.pulled_rows

    def counted(*arguments: Any) -> Tensor:
        used.append(1)
        return by_library(*arguments)

    monkeypatch.setattr(holding, "pulled_rows", counted)
    found = outcome()
    assert len(used) == (1 if frozen == "weight" else 2)
    with torch_alone():
        method._tighten()
        expected = outcome()
        value = method.penalty(batch_size=7)
    assert len(used) == (1 if frozen == "weight" else 2)
    torch.testing.assert_close(method.penalty(batch_size=7), value)
    method.closed_form = False
    trained = [p for p in method.model.parameters() if p.requires_grad]
    exact = torch.autograd.grad(method.penalty(batch_size=7), trained)
    for mine, theirs, value in zip(found, expected, exact, strict=True):
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(mine - 1, value, rtol=1e-4, atol=1e-5)


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


def test_the_penalty_does_not_depend_on_the_number_of_threads() -> None:
    torch.manual_seed(0)
    method = paper_ucl(nn.Linear(400, 300), torch.zeros(1, 400))
    with torch.no_grad():
        method.end_task()
        for parameter in method.model.parameters():
            parameter.add_(torch.randn_like(parameter))
    values = []
    for count in (1, 2, 3):
        with threads(count):
            values.append(method.penalty(batch_size=1).item())
    assert len(set(values)) == 1


def test_other_tensors_are_left_to_torch() -> None:
    weight = torch.zeros(3, 4)
    assert calls.usable(weight)
    assert not calls.usable(weight.double())
    assert not calls.usable(weight.T)
    assert not calls.usable(weight.bfloat16())
    assert calls.usable_activations(weight.bfloat16())
    assert not calls.usable(weight.to("meta"))
    with torch_alone():
        assert not calls.usable(weight)


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
