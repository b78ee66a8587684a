"""Gaussian layers are the torch layers they replace, plus noise in training."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.gaussian.cases import Case, both_schemes, every_case, gaussian
from tests.oracles import joins
from uclearn.errors import SettingError
from uclearn.gaussian import GaussianLayer, Noise, Sampling
from uclearn.gaussian.layers import (
    GaussianConvTranspose2d,
    GaussianEmbedding,
    GaussianLinear,
    softplus_inverse,
)


@every_case
def test_it_is_a_layer_of_the_class_it_replaces(case: Case) -> None:
    plain = case.plain()
    layer = gaussian(plain)
    assert isinstance(layer, type(plain))
    assert isinstance(layer, GaussianLayer)
    assert torch.equal(layer.weight, plain.weight)  # type: ignore[arg-type]


@every_case
@both_schemes
def test_noisy_in_training_and_exact_to_the_bit_in_evaluation(
    case: Case, sampling: Sampling
) -> None:
    plain, x = case.plain(), case.input()
    layer = gaussian(plain, sampling)
    assert not torch.equal(layer.train()(x), plain(x))
    assert torch.equal(layer.eval()(x), plain(x))


@every_case
def test_a_plain_state_dict_loads_strictly_and_leaves_sigma_alone(case: Case) -> None:
    layer, pretrained, x = gaussian(case.plain(), noisy_bias=True), case.plain(), case.input()
    rho = layer.rho.detach().clone()
    found = layer.load_state_dict(pretrained.state_dict(), strict=True)
    assert found.missing_keys == []
    assert found.unexpected_keys == []
    assert torch.equal(layer.rho, rho)
    assert torch.equal(layer.eval()(x), pretrained(x))


@every_case
def test_its_own_state_dict_carries_sigma(case: Case) -> None:
    layer, other = gaussian(case.plain(), noisy_bias=True), gaussian(case.plain(), noisy_bias=True)
    assert not torch.equal(layer.rho, other.rho)
    other.load_state_dict(layer.state_dict())
    pairs = zip(layer.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(mine, loaded) for mine, loaded in pairs)
    assert torch.equal(layer.sigma, other.sigma)


def test_a_state_dict_without_the_means_is_still_refused() -> None:
    layer = gaussian(nn.Linear(2, 3))
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "weight"'):
        layer.load_state_dict({"bias": torch.zeros(3), "rho": torch.zeros(3)})
    noisy = gaussian(nn.Linear(2, 3), noisy_bias=True).state_dict()
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "rho_bias"'):
        layer.load_state_dict(noisy)


@every_case
def test_there_is_one_sigma_for_each_output_node(case: Case) -> None:
    layer = gaussian(case.plain(), noisy_bias=True)
    nodes = 1 + max(join.node for join in joins(layer))
    assert layer.sigma.shape == (nodes,)
    assert bool((layer.sigma > 0).all())
    assert (layer.sigma_bias is None) == (layer.bias is None)
    assert layer.sigma_bias is None or layer.sigma_bias.shape == (nodes,)


@every_case
def test_views_over_weights_put_every_value_at_the_weights_of_its_node(case: Case) -> None:
    """`over_nodes` and `over_sources` against the definition of the layer, weight by weight."""
    layer = gaussian(case.plain())
    ends = list(joins(layer))
    node_values = torch.randn(1 + max(join.node for join in ends))
    source_values = torch.randn(1 + max(join.source for join in ends))
    blocks = layer.blocks(layer.weight.detach())
    nodes = layer.over_nodes(node_values).expand(blocks.shape).reshape(layer.weight.shape)
    sources = layer.over_sources(source_values).expand(blocks.shape).reshape(layer.weight.shape)
    for place, node, source in ends:
        assert nodes[place] == node_values[node]
        assert sources[place] == source_values[source]


@pytest.mark.parametrize("groups", [1, 2])
@both_schemes
def test_channels_last_computes_the_same(groups: int, sampling: Sampling) -> None:
    plain, x = nn.Conv2d(4, 6, 3, groups=groups), torch.randn(2, 4, 5, 5)
    noisy = []
    for memory in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        layer = gaussian(plain, sampling, noise=Noise(3))
        layer.to(memory_format=memory)  # type: ignore[call-overload]
        noisy.append(layer(x.to(memory_format=memory)))
    torch.testing.assert_close(noisy[0], noisy[1])


@pytest.mark.slow
@both_schemes
def test_layers_of_one_stream_have_independent_noise(sampling: Sampling) -> None:
    """Two layers alike, fed alike: correlation within five standard errors of 0."""
    noise, x, count = Noise(8), torch.randn(1, 6), 3000
    plain = nn.Linear(6, 4, bias=False)
    first, second = (gaussian(plain, sampling, noise=noise) for _ in range(2))
    with torch.no_grad():
        pairs = [(first(x) - plain(x), second(x) - plain(x)) for _ in range(count)]
    left, right = (torch.cat(side).double() for side in zip(*pairs, strict=True))
    correlation = (left * right).mean(0) / (left.std(0) * right.std(0))
    assert correlation.abs().max() < 5 / math.sqrt(count)


@both_schemes
def test_the_noise_of_one_seed_is_reproducible(sampling: Sampling) -> None:
    plain, x = nn.Linear(6, 4), torch.randn(3, 6)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(0)
        layer = gaussian(plain, sampling, noise=Noise(seed))
        outputs.append((layer(x), layer(x)))
    assert torch.equal(outputs[0][0], outputs[1][0])
    assert torch.equal(outputs[0][1], outputs[1][1])
    assert not torch.equal(outputs[0][0], outputs[2][0])


@pytest.mark.parametrize("mode", [True, False])
def test_a_transposed_convolution_takes_the_wanted_size(mode: bool) -> None:
    plain, x = nn.ConvTranspose2d(2, 3, 3, stride=2), torch.randn(1, 2, 4, 4)
    for sampling in ("weight", "local"):
        layer = gaussian(plain, sampling).train(mode)
        assert layer(x, output_size=[10, 10]).shape == (1, 3, 10, 10)
        assert layer(x, [9, 10]).shape == (1, 3, 9, 10)
        assert layer(x).shape == (1, 3, 9, 9)
    assert torch.equal(gaussian(plain).eval()(x, [10, 9]), plain(x, [10, 9]))


def test_an_embedding_scales_gradients_by_count_where_the_plain_one_does() -> None:
    plain = nn.Embedding(3, 2, scale_grad_by_freq=True)
    layer, words = gaussian(plain), torch.tensor([0, 0, 0, 2])
    layer(words).sum().backward()
    plain(words).sum().backward()
    assert isinstance(layer, nn.Embedding)
    torch.testing.assert_close(layer.weight.grad, plain.weight.grad)


def test_layers_can_be_built_directly() -> None:
    for layer in (
        GaussianLinear(3, 2, bias=False),
        GaussianConvTranspose2d(2, 4, kernel_size=3, groups=2),
        GaussianEmbedding(5, 3, padding_idx=0),
    ):
        torch.testing.assert_close(layer.sigma, torch.full_like(layer.sigma, 0.06))
        assert layer.sampling == "weight"


@both_schemes
def test_copies_and_pickles_go_on_with_the_same_noise(sampling: Sampling) -> None:
    layer, x = gaussian(nn.Linear(4, 3), sampling), torch.randn(2, 4)
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    expected = layer(x)
    assert all(torch.equal(other(x), expected) for other in copies)


@given(sigma=st.floats(1e-12, 1e3))
def test_softplus_inverse_inverts_softplus(sigma: float) -> None:
    rho = torch.tensor(softplus_inverse(sigma), dtype=torch.float64)
    assert nn.functional.softplus(rho).item() == pytest.approx(sigma, rel=1e-8)


def test_an_unknown_sampling_is_refused() -> None:
    with pytest.raises(SettingError, match=r"`sampling` must be one of weight, local, got 'both'"):
        GaussianLinear(2, 2).become_gaussian(0.1, sampling="both")  # type: ignore[arg-type]
