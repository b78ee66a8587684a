"""UCL in loops of one's own: any precision, any optimiser, micro-batches, clipping.

The recipe for micro-batches: the noise and the loss are each micro-batch's own, the penalty belongs
to the whole step. So each micro-batch adds `(loss + penalty(batch_size=all)) / number of
micro-batches`, or one of them adds `penalty(batch_size=all)` alone, whole.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.paper_ucl import paper_ucl
from uclearn import UCL
from uclearn.errors import TaskError
from uclearn.gaussian import GaussianLayer, Sampling

SAMPLINGS: list[Sampling] = ["weight", "local"]
X = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
Y = (X[:, :3].sum(1) > 0).long()


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))


def second_task(
    sampling: Sampling = "weight", closed_form: bool = False, net: nn.Module | None = None
) -> UCL:
    """A method in the middle of its second task: every term of the penalty is at work."""
    model = mlp() if net is None else net
    example = X[:1] if net is None else PICTURES[:1]
    method = paper_ucl(model, example, beta=0.03, sampling=sampling, closed_form=closed_form)
    shake(method, 0.2)
    method.end_task()
    shake(method, 0.1)
    return method


def shake(method: UCL, size: float) -> None:
    generator = torch.Generator().manual_seed(int(size * 1000))
    with torch.no_grad():
        for p in method.model.parameters():
            p.add_(size * torch.randn(p.shape, generator=generator).to(p))


def loss_of(method: UCL, x: Tensor = X, y: Tensor = Y) -> Tensor:
    return F.cross_entropy(method.model(x), y)


def gradients(method: UCL) -> dict[str, Tensor]:
    return {
        name: parameter.grad.clone()
        for name, parameter in method.model.named_parameters()
        if parameter.grad is not None
    }


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-6)


def whole_batch(method: UCL) -> dict[str, Tensor]:
    """The gradient of one step on all examples at once."""
    method.zero_grad()
    (loss_of(method) + method.penalty(batch_size=len(X))).backward()
    return gradients(method)


# -- micro-batches -----------------------------------------------------------------------------


class SameNoise:
    """Hands out the noise of the whole batch again, the rows of one micro-batch at a time."""

    def __init__(self, drawn: list[Tensor], rows: slice) -> None:
        self.drawn, self.rows = iter(drawn), rows

    def normals(self, shape: tuple[int, ...], *_: object) -> Tensor:
        noise = next(self.drawn)
        noise = noise if noise.shape == shape else noise[self.rows]
        assert noise.shape == shape
        return noise


class Recorder:
    """Remembers the noise it hands out."""

    def __init__(self) -> None:
        self.drawn: list[Tensor] = []

    def normals(self, shape: tuple[int, ...], *_: object) -> Tensor:
        self.drawn.append(torch.randn(shape))
        return self.drawn[-1]


@contextmanager
def noise(method: UCL, source: object) -> Iterator[None]:
    layers = [layer for layer in method.model.modules() if isinstance(layer, GaussianLayer)]
    own = [layer.noise for layer in layers]
    for layer in layers:
        layer.noise = source  # type: ignore[assignment]
    yield
    for layer, noise_of_layer in zip(layers, own, strict=True):
        layer.noise = noise_of_layer


@pytest.mark.parametrize("once", [False, True], ids=["a share in each", "once, whole"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_micro_batches_add_up_to_the_whole_batch(sampling: Sampling, once: bool) -> None:
    method = second_task(sampling)
    recorder = Recorder()
    with noise(method, recorder):
        expected = whole_batch(method)
    method.zero_grad()
    for number in range(3):
        rows = slice(number * 8, (number + 1) * 8)
        with noise(method, SameNoise(recorder.drawn, rows)):
            loss = loss_of(method, X[rows], Y[rows]) / 3
        if not once:
            loss = loss + method.penalty(batch_size=len(X)) / 3
        elif number == 0:
            loss = loss + method.penalty(batch_size=len(X))
        loss.backward()
    assert_close(gradients(method), expected)


def test_with_the_stream_set_back_every_micro_batch_draws_the_same_weights() -> None:
    """What a user can do without touching layers: `noise.state` is the whole state."""
    method = second_task("weight")
    start = method.noise.state
    expected = whole_batch(method)
    method.zero_grad()
    for rows in torch.arange(len(X)).split(8):
        method.noise.state = start
        loss = loss_of(method, X[rows], Y[rows]) + method.penalty(batch_size=len(X))
        (loss / 3).backward()
    assert_close(gradients(method), expected)


def test_the_closed_form_is_added_once_after_the_last_micro_batch() -> None:
    plain, quick = second_task(), second_task(closed_form=True)
    expected = whole_batch(plain)
    start = quick.noise.state
    for rows in torch.arange(len(X)).split(8):
        quick.noise.state = start
        (loss_of(quick, X[rows], Y[rows]) / 3).backward()
    quick.adjust_gradients(batch_size=len(X))
    assert_close(gradients(quick), expected)


# -- precision ---------------------------------------------------------------------------------


def test_autocast_does_not_touch_the_penalty() -> None:
    method = second_task()
    exact = method.penalty(batch_size=8)
    exact.backward()
    expected = gradients(method)
    method.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        penalty = method.penalty(batch_size=8)
    penalty.backward()
    assert penalty.dtype == torch.float32
    assert torch.equal(penalty, exact)
    found = gradients(method)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_under_autocast_gradients_are_right_to_bfloat16(sampling: Sampling) -> None:
    """bfloat16 has 8 bits: with the same noise, gradients agree to a few percent."""
    method = second_task(sampling)
    start = method.noise.state
    expected = whole_batch(method)
    method.zero_grad()
    method.noise.state = start
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = method.model(X)
        loss = F.cross_entropy(output, Y) + method.penalty(batch_size=len(X))
    loss.backward()
    assert output.dtype == torch.bfloat16
    for name, gradient in gradients(method).items():
        assert gradient.dtype == torch.float32
        assert (gradient - expected[name]).norm() < 0.05 * expected[name].norm(), name


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_gradient_scaling_cancels_out(sampling: Sampling) -> None:
    """As a scaler for float16 does: loss and penalty are scaled together, gradients divided."""
    method = second_task(sampling)
    start = method.noise.state
    expected = whole_batch(method)
    method.zero_grad()
    method.noise.state = start
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    scaler.scale(loss_of(method) + method.penalty(batch_size=len(X))).backward()
    scaler.unscale_(optimizer)
    assert_close(gradients(method), expected)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_double_precision_model_stays_in_double_precision(sampling: Sampling) -> None:
    method = paper_ucl(mlp().double(), X[:1].double(), sampling=sampling)
    method.end_task()
    shake(method, 0.1)
    penalty = method.penalty(batch_size=24)
    loss = F.cross_entropy(method.model(X.double()), Y) + penalty
    loss.backward()
    assert penalty.dtype == loss.dtype == torch.float64
    assert all(gradient.dtype == torch.float64 for gradient in gradients(method).values())
    assert all(t.dtype == torch.float64 for n, t in method.state_dict().items() if "held" in n)


# -- clipping and optimisers -------------------------------------------------------------------


def test_clipping_sees_the_penalty_on_both_paths() -> None:
    plain, quick = second_task(), second_task(closed_form=True)
    (loss_of(plain) + plain.penalty(batch_size=1)).backward()
    (loss_of(quick) + quick.penalty(batch_size=1)).backward()
    quick.adjust_gradients(batch_size=1)
    norms = [
        nn.utils.clip_grad_norm_(method.model.parameters(), max_norm=0.5)
        for method in (plain, quick)
    ]
    torch.testing.assert_close(norms[0], norms[1])
    assert norms[0] > 0.5
    assert_close(gradients(quick), gradients(plain))
    clipped = torch.stack([g.norm() for g in gradients(plain).values()]).norm()
    torch.testing.assert_close(clipped, torch.tensor(0.5), rtol=1e-4, atol=0.0)


Optimiser = Callable[[UCL], torch.optim.Optimizer]
OPTIMISERS: dict[str, Optimiser] = {
    "SGD": lambda m: torch.optim.SGD(m.parameter_groups(lr=0.03)),
    "momentum": lambda m: torch.optim.SGD(m.parameter_groups(lr=0.01), momentum=0.9),
    "Adam": lambda m: torch.optim.Adam(m.parameter_groups(lr=0.01)),
    "AdamW": lambda m: torch.optim.AdamW(m.parameter_groups(lr=0.01), weight_decay=0.01),
    # LBFGS knows no groups, so it gets the parameters in one heap
    "LBFGS": lambda m: torch.optim.LBFGS(m.model.parameters(), lr=0.3, max_iter=2),
}


def train(method: UCL, optimizer: torch.optim.Optimizer, penalised: bool, steps: int) -> float:
    """`steps` moves, each on the same noise; the first and last objective's difference."""
    start = method.noise.state

    def closure() -> float:
        method.noise.state = start  # LBFGS compares several looks at one function
        optimizer.zero_grad()
        loss = loss_of(method)
        if penalised:
            loss = loss + method.penalty(batch_size=len(X))
        loss.backward()
        return loss.item()

    first = closure()
    for _ in range(steps):
        optimizer.step(closure)
    return closure() - first


