"""UCL takes any module: what has no nodes of its own is held too, and it says how."""

from __future__ import annotations

import io
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import uclearn
from uclearn.errors import UnsupportedLayerError
from uclearn.gaussian import GaussianLayer
from uclearn.methods.lwf import LwF
from uclearn.methods.ucl import Hold

HOLDS = ("outputs", "weights")


class Tokens(nn.Module):
    """A class token, positions, attention, a recurrent layer: parameters wherever one looks."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.norm = nn.LayerNorm(8)
        self.first = nn.Linear(8, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.memory = nn.LSTM(8, 8, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor, factor: float = 1.0) -> dict[str, Tensor]:
        x = self.first(self.norm(x))
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        x, _ = self.memory(self.block(x))
        return {"loss": x.mean(), "logits": self.last(x[:, 0]) * self.scale * factor}


def learned(model: nn.Module, hold: Hold, example: Any, tasks: int = 1) -> uclearn.UCL:
    method = uclearn.UCL(model, example, hold=hold, batch_norm="shared")
    for _ in range(tasks):
        optimizer = torch.optim.Adam(method.parameter_groups(lr=1e-2))
        for _ in range(3):
            output = method.model(**example)
            loss = output["logits"].square().mean() + method.penalty(batch_size=4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        method.end_task()
    return method


@pytest.fixture
def example() -> dict[str, Any]:
    return {"x": torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(1)), "factor": 2.0}


@pytest.mark.parametrize("hold", HOLDS)
def test_every_parameter_is_held_and_the_export_is_equal_to_the_bit(
    hold: Hold, example: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    method = learned(Tokens(), hold, example, tasks=2)
    assert method.coverage().share == 1
    assert float(method.penalty(batch_size=1).detach()) == pytest.approx(_spread(method), rel=1e-4)
    unheld = []
    for name, parameter in method.model.named_parameters():
        if name.endswith("rho"):
            continue
        rest = float(method.penalty(batch_size=1).detach())
        with torch.no_grad():
            parameter.add_(0.1)
            if not float(method.penalty(batch_size=1)) > rest:
                unheld.append(name)
            parameter.sub_(0.1)
    assert unheld == []
    with method.inference() as network:
        there = network(**example)["logits"]
    plain = method.export()
    assert torch.equal(plain(**example)["logits"], there)
    kinds = {type(module).__module__.partition(".")[0] for module in plain.modules()}
    assert kinds == {"torch", Tokens.__module__.partition(".")[0]}


def _spread(method: uclearn.UCL) -> float:
    """Where nothing moved, the penalty is that of the uncertainties."""
    sigmas = torch.cat(list(method.sigmas().values())).double()
    return method.beta / 2 * float((1 + sigmas.square() - sigmas.square().log()).sum())


@pytest.mark.parametrize("hold", HOLDS)
def test_a_parameter_of_no_node_is_held_as_nodes_are_on_average(
    hold: Hold, example: dict[str, Any]
) -> None:
    """Where nothing is measured; else by what hangs on it (`ucl/test_loose.py`)."""
    torch.manual_seed(0)
    method = uclearn.UCL(Tokens(), example, hold=hold)
    with torch.no_grad():
        for layer in method._layers.values():
            layer.rho.sub_(1)
    method.end_task(inputs=[example])
    strengths = torch.cat(list(method.strengths().values()))
    squared = float(strengths.square().mean())
    before = float(method.penalty(batch_size=1).detach())
    token = method.model.token
    assert isinstance(token, nn.Parameter)
    anchor = token.detach().clone()
    with torch.no_grad():
        token.add_(0.1)
    gained = float(method.penalty(batch_size=1).detach()) - before
    by_hand = squared * (0.5 * 0.01 * 8 + float(anchor.square().sum()) * 0.1)  # eq. (4) + eq. (5)
    assert gained == pytest.approx(by_hand, rel=1e-2)


@pytest.mark.parametrize("hold", HOLDS)
def test_a_norm_that_inputs_feed_is_held(hold: Hold) -> None:
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2))
    method = uclearn.UCL(model, torch.zeros(1, 4), hold=hold)
    method.end_task(inputs=[torch.randn(8, 4)])
    before = float(method.penalty(batch_size=1).detach())
    with torch.no_grad():
        method.model.get_parameter("0.weight").add_(0.5)
    assert float(method.penalty(batch_size=1).detach()) > before + 0.1


@pytest.mark.parametrize("hold", HOLDS)
def test_tied_weights_are_held_by_the_nodes_of_both_their_layers(hold: Hold) -> None:
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9, bias=False))
    model[1].weight = model[0].weight
    method = uclearn.UCL(model, torch.zeros(1, 3).long(), hold=hold)
    assert method.coverage().total == 36
    assert method.coverage().share == 1
    first, second = method.model.children()
    assert isinstance(first, GaussianLayer)
    assert isinstance(second, GaussianLayer)
    assert first.weight is second.weight
    assert (len(first.rho), len(second.rho)) == (4, 9)
    words = torch.arange(9).view(1, 9)
    method.end_task(inputs=[words])
    weight = first.weight
    before = float(method.penalty(batch_size=1).detach())
    with torch.no_grad():
        weight.add_(0.3)
    loss = method.penalty(batch_size=1)
    assert float(loss.detach()) > before
    (gradient,) = torch.autograd.grad(loss, [weight])
    step, slope = 1e-3, gradient[2, 1]
    with torch.no_grad():  # against the difference quotient of the sum of both terms
        weight[2, 1] += step
        more = float(method.penalty(batch_size=1))
        weight[2, 1] -= 2 * step
        less = float(method.penalty(batch_size=1))
    assert (more - less) / (2 * step) == pytest.approx(float(slope), rel=0.05)


def test_a_single_parameter_can_be_named_in_plain(example: dict[str, Any]) -> None:
    method = uclearn.UCL(Tokens(), example, plain=["token", "norm.bias"])
    assert method.coverage().free == {
        "token": (8, "named in `plain`"),
        "norm.bias": (8, "named in `plain`"),
    }
    before = float(method.penalty(batch_size=1).detach())
    with torch.no_grad():
        method.model.get_parameter("token").add_(1)
        method.model.get_parameter("norm.bias").add_(1)
    assert float(method.penalty(batch_size=1).detach()) == pytest.approx(before)


def test_what_is_held_and_what_not_is_told(example: dict[str, Any]) -> None:
    method = uclearn.UCL(Tokens(), example, plain=["scale"])
    told = str(method.coverage())
    assert told.startswith("99.9% of 1,300 trainable weights are held: ")
    assert "\nnot held: scale: named in `plain`\n" in told
    attention = "block.self_attn.out_proj: its weights are used without calling it, or"
    assert f"\nby themselves: {attention} " in told
    assert "nodes are lost from sight: by `" in told


def test_a_method_that_holds_little_says_so() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 90), nn.Linear(90, 2)))
    with pytest.warns(UserWarning, match=r"UCL holds 3% of the trainable weights. Not held: 1.0.w"):
        uclearn.UCL(model, torch.zeros(1, 4), plain=["1"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uclearn.UCL(model, torch.zeros(1, 4), plain=["1.0"])  # one linear layer: a head


def test_problems_of_one_kind_are_one_line() -> None:
    model = nn.Sequential(*(nn.LazyLinear(3) for _ in range(200)))
    with pytest.raises(UnsupportedLayerError) as caught:
        uclearn.UCL(model, torch.zeros(1, 4))
    assert str(caught.value).count("\n") == 1
    assert "- 0, 1, 2 and 197 more (LazyLinear): has no weights yet" in str(caught.value)


# -- precision, copies, norms of others --------------------------------------------------------


@pytest.mark.parametrize("closed_form", [False, True])
@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_uncertainties_move_and_penalties_are_finite_in_half_precision(
    kind: torch.dtype, hold: Hold, closed_form: bool
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2)).to(kind)
    x = torch.randn(16, 4).to(kind)
    method = uclearn.UCL(net, x[:1], hold=hold, closed_form=closed_form)
    for _ in range(2):
        before = method.sigmas()["0"]
        optimizer = torch.optim.SGD(method.parameter_groups(lr=1e-3))
        for _ in range(2):
            loss = method.model(x).float().square().mean() + method.penalty(batch_size=16)
            optimizer.zero_grad()
            loss.backward()
            method.adjust_gradients(batch_size=16)
            optimizer.step()
        after = method.sigmas()["0"]
        method.end_task()
    assert after.dtype == torch.float32
    assert 0 < float((after - before).abs().max()) < 1e-2  # less than a step of bfloat16
    assert bool(loss.isfinite())


def test_a_method_that_is_shortened_later_keeps_its_uncertainties() -> None:
    method = uclearn.UCL(nn.Sequential(nn.Linear(4, 8)), torch.zeros(1, 4)).to(torch.bfloat16)
    layer = method.model.get_submodule("0")
    assert isinstance(layer, GaussianLayer)
    assert (layer.weight.dtype, layer.rho.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("kind", [uclearn.UCL, LwF])
def test_a_method_can_be_saved_whole(kind: Any) -> None:
    method, file = kind(nn.Sequential(nn.Linear(2, 2)), torch.zeros(1, 2)), io.BytesIO()
    torch.save(method, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    again.load_state_dict(method.state_dict())
    x = torch.randn(3, 2)
    assert torch.equal(again.model.eval()(x), method.model.eval()(x))


class NormAct(nn.BatchNorm2d):
    """As timm's, which counts and averages by itself."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).relu()


