"""Normalisations are recognised by what they do."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uclearn import UCL
from uclearn.gaussian import GaussianLayer, Noise, Sampling, convert, export, survey
from uclearn.gaussian.draws import SteadyBatchNorm
from uclearn.gaussian.kinds import OF_OTHERS
from uclearn.gaussian.probe import feature_dim
from uclearn.methods.ucl import Hold


class LlamaNorm(nn.Module):
    """As language models write it: no torch norm, no `normalized_shape`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of a picture."""

    def forward(self, x: Tensor) -> Tensor:
        last = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias)
        return last.permute(0, 3, 1, 2)


class NormAct(nn.BatchNorm2d):
    """A batch norm with its activation, as timm has it."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(
            F.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, self.training
            )
        )


class LayerScale(nn.Module):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Mixing(nn.Module):
    """One number per feature, but features are mixed: no normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.register_buffer("mix", torch.randn(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.mix * self.scale  # type: ignore[operator]


@pytest.mark.parametrize(
    ("module", "dim"),
    [
        (LlamaNorm(6), -1),
        (LlamaNorm(3), -1),
        (LlamaNorm(2), -1),
        (ChannelNorm(6), 1),
        (NormAct(5), 1),
        (nn.GroupNorm(2, 6), 1),
        (nn.PReLU(4), 1),
        (LayerScale((6,)), -1),
        (LayerScale((6, 1, 1)), 1),
        (LayerScale((2, 1, 1)), 1),
        (nn.Linear(6, 6), None),
        (nn.Linear(6, 1, bias=False), None),
        (Mixing(6), None),
        (nn.PReLU(1), None),
        (nn.Sequential(nn.LayerNorm(6)), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else str(value),
)
def test_the_dimension_of_features_is_found(module: nn.Module, dim: int | None) -> None:
    before = copy.deepcopy(module.state_dict())
    assert feature_dim(module) == dim
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())


def test_norms_of_others_are_followed_and_batch_norms_can_keep_their_statistics() -> None:
    model = nn.Sequential(nn.Conv2d(3, 5, 3), NormAct(5), nn.Conv2d(5, 4, 1), ChannelNorm(4))
    found = survey(model, strict=False)
    assert found.dims == {"1": 1, "3": 1}
    assert not found.loose
    noisy = convert(model, sigma=0.1, strict=False)
    norm, x = noisy.get_submodule("1"), torch.randn(2, 3, 5, 5)
    assert isinstance(norm, SteadyBatchNorm)
    assert isinstance(norm, NormAct)
    norm.steady = True
    noisy.train()(x)
    assert not norm.running_mean.any()  # type: ignore[union-attr]
    norm.steady = False
    noisy.train()(x)
    assert norm.running_mean.all()  # type: ignore[union-attr]
    plain = export(noisy)
    assert type(plain.get_submodule("1")) is NormAct
    assert torch.equal(plain.eval()(x), noisy.eval()(x))


class ScaledEmbedding(nn.Embedding):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 3


class Renamed(nn.Linear):
    """Nothing but a name."""


class Standardised(nn.Conv2d):
    """Uses its weight itself."""

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(input, self.weight - self.weight.mean((1, 2, 3), keepdim=True), self.bias)


def test_a_subclass_that_ends_up_in_its_base_has_noise_of_its_own() -> None:
    model = nn.Sequential(ScaledEmbedding(7, 4), Renamed(4, 3))
    noisy, words = convert(model, sigma=0.1, strict=False), torch.tensor([[1, 2, 6]])
    for layer, kind in zip(noisy.children(), (ScaledEmbedding, Renamed), strict=True):
        assert isinstance(layer, GaussianLayer)
        assert isinstance(layer, kind)
    assert torch.equal(noisy.eval()(words), model(words))
    embedded = noisy.train().get_submodule("0")(words) - model[0](words)
    assert 0.05 < float(embedded.detach().std()) < 0.6  # three times 0.1
    plain = export(noisy)
    assert [type(module) for module in plain.children()] == [ScaledEmbedding, Renamed]
    assert torch.equal(plain(words), model(words))
    again = pickle.loads(pickle.dumps(noisy))
    assert torch.equal(again.eval()(words), model(words))


def test_a_subclass_that_uses_its_weight_itself_is_given_a_drawn_one() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(Standardised(3, 4, 2)), torch.randn(5, 3, 4, 4)
    noisy = convert(model, sigma=0.1, strict=False, noise=Noise(1, kind="fresh"))
    layer = noisy.get_submodule("0")
    assert isinstance(layer, GaussianLayer)
    assert torch.equal(noisy.eval()(x), model(x))
    normals = Noise(1, kind="fresh").normals(layer.weight.shape)
    by_hand = Standardised(3, 4, 2)
    by_hand.weight.data = model.get_parameter("0.weight").data + 0.1 * normals
    by_hand.bias = model.get_parameter("0.bias")
    assert torch.allclose(noisy.train()(x), by_hand(x), atol=1e-6)
    assert isinstance(layer._parameters["weight"], nn.Parameter)
    noisy(x).square().sum().backward()
    assert layer.rho.grad is not None
    assert bool(layer.rho.grad.any())
    assert type(export(noisy).get_submodule("0")) is Standardised


class InOut(nn.Module):
    """As GPT-2's Conv1D: the weight is (in, out)."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf, self.nx = nf, nx
        self.weight, self.bias = nn.Parameter(torch.randn(nx, nf)), nn.Parameter(torch.randn(nf))

    def forward(self, x: Tensor) -> Tensor:
        flat = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return flat.view(*x.size()[:-1], self.nf)