def distance(method: UCL) -> float:
    """How far the means have gone from what the first task left."""
    state = method.state_dict()
    pairs = [("held.0.", "model.0."), ("held.1.", "model.2.")]
    return sum(
        float((state[f"{held}{name}"] - state[f"{live}{name}"]).square().sum())
        for held, live in pairs
        for name in ("weight", "bias")
    )


@pytest.mark.parametrize("make", OPTIMISERS.values(), ids=OPTIMISERS)
def test_every_optimiser_minimises_the_penalised_loss_and_is_held_back(make: Optimiser) -> None:
    method = second_task()
    method.load_state_dict(method.state_dict())
    free = copy.deepcopy(method)
    assert train(method, make(method), penalised=True, steps=30) < 0
    train(free, make(free), penalised=False, steps=30)
    assert distance(method) < 0.9 * distance(free)


def test_weight_decay_leaves_the_uncertainties_alone() -> None:
    """Decay of rho would drive sigma = softplus(rho) towards softplus(0) = 0.69."""
    method = paper_ucl(mlp(), X[:1], beta=0.0)
    before = method.sigmas()
    weight = method.model.get_parameter("0.weight").detach().clone()
    optimizer = torch.optim.AdamW(method.parameter_groups(lr=0.1), weight_decay=0.5)
    method.penalty(batch_size=1).backward()  # zero everywhere: only decay moves anything
    optimizer.step()
    assert not torch.equal(method.model.get_parameter("0.weight"), weight)
    assert all(torch.equal(sigma, before[name]) for name, sigma in method.sigmas().items())


