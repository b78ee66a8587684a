"""WeightDraws of all weights in one forward pass, against one forward pass for each draw."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from uclearn.errors import UnsupportedLayerError
from uclearn.gaussian import Noise
from uclearn.methods.vcl.draws import WeightDraws, average_outputs, average_probabilities
from uclearn.methods.vcl.mean_field import MeanFieldLayer, mean_field

DRAWS, BATCH = 3, 4


class Recorder(Noise):
    """A stream of noise that remembers what it gave."""

    def __init__(self) -> None:
        super().__init__(seed=1, kind="fresh")
        self.given: list[Tensor] = []

    def normals(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        self.given.append(super().normals(shape, dtype, device))
        return self.given[-1]


def drawing(net: nn.Module, samples: int = DRAWS) -> tuple[nn.Module, Recorder]:
    """A copy of the network all of whose layers draw, with variances that differ."""
    net = copy.deepcopy(net).double()
    noise = Recorder()
    draws = WeightDraws(samples, samples, noise)
    for name, module in list(net.named_modules()):
        if list(module.parameters(recurse=False)):
            mean_field(name, module, -2.0, 1.0, draws)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if name.endswith("log_variance"):
                parameter.add_(torch.rand_like(parameter))
    draws.attach(net)
    return net.train(), noise


def each_draw(plain: nn.Module, net: nn.Module, noise: Recorder, x: Tensor) -> Tensor:
    """(draws, batch, ...): the plain network run once with the weights of each draw, in the order
    in which the layers were called."""
    outputs = []
    learned = dict(net.named_parameters())
    for draw in range(DRAWS):
        given = iter(noise.given)
        weights = {}
        for name in dict(plain.named_parameters()):
            sigma = (learned[f"{name}_log_variance"] / 2).exp()
            weights[name] = learned[name] + sigma * next(given)[draw]
        outputs.append(functional_call(plain, weights, (x,)))
    return torch.stack(outputs)


class Pooled(nn.Module):
    """Convolution, pooling, flatten, linear: the layers in the order in which they are called."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect")
        self.second = nn.Conv2d(4, 6, 3, groups=2, stride=2)
        self.last = nn.Linear(6 * 1 * 1, 5)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.max_pool2d(torch.relu(self.first(x)), 2)
        out: Tensor = self.last(torch.tanh(self.second(h)).flatten(1))
        return out