@pytest.mark.parametrize("hold", ["outputs", "weights"])
@pytest.mark.parametrize("sampling", ["local", "weight"])
def test_a_weight_that_is_stored_the_other_way_round_is_held_as_any_linear_layer(
    hold: Hold, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{InOut.__module__}.{InOut.__qualname__}"
    monkeypatch.setitem(OF_OTHERS, name, OF_OTHERS["transformers.pytorch_utils.Conv1D"])
    torch.manual_seed(0)
    there, usual, x = InOut(3, 4), nn.Linear(4, 3), torch.randn(6, 2, 4)
    usual.weight.data, usual.bias.data = there.weight.data.t().contiguous(), there.bias.data
    penalties, strengths = [], []
    for layer in (there, usual):
        model = nn.Sequential(layer, nn.Tanh(), nn.Linear(3, 2))
        model.get_parameter("2.weight").data.fill_(0.1)
        method = UCL(model, x, hold=hold, sampling=sampling, beta=0.1)
        first = method.model.get_submodule("0")
        assert isinstance(first, GaussianLayer)
        method.model(x).square().sum().backward()
        assert first.rho.grad is not None
        with torch.no_grad():
            first.rho.copy_(torch.tensor([-3.0, -2.0, -1.0]))
        method.end_task(inputs=[x])
        with torch.no_grad():
            first.weight.mul_(1.1)
            first.bias.add_(0.1)
        penalties.append(float(method.penalty(batch_size=1).detach()))
        strengths.append(method.topology.sources["2"].tolist())
    assert penalties[0] == pytest.approx(penalties[1], rel=1e-5)
    assert strengths[0] == strengths[1]


def test_what_a_layer_makes_of_sequences_may_be_changed_in_place() -> None:
    """As many models do behind a linear layer."""
    noisy, x = convert(nn.Linear(4, 3), sigma=0.1, sampling="local"), torch.randn(2, 5, 4)
    output = noisy.train()(x)
    output *= 2
    output.sum().backward()
    assert noisy.get_parameter("bias").grad is not None
    assert noisy.get_parameter("bias").grad.tolist() == [20.0, 20.0, 20.0]  # type: ignore[union-attr]
