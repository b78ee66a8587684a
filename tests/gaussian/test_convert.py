"""From a plain network to a Gaussian one and back, leaving no trace on the original."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from uclearn.errors import UnsupportedLayerError
from uclearn.gaussian import GaussianLayer, Noise, Sampling, convert, export, survey
from uclearn.gaussian.draws import SteadyBatchNorm2d
from uclearn.methods.ucl.batch_norm import tracking_norms

SAMPLINGS: list[Sampling] = ["weight", "local"]


class Everything(nn.Module):
    """Every layer type and normalisation that conversion knows, in one network."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 16, padding_idx=0)
        self.mix = nn.Conv1d(16, 8, 3, padding=1)
        self.picture = nn.Sequential(
            nn.Conv2d(2, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 4, 2, stride=2, groups=2),
            nn.GroupNorm(2, 4),
        )
        self.volume = nn.Sequential(nn.Conv3d(1, 2, 2), nn.BatchNorm3d(2), nn.Flatten())
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 8): words or a picture of two channels, as you look at it."""
        words = self.mix(self.words(x.long() % 10).transpose(1, 2)).mean(-1)
        picture = self.picture(x.view(-1, 2, 2, 2)).flatten(1)
        volume = self.volume(x.view(-1, 1, 2, 2, 2))
        together = words + picture.unflatten(1, (8, -1)).mean(-1) + volume.mean(1, keepdim=True)
        out: Tensor = self.head(self.norm(together))
        return out


def input() -> Tensor:
    return 10 * torch.rand(4, 8)


def trained() -> Everything:
    """With running statistics and parameters that are not the initial ones."""
    net = Everything()
    for _ in range(3):
        net(input())
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return net


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_in_evaluation_it_computes_the_same_to_the_bit(sampling: Sampling) -> None:
    net, x = trained().eval(), input()
    noisy = convert(net, sigma=0.1, sampling=sampling, noisy_bias=True)
    assert torch.equal(noisy(x), net(x))
    assert not torch.equal(noisy.train()(x), net.train()(x))


def test_every_layer_is_converted_and_keeps_its_class_and_weights() -> None:
    net = trained()
    noisy = convert(net, ratio=0.5)
    gaussian = [name for name, m in noisy.named_modules() if isinstance(m, GaussianLayer)]
    assert gaussian == ["words", "mix", "picture.0", "picture.3", "volume.0", "head"]
    for name, module in net.named_modules():
        assert isinstance(noisy.get_submodule(name), type(module))
    assert isinstance(noisy.get_submodule("picture.1"), SteadyBatchNorm2d)
    mine = noisy.state_dict()
    assert all(torch.equal(mine[name], value) for name, value in net.state_dict().items())


def test_the_original_is_untouched() -> None:
    net, x = trained().eval(), input()
    classes = [type(module) for module in net.modules()]
    state, output = copy.deepcopy(net.state_dict()), net(x)
    attributes = [set(module.__dict__) for module in net.modules()]
    noisy = convert(net, sigma=0.5, means="draw")
    with torch.no_grad():
        for parameter in noisy.parameters():
            parameter.add_(1.0)
    noisy.train()(x)
    assert [type(module) for module in net.modules()] == classes
    assert [set(module.__dict__) for module in net.modules()] == attributes
    assert net.state_dict().keys() == state.keys()
    assert all(torch.equal(net.state_dict()[name], value) for name, value in state.items())
    assert torch.equal(net(x), output)
    assert not any(module.training for module in net.modules())


def test_hooks_come_along_on_the_copy_and_stay_on_the_original() -> None:
    net, seen = nn.Sequential(nn.Linear(4, 3)), []
    net[0].register_forward_hook(lambda module, *_: seen.append(type(module).__name__))
    noisy = convert(net, sigma=0.1)
    noisy(torch.randn(2, 4))
    net(torch.randn(2, 4))
    assert seen == ["GaussianLinear", "Linear"]
    noisy[0]._forward_hooks.clear()  # type: ignore[index]
    net(torch.randn(2, 4))
    assert len(seen) == 3


def test_modes_and_flags_are_copied() -> None:
    net = Everything().train()
    net.picture.eval()
    net.mix.bias.requires_grad_(False)  # type: ignore[union-attr]
    noisy = convert(net, sigma=0.1)
    for name, module in net.named_modules():
        assert noisy.get_submodule(name).training == module.training
    for name, parameter in net.named_parameters():
        assert noisy.get_parameter(name).requires_grad == parameter.requires_grad


def test_all_layers_share_one_stream_of_noise() -> None:
    noise = Noise(9)
    noisy = convert(Everything(), sigma=0.1, noise=noise)
    assert all(m.noise is noise for m in noisy.modules() if isinstance(m, GaussianLayer))
    own = convert(Everything(), sigma=0.1, seed=5)
    assert len({id(m.noise) for m in own.modules() if isinstance(m, GaussianLayer)}) == 1


@pytest.mark.parametrize("noisy_bias", [True, False])
def test_export_is_the_way_back(noisy_bias: bool) -> None:
    net, x = trained().eval(), input()
    noisy = convert(net, sigma=0.1, noisy_bias=noisy_bias).train()
    for norm in tracking_norms(noisy):
        norm.steady = True
    before = copy.deepcopy(noisy.state_dict())
    plain = export(noisy)
    assert [type(m) for m in plain.modules()] == [type(m) for m in net.modules()]
    assert list(plain.state_dict()) == list(net.state_dict())
    assert all(
        torch.equal(value, net.state_dict()[name]) for name, value in plain.state_dict().items()
    )
    for module, original in zip(plain.modules(), net.modules(), strict=True):
        assert set(module.__dict__) == set(original.__dict__)
    assert torch.equal(plain.eval()(x), net(x))
    # and what was exported is as it was
    assert list(noisy.state_dict()) == list(before)
    assert noisy.training
    assert isinstance(noisy.get_submodule("head"), GaussianLayer)


def test_export_takes_the_means_as_they_are_now_and_shares_nothing() -> None:
    noisy, x = convert(Everything(), sigma=0.1), input()
    with torch.no_grad():
        for parameter in noisy.parameters():
            parameter.mul_(1.5)
    plain = export(noisy).eval()
    assert torch.equal(plain(x), noisy.eval()(x))
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.zero_()
    assert noisy.get_parameter("head.weight").any()


def test_an_exported_network_converts_again() -> None:
    net, x = trained().eval(), input()
    again = convert(export(convert(net, sigma=0.1)), sigma=0.2)
    assert torch.equal(again(x), net(x))


def test_a_converted_network_can_be_converted_anew() -> None:
    net, x = trained().eval(), input()
    again = convert(convert(net, sigma=0.1), sigma=0.2, sampling="local")
    head = again.get_submodule("head")
    assert isinstance(head, GaussianLayer)
    torch.testing.assert_close(head.sigma, torch.full((3,), 0.2))
    assert torch.equal(again(x), net(x))
    assert list(export(again).state_dict()) == list(net.state_dict())


def test_a_single_layer_is_a_network_too() -> None:
    plain, x = nn.Linear(4, 2), torch.randn(3, 4)
    noisy = convert(plain, sigma=0.1)
    assert isinstance(noisy, GaussianLayer)
    assert type(export(noisy)) is nn.Linear
    assert torch.equal(noisy.eval()(x), plain(x))


@pytest.mark.parametrize("plain", [("head",), ["head", "picture"], iter(["head", "picture.0"])])
def test_named_modules_stay_plain_with_all_below_them(plain: Any) -> None:
    names = list(plain)
    noisy = convert(Everything(), sigma=0.1, plain=iter(names))
    for name, module in noisy.named_modules():
        below = any(name == n or name.startswith(n + ".") for n in names)
        if below:
            assert not isinstance(module, GaussianLayer)
            assert type(module).__module__.startswith("torch.nn")
    assert isinstance(noisy.get_submodule("mix"), GaussianLayer)


def test_a_plain_module_within_a_plain_module_may_be_named_too() -> None:
    found = survey(Everything(), ["picture", "picture.0", "picture"])
    assert found.problems == []
    assert list(found.opaque) == ["picture"]


def test_a_module_of_two_names_may_be_kept_plain_by_either() -> None:
    net = nn.Module()
    net.first = nn.Linear(2, 2)
    net.second = net.first
    net.other = nn.Linear(2, 2)
    for name in ("first", "second"):
        noisy = convert(net, sigma=0.1, plain=[name])
        assert type(noisy.first) is nn.Linear
        assert noisy.second is noisy.first
        assert isinstance(noisy.other, GaussianLayer)


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnsupportedLayerError) as caught:
        convert(Everything(), sigma=0.1, plain=["head", "haed", "picture.9"])
    assert str(caught.value) == (
        "This model cannot be converted as it is:\n"
        "- haed, picture.9: named in `plain`, but the model has no such module or parameter."
    )
