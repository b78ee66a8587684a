"""The hand-written gradients of both schemes against autograd on the formula written out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from tests.gaussian.cases import (
    Case,
    both_schemes,
    every_case,
    every_float_case,
    exact_or_noisy_bias,
    gaussian,
    parameters_of,
)
from tests.oracles import node_of_weight, output_energy
from uclearn import sizes
from uclearn.gaussian import Noise, Sampling, functions
from uclearn.gaussian.functions import add_noise, sample_weight, sum_of_squares
from uclearn.topology import node_dim


@pytest.fixture(
    autouse=True,
    params=[
        (sizes.SMALL_DRAW, sizes.ACTIVATION_PIECE),
        (0, sizes.ACTIVATION_PIECE),
        (0, 7),
    ],
    ids=["small", "large", "in pieces"],
)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones as autograd does it, large ones by hand, and those in pieces of few rows."""
    small, piece = request.param
    monkeypatch.setattr(functions, "SMALL_DRAW", small)
    monkeypatch.setattr(functions, "ACTIVATION_PIECE", piece)


class RecordedNoise(Noise):
    """Remembers every normal number that it gave out."""

    def __init__(self) -> None:
        super().__init__(kind="fresh")
        self.given: list[Tensor] = []

    def normals(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        self.given.append(super().normals(shape, dtype, device))
        return self.given[-1]

    def chosen(
        self, rows: Tensor, shape: tuple[int, int], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        return self.normals(shape, dtype, device)[rows]


def weight_formula(
    plain: nn.Module, p: dict[str, Tensor], x: Tensor, given: list[Tensor]
) -> Tensor:
    """y = layer(x; w), w = mean + softplus(rho)_node * normals, likewise the bias."""
    nodes = node_of_weight(plain)
    noise = F.softplus(p["rho"])[nodes] * given[0].reshape(nodes.shape)
    if isinstance(plain, nn.Embedding) and plain.padding_idx is not None:
        noise = noise * (torch.arange(plain.num_embeddings) != plain.padding_idx)[:, None]
    drawn = {"weight": p["weight"] + noise}
    if "bias" in p:
        drawn["bias"] = p["bias"]
    if "rho_bias" in p:
        drawn["bias"] = p["bias"] + F.softplus(p["rho_bias"]) * given[1]
    output: Tensor = functional_call(plain, drawn, (x,))
    return output


def local_formula(plain: nn.Module, p: dict[str, Tensor], x: Tensor, given: list[Tensor]) -> Tensor:
    """y = layer(x; mean) + softplus(rho)_node * sqrt(energy) * normals, and the bias's noise."""
    means = {name: value for name, value in p.items() if not name.startswith("rho")}
    mean: Tensor = functional_call(plain, means, (x,))
    shape = (-1,) + (1,) * (-1 - node_dim(plain))
    noise = F.softplus(p["rho"]).view(shape) * output_energy(plain, x).sqrt() * given[0]
    if "rho_bias" in p:
        noise = noise + F.softplus(p["rho_bias"]).view(shape) * given[1]
    return mean + noise


FORMULAS: dict[Sampling, Callable[[nn.Module, dict[str, Tensor], Tensor, list[Tensor]], Tensor]]
FORMULAS = {"weight": weight_formula, "local": local_formula}


@pytest.mark.slow
@every_case
@both_schemes
@exact_or_noisy_bias
def test_values_and_gradients_are_those_of_the_formula(
    case: Case, sampling: Sampling, noisy_bias: bool
) -> None:
    plain, noise = case.plain().double(), RecordedNoise()
    layer = gaussian(plain, sampling, noisy_bias, noise=noise)
    x = case.input()
    if x.is_floating_point():
        x = x.double().requires_grad_()
    output = layer(x)
    probe = torch.randn_like(output)
    output.backward(probe)

    parameters = parameters_of(layer)
    again = x.detach().clone().requires_grad_(x.requires_grad)
    expected = FORMULAS[sampling](plain, parameters, again, noise.given)
    expected.backward(probe)

    torch.testing.assert_close(output, expected)
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, parameters[name].grad, msg=f"{name} differs")
    torch.testing.assert_close(x.grad, again.grad)


@pytest.mark.slow
@every_float_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_where_no_input_is_active_local_gradients_are_finite(
    case: Case, dtype: torch.dtype
) -> None:
    """The length of the input has a kink at 0; the subgradient 0 is taken."""
    plain = case.plain().to(dtype)
    layer, x = gaussian(plain, "local"), torch.zeros(case.shape, dtype=dtype).requires_grad_()
    output = layer(x)
    torch.testing.assert_close(output, plain(x), rtol=0, atol=0.1)
    output.float().square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_an_inactive_position_beside_an_active_one_stays_finite() -> None:
    layer = gaussian(nn.Conv2d(2, 3, 3, padding=1), "local")
    x = torch.zeros(1, 2, 8, 8)
    x[..., :2] = 1e3 * torch.randn(1, 2, 8, 2)
    x.requires_grad_()
    layer(x).square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert x.grad[..., :2].any()


SHAPES = {  # mean, length, sigma: as linear, sequence, convolution and grouped convolution use them
    "linear": ((4, 3), (4, 1), (3,)),
    "unbatched": ((3,), (1,), (3,)),
    "sequences": ((2, 4, 3), (2, 4, 1), (3,)),
    "conv1d": ((2, 3, 4), (2, 1, 4), (3, 1)),
    "conv2d": ((2, 3, 2, 2), (2, 1, 2, 2), (3, 1, 1)),
    "grouped": ((2, 4, 2, 2), (2, 4, 2, 2), (4, 1, 1)),
    "unbatched-conv": ((3, 2, 2), (1, 2, 2), (3, 1, 1)),
}
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
Shapes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def leaves(shape: Shapes) -> tuple[Tensor, Tensor, Tensor]:
    mean, length, sigma = (0.1 + torch.rand(size, dtype=torch.float64) for size in shape)
    return mean.requires_grad_(), length.requires_grad_(), sigma.requires_grad_()


@pytest.mark.slow
@shapes
def test_add_noise_once_and_twice_differentiated(shape: Shapes) -> None:
    inputs = leaves(shape)
    normals = torch.randn_like(inputs[0])

    def draw(mean: Tensor, length: Tensor, sigma: Tensor) -> Tensor:
        return add_noise(mean, length, sigma, normals)

    assert torch.autograd.gradcheck(draw, inputs)
    assert torch.autograd.gradgradcheck(draw, inputs)


@shapes
def test_what_is_seen_elsewhere_is_not_written_to(shape: Shapes) -> None:
    """The mean is given away, but not what it is a view of, nor a leaf that is trained."""
    leaf, length, sigma = leaves(shape)
    normals = torch.randn_like(leaf)
    base = leaf.detach().clone()
    before = leaf.detach().clone(), length.detach().clone()
    for mean in (leaf, base.view_as(base)):
        add_noise(mean, length, sigma, normals)
    assert torch.equal(leaf, before[0])
    assert torch.equal(base, before[0])
    assert torch.equal(length, before[1])


@pytest.mark.slow
@pytest.mark.parametrize("dim", [0, 1, 2, -2, -4])
def test_sum_of_squares_once_and_twice_differentiated(dim: int) -> None:
    inputs = torch.randn(5, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(sum_of_squares(inputs, dim), inputs.square().sum(dim))
    assert torch.autograd.gradcheck(lambda x: sum_of_squares(x, dim), inputs)
    assert torch.autograd.gradgradcheck(lambda x: sum_of_squares(x, dim), inputs)


def test_no_examples_have_no_noise() -> None:
    layer = gaussian(nn.Conv2d(2, 3, 3, padding=1), "local")
    assert layer(torch.zeros(0, 2, 8, 8)).shape == (0, 3, 8, 8)


def test_sample_weight_once_and_twice_differentiated() -> None:
    mean = torch.randn(4, 3, 2, dtype=torch.float64, requires_grad=True)
    sigma = torch.rand(4, 1, 1, dtype=torch.float64, requires_grad=True)
    normals = torch.randn_like(mean)

    def draw(mean: Tensor, sigma: Tensor) -> Tensor:
        return sample_weight(mean, sigma, normals)

    assert torch.autograd.gradcheck(draw, (mean, sigma))
    assert torch.autograd.gradgradcheck(draw, (mean, sigma))


@shapes
def test_vmap_over_draws_is_a_loop_over_draws(shape: Shapes) -> None:
    mean, length, sigma = leaves(shape)
    normals = torch.randn(5, *mean.shape, dtype=torch.float64)

    def draw(numbers: Tensor) -> Tensor:
        return add_noise(mean, length, sigma, numbers)

    together = vmap(draw)(normals)
    one_by_one = torch.stack([draw(numbers) for numbers in normals])
    torch.testing.assert_close(together, one_by_one)
    probe = torch.randn_like(together)
    inputs = (mean, length, sigma)
    torch.testing.assert_close(
        torch.autograd.grad(together, inputs, probe), torch.autograd.grad(one_by_one, inputs, probe)
    )