def test_the_uncertainties_have_a_learning_rate_of_their_own() -> None:
    method = paper_ucl(mlp(), X[:1], lr_sigma=0.02)
    means, spreads = method.parameter_groups(lr=0.001)
    assert (means["lr"], spreads["lr"]) == (0.001, 0.02)
    assert [group["lr"] for group in paper_ucl(mlp(), X[:1]).parameter_groups(lr=0.3)] == [0.3, 0.3]
    assert {id(p) for p in spreads["params"]} == {
        id(p) for name, p in method.model.named_parameters() if "rho" in name
    }
    everything = [id(p) for p in means["params"] + spreads["params"]]
    assert sorted(everything) == sorted(id(p) for p in method.model.parameters())


# -- memory formats and checkpointing ----------------------------------------------------------

PICTURES = torch.randn(4, 4, 6, 6, generator=torch.Generator().manual_seed(2))


def conv() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=2), nn.Flatten(), nn.Linear(32, 2)
    )


@pytest.mark.parametrize("closed_form", [False, True])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_channels_last_computes_the_same(sampling: Sampling, closed_form: bool) -> None:
    net = conv()
    results = []
    for form in (torch.contiguous_format, torch.channels_last):
        method = second_task(sampling, closed_form, net)
        method.to(memory_format=form)  # type: ignore[call-overload]
        output = method.model(PICTURES.to(memory_format=form))
        penalty = method.penalty(batch_size=4)
        (output.square().mean() + penalty).backward()
        method.adjust_gradients(batch_size=4)
        results.append((penalty.detach(), output.detach(), gradients(method)))
    weight = method.model.get_parameter("0.weight")
    assert weight.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(results[0][0], results[1][0])
    assert_close(results[1][2], results[0][2])


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_checkpointed_gradients_are_those_of_the_first_pass(sampling: Sampling) -> None:
    """The second pass, during backward, draws the noise of the first, and no draw is lost."""
    method = second_task(sampling)
    start = method.noise.state
    expected, end = whole_batch(method), method.noise.state
    method.zero_grad()
    method.noise.state = start
    output = checkpoint(
        method.model,
        X,
        use_reentrant=False,
        context_fn=method.noise.again,
        preserve_rng_state=False,
    )
    (F.cross_entropy(output, Y) + method.penalty(batch_size=len(X))).backward()
    assert_close(gradients(method), expected)
    assert method.noise.state == end


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_with_other_noise_is_refused(use_reentrant: bool) -> None:
    method = second_task()
    x = X.clone().requires_grad_()
    output = checkpoint(method.model, x, use_reentrant=use_reentrant)
    with pytest.raises(TaskError, match=r"context_fn=method\.noise\.again"):
        F.cross_entropy(output, Y).backward()


def test_after_the_end_of_a_task_a_new_optimiser_starts_from_rest() -> None:
    method = second_task()
    method.end_task()
    assert distance(method) == 0.0