@pytest.mark.parametrize("told", [True, False])
def test_batch_norms_of_others_are_estimated_anew(told: bool) -> None:
    """By what was trained on last, where nobody says."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 1), NormAct(3), nn.Flatten(), nn.Linear(12, 2))
    method = uclearn.UCL(model, torch.zeros(1, 2, 2, 2))
    x = torch.randn(64, 2, 2, 2)
    method.model(x)
    method.end_task(inputs=[x] if told else None)
    convolution, norm = method.export()[:2]  # type: ignore[index]
    assert type(norm) is NormAct
    assert norm.running_mean is not None
    assert torch.allclose(norm.running_mean, convolution(x).mean((0, 2, 3)), atol=1e-5)


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.weight


def test_a_norm_over_the_last_dimension_is_fed_by_features_not_by_words() -> None:
    """Also where there are as many words as features."""
    model = nn.Sequential(nn.Linear(3, 4), RMSNorm(4), nn.Linear(4, 2))
    method = uclearn.UCL(model, torch.zeros(1, 4, 3))
    assert method.topology.sources["1"].flatten().tolist() == [0, 1, 2, 3]
    assert method.topology.sources["2"].flatten().tolist() == [0, 1, 2, 3]
    assert method.coverage().by_themselves == 0


class Attends(nn.Module):
    """One attention, written in two ways."""

    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.by_hand = by_hand
        self.start, self.q, self.k = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.v, self.out = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.start(x)
        q, k, v = self.q(h), self.k(h), self.v(h)
        if self.by_hand:
            heard = nn.functional.dropout((q @ k.mT / 2).softmax(-1), 0.0) @ v
        else:
            heard = nn.functional.scaled_dot_product_attention(q, k, v)
        said: Tensor = self.out(heard)
        return said


def test_an_attention_is_held_alike_however_it_is_written() -> None:
    penalties = []
    for by_hand in (False, True):
        method = uclearn.UCL(Attends(by_hand), torch.randn(2, 5, 3), hold="weights")
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for layer in method._layers.values():
                layer.rho.add_(torch.randn(layer.rho.shape, generator=generator))
        method.end_task()
        with torch.no_grad():
            for parameter in method.model.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        penalties.append(float(method.penalty(batch_size=1).detach()))
    assert penalties[0] == penalties[1] > 0


class Copies(nn.Module):
    """Uses a layer's weight a second time, through a copy of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        again = (self.first.weight * 2).clone()
        said: Tensor = self.second(nn.functional.linear(self.first(x), again))
        return said


def test_a_weight_that_is_used_through_a_copy_is_noticed() -> None:
    told = str(uclearn.UCL(Copies(), torch.randn(2, 3)).coverage())
    assert "weights used outside of their layer: first" in told