NETWORKS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "linear": (nn.Linear(5, 4), (5,)),
    "linear without bias": (nn.Linear(5, 4, bias=False), (5,)),
    "linear over positions": (nn.Linear(5, 4), (3, 2, 5)),
    "two layers": (nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)), (5,)),
    "conv1d": (nn.Conv1d(2, 4, 3, dilation=2), (2, 9)),
    "conv2d": (nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=1), (2, 7, 6)),
    "conv2d, same padding": (nn.Conv2d(2, 4, 3, padding="same", bias=False), (2, 5, 5)),
    "conv2d, circular": (nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"), (2, 5, 5)),
    "conv3d": (nn.Conv3d(2, 4, 2, groups=2), (2, 3, 4, 3)),
    "transposed": (
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        (4, 3, 3),
    ),
    "pooled": (Pooled(), (2, 7, 7)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_one_pass_with_all_draws_is_one_pass_for_each_draw(name: str) -> None:
    plain, shape = NETWORKS[name]
    net, noise = drawing(plain)
    x = torch.randn(BATCH, *shape, dtype=torch.float64)
    together = net(x)
    assert together.shape[:2] == (DRAWS, BATCH)
    torch.testing.assert_close(together, each_draw(copy.deepcopy(plain).double(), net, noise, x))


def test_one_look_up_in_the_tables_of_all_draws() -> None:
    plain = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(12, 2))
    net, noise = drawing(plain)
    words = torch.randint(7, (BATCH, 3))
    together = net(words)
    torch.testing.assert_close(
        together, each_draw(copy.deepcopy(plain).double(), net, noise, words)
    )


@pytest.mark.parametrize("name", ["two layers", "pooled", "transposed"])
def test_gradients_are_those_of_a_loop_over_draws(name: str) -> None:
    plain, shape = NETWORKS[name]
    net, noise = drawing(plain)
    x = torch.randn(BATCH, *shape, dtype=torch.float64)
    parameters = dict(net.named_parameters())
    found = torch.autograd.grad(net(x).square().mean(), list(parameters.values()))
    loop = each_draw(copy.deepcopy(plain).double(), net, noise, x)
    expected = torch.autograd.grad(loop.square().mean(), list(parameters.values()))
    for ours, theirs, parameter in zip(found, expected, parameters, strict=True):
        torch.testing.assert_close(ours, theirs, msg=parameter)
        assert ours.abs().max() > 0


def test_mean_and_variance_of_the_outputs_are_those_of_the_weights() -> None:
    """y = sum_j w_j x_j + b of independent Gaussians: mean = sum mean_j x_j + mean_b, variance =
    sum v_j x_j^2 + v_b; 40,000 draws come within four standard errors."""
    count = 40_000
    net, _ = drawing(nn.Linear(5, 4), samples=count)
    x = torch.randn(3, 5, dtype=torch.float64)
    weight, bias, weight_log_variance, bias_log_variance = net.parameters()
    mean = x @ weight.T + bias
    variance = x.square() @ weight_log_variance.exp().T + bias_log_variance.exp()
    with torch.no_grad():
        outputs = net(x)
    assert bool(((outputs.mean(0) - mean).abs() < 4 * (variance / count).sqrt()).all())
    errors = (outputs.var(0) / variance - 1).abs()
    assert bool((errors < 4 * math.sqrt(2 / count)).all())


def test_evaluation_uses_the_means_and_averages_only_when_asked() -> None:
    plain, shape = NETWORKS["two layers"]
    net, noise = drawing(plain)
    x = torch.randn(BATCH, *shape, dtype=torch.float64)
    assert torch.equal(net.eval()(x), copy.deepcopy(plain).double()(x))
    assert noise.given == []


def test_probabilities_are_averaged_not_logits() -> None:
    logits = torch.randn(7, 4, 3, dtype=torch.float64)
    expected = logits.softmax(-1).mean(0)
    torch.testing.assert_close(average_probabilities(logits).exp(), expected)
    torch.testing.assert_close(average_probabilities(logits).softmax(-1), expected)
    torch.testing.assert_close(average_outputs(logits), logits.mean(0))


def test_classes_that_a_smaller_head_lacks_stay_impossible() -> None:
    logits = torch.tensor([[[0.0, 1.0, -math.inf]], [[2.0, 0.0, -math.inf]]])
    assert average_probabilities(logits)[0, 2].item() == -math.inf


def test_frozen_parameters_stay_exact() -> None:
    layer = nn.Linear(5, 4)
    layer.weight.requires_grad_(False)
    net, noise = drawing(layer)
    net(torch.randn(2, 5, dtype=torch.float64))
    assert [tuple(normals.shape) for normals in noise.given] == [(DRAWS, 4)]
    assert "weight_log_variance" not in dict(net.named_parameters())


def test_an_input_that_is_not_the_batch_is_refused() -> None:
    """Positions that are embedded once for the whole batch would be cut up into draws."""

    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.places = nn.Embedding(6, 5)
            self.last = nn.Linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.last(x + self.places(torch.arange(6)))
            return out

    net, _ = drawing(Positions())
    message = r"got an input of shape \(6,\), whose first dimension does not hold the 12 examples"
    with pytest.raises(UnsupportedLayerError, match=message):
        net(torch.randn(BATCH, 6, 5, dtype=torch.float64))
    assert net.eval()(torch.randn(BATCH, 6, 5, dtype=torch.float64)).shape == (BATCH, 6, 2)


def test_unknown_layers_are_refused_by_name() -> None:
    class Odd(nn.Linear):
        pass

    draws = WeightDraws(1, 1, Noise())
    with pytest.raises(UnsupportedLayerError, match=r"body\.0 \(Odd\) has no version.*`plain`"):
        mean_field("body.0", Odd(2, 2), -6.0, 1.0, draws)


def test_a_copy_draws_on_its_own() -> None:
    net, noise = drawing(nn.Linear(5, 4))
    twin = copy.deepcopy(net)
    assert isinstance(net, MeanFieldLayer)
    assert isinstance(twin, MeanFieldLayer)
    assert twin.draws is not net.draws
    twin(torch.randn(2, 5, dtype=torch.float64))
    assert noise.given == []


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.Linear(6, 3), torch.randn(2, 6)),
        (nn.Conv2d(2, 4, 3, padding=1, groups=2, padding_mode="reflect"), torch.randn(2, 2, 4, 4)),
        (nn.ConvTranspose2d(2, 3, 2), torch.randn(2, 2, 3, 3)),
        (nn.Embedding(5, 3), torch.tensor([[0, 4], [2, 2]])),
    ],
)
def test_drawn_outputs_have_the_mean_and_the_spread_of_drawn_weights(
    layer: nn.Module, x: Tensor
) -> None:
    many = 4000
    net, _ = drawing(nn.Sequential(layer), samples=many)
    x = x.double() if x.is_floating_point() else x
    with torch.no_grad():
        by_weights = net(x)
        (drawn,) = net.children()
        assert isinstance(drawn, MeanFieldLayer)
        drawn.draws.per_example = True
        by_outputs = net(x)
    scale = by_weights.std(0)
    assert ((by_outputs.mean(0) - by_weights.mean(0)) / scale).abs().max() < 6 * (2 / many) ** 0.5
    assert (by_outputs.std(0) / scale - 1).abs().max() < 0.1
    one, other = by_outputs[:, 0].flatten(1), by_outputs[:, 1].flatten(1)
    together = torch.corrcoef(torch.stack([one[:, 0], other[:, 0]]))[0, 1]
    assert abs(together) < 0.1  # each example has noise of its own


def test_drawn_outputs_are_for_training_only() -> None:
    net, noise = drawing(nn.Sequential(nn.Linear(3, 2)))
    (layer,) = net.children()
    assert isinstance(layer, MeanFieldLayer)
    layer.draws.per_example = True
    x = torch.randn(BATCH, 3).double()
    assert net(x).shape == (DRAWS, BATCH, 2)
    assert noise.given[-1].shape == (DRAWS * BATCH, 2)
    with layer.draws.predicting():
        assert torch.equal(net.eval()(x), net(x))
