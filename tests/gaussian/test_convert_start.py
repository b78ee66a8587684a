"""Where means and sigmas start: He's variance 2/n, shared out between the two."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from uclearn.errors import SettingError
from uclearn.gaussian import GaussianLayer, Noise, convert

# n by hand: the fan-in of linear layers, the fan-out of convolutions (one input of a grouped
# convolution reaches the outputs of its group only), and 2 for embeddings: variance 1.
FANS: list[tuple[str, Callable[[], nn.Module], int]] = [
    ("linear", lambda: nn.Linear(50, 400), 50),
    ("linear-wide", lambda: nn.Linear(400, 50), 400),
    ("conv1d", lambda: nn.Conv1d(40, 30, 5), 30 * 5),
    ("conv2d", lambda: nn.Conv2d(20, 50, 3), 50 * 9),
    ("conv2d-oblong", lambda: nn.Conv2d(50, 20, (1, 3)), 20 * 3),
    ("conv2d-groups", lambda: nn.Conv2d(40, 60, 3, groups=4), 15 * 9),
    ("conv2d-depthwise", lambda: nn.Conv2d(500, 1000, 3, groups=500), 2 * 9),
    ("conv3d", lambda: nn.Conv3d(10, 20, 3), 20 * 27),
    ("transposed", lambda: nn.ConvTranspose2d(30, 20, 3), 20 * 9),
    ("transposed-groups", lambda: nn.ConvTranspose2d(40, 60, 3, groups=2), 30 * 9),
    ("embedding", lambda: nn.Embedding(200, 50), 2),
]
every_fan = pytest.mark.parametrize(
    ("make", "fan"), [f[1:] for f in FANS], ids=[f[0] for f in FANS]
)


def converted(model: nn.Module, **settings: object) -> GaussianLayer:
    layer = convert(model, **settings)  # type: ignore[arg-type]
    assert isinstance(layer, GaussianLayer)
    return layer


def assert_variance(numbers: Tensor, expected: float) -> None:
    """Uniform numbers: the sample variance has the standard error Var * sqrt(0.8 / n); within
    five of them, with mean 0 within five of its own and none outside of the range."""
    numbers, count = numbers.detach().double().flatten(), numbers.numel()
    assert abs(numbers.mean().item()) < 5 * math.sqrt(expected / count)
    assert abs(numbers.var().item() / expected - 1) < 5 * math.sqrt(0.8 / count)
    assert numbers.abs().max().item() <= math.sqrt(3 * expected) * (1 + 1e-6)
    assert numbers.abs().max().item() > 0.99 * math.sqrt(3 * expected)  # not a narrower range


@every_fan
@pytest.mark.parametrize("ratio", [0.125, 0.5, 0.9])
def test_adaptive_shares_out_two_over_n(
    make: Callable[[], nn.Module], fan: int, ratio: float
) -> None:
    layer = converted(make(), ratio=ratio, means="draw", noisy_bias=True)
    expected = torch.full_like(layer.sigma, math.sqrt(ratio * 2 / fan))
    torch.testing.assert_close(layer.sigma, expected)
    assert_variance(layer.weight, (1 - ratio) * 2 / fan)
    if layer.bias is not None:
        assert not layer.bias.any()
        assert layer.sigma_bias is not None
        torch.testing.assert_close(layer.sigma_bias, expected)


@every_fan
def test_constant_gives_every_layer_the_same_sigma_and_the_means_all_of_hes_variance(
    make: Callable[[], nn.Module], fan: int
) -> None:
    layer = converted(make(), sigma=0.06, means="draw")
    torch.testing.assert_close(layer.sigma, torch.full_like(layer.sigma, 0.06))
    assert_variance(layer.weight, 2 / fan)
    assert layer.bias is None or not layer.bias.any()


@every_fan
@pytest.mark.parametrize("settings", [{"sigma": 0.06}, {"ratio": 0.3}])
def test_keep_keeps_means_and_biases_and_sets_sigma_only(
    make: Callable[[], nn.Module], fan: int, settings: dict[str, float]
) -> None:
    plain = make()
    layer = converted(plain, **settings)
    for name, parameter in plain.named_parameters():
        assert torch.equal(getattr(layer, name), parameter)
    wanted = settings.get("sigma", math.sqrt(0.3 * 2 / fan))
    torch.testing.assert_close(layer.sigma, torch.full_like(layer.sigma, wanted))


def test_a_drawn_weight_then_has_hes_variance() -> None:
    """Means and noise together: 2/n, whatever the ratio; within five standard errors."""
    layer = converted(nn.Linear(200, 300), ratio=0.7, means="draw", noise=Noise(3))
    with torch.no_grad():
        weight = (layer(torch.eye(200)) - layer.bias).double()
    assert weight.var().item() == pytest.approx(2 / 200, rel=5 * math.sqrt(2 / weight.numel()))


def test_padding_of_an_embedding_stays_zero() -> None:
    layer = converted(nn.Embedding(5, 3, padding_idx=1), ratio=0.5, means="draw")
    assert not layer.weight[1].any()
    assert layer.weight[0].all()


def test_drawn_means_follow_the_seed_alone() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    first, again, other = (
        [p.clone() for p in convert(net, ratio=0.5, means="draw", seed=seed).parameters()]
        for seed in (1, 1, 2)
    )
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], other[0])
    assert not torch.equal(*(p for p in first if p.dim() == 2))  # two layers alike differ


def test_drawing_means_leaves_torchs_own_generator_alone() -> None:
    before = torch.get_rng_state()
    net = nn.Sequential(nn.Linear(4, 4))
    torch.set_rng_state(before)
    convert(net, ratio=0.5, means="draw")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_sigmas_have_the_type_of_the_weights_but_never_half_of_it(dtype: torch.dtype) -> None:
    layer = converted(nn.Linear(3, 2).to(dtype), sigma=0.06, means="draw", noisy_bias=True)
    assert {layer.weight.dtype, layer.bias.dtype} == {dtype}
    wide = torch.float32 if dtype == torch.bfloat16 else dtype  # a half would never move
    sigmas = [p for name, p in layer.named_parameters() if name.startswith("rho")]
    assert [p.dtype for p in sigmas] == [wide, wide]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"ratio": 1.5},
            "`ratio` must lie strictly between 0 and 1, got 1.5. It is the share of the initial "
            "variance given to noise.",
        ),
        ({"ratio": 0.0}, "`ratio` must lie strictly between 0 and 1, got 0.0."),
        ({"ratio": 1.0}, "`ratio` must lie strictly between 0 and 1, got 1.0."),
        ({"ratio": math.nan}, "`ratio` must lie strictly between 0 and 1, got nan."),
        (
            {"sigma": 0.0},
            "`sigma` must be positive and finite, got 0.0. It is the initial standard deviation "
            "of every weight; the paper uses 0.06.",
        ),
        ({"sigma": -0.1}, "`sigma` must be positive and finite, got -0.1."),
        ({"sigma": math.inf}, "`sigma` must be positive and finite, got inf."),
        ({"sigma": math.nan}, "`sigma` must be positive and finite, got nan."),
        (
            {},
            "Give either `sigma` or `ratio`, not both and not neither: got sigma=None, ratio=None.",
        ),
        (
            {"sigma": 0.1, "ratio": 0.5},
            "Give either `sigma` or `ratio`, not both and not neither: got sigma=0.1, ratio=0.5.",
        ),
        (
            {"sigma": 0.1, "means": "zero"},
            "`means` must be one of keep, draw, got 'zero'. `keep` leaves the weights of the "
            "given model, `draw` draws new ones.",
        ),
        (
            {"sigma": 0.1, "sampling": "global"},
            "`sampling` must be one of weight, local, got 'global'. `weight` draws the weights "
            "once per batch, `local` draws each example's outputs.",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(SettingError) as caught:
        converted(nn.Linear(2, 2), **settings)
    assert str(caught.value).startswith(text)
