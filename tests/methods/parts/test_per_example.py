"""The vectorised diagonal against one backward pass per example."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.small_tasks import fisher_diagonal
from uclearn.errors import TaskError
from uclearn.methods.parts import per_example
from uclearn.methods.parts.layer_gradients import LayerUses
from uclearn.methods.parts.per_example import importance
from uclearn.networks import MultiHead

EXAMPLES = 11

Losses = Callable[[slice], Tensor]
"""The losses of those examples, (batch,)."""


def diagonal_by_loop(
    model: nn.Module,
    losses: Losses,
    group: int = 1,
    function: Callable[[Tensor], Tensor] = torch.square,
) -> dict[str, Tensor]:
    """sum over groups of n f(mean gradient) / examples, one backward pass per group."""
    parameters = dict(model.named_parameters())
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for start in range(0, EXAMPLES, group):
        size = min(group, EXAMPLES - start)
        mean = losses(slice(start, start + size)).mean()
        gradients = torch.autograd.grad(mean, list(parameters.values()), materialize_grads=True)
        for name, gradient in zip(parameters, gradients, strict=True):
            total[name] += size * function(gradient) / EXAMPLES
    return total


def in_batches(losses: Losses, size: int) -> Iterator[Tensor]:
    for start in range(0, EXAMPLES, size):
        yield losses(slice(start, min(start + size, EXAMPLES)))


def classify(model: nn.Module, inputs: Tensor) -> Losses:
    targets = torch.arange(EXAMPLES) % 3

    def losses(chosen: slice) -> Tensor:
        return F.cross_entropy(model(inputs[chosen]), targets[chosen], reduction="none")

    return losses


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).mean(2)


class Twice(nn.Module):
    """One layer used twice, in a row and with a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.layer(x))
        output: Tensor = self.out(hidden + torch.tanh(self.layer(hidden)))
        return output


class Tied(nn.Module):
    """Two layers share their weights; a third use is not a layer at all."""

    def __init__(self, functional: bool) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.second.weight = self.first.weight
        self.functional = functional

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.second(torch.tanh(self.first(x)))
        if self.functional:
            hidden = F.linear(torch.tanh(hidden), self.first.weight)
        output: Tensor = self.out(hidden)
        return output


class Bare(nn.Module):
    """Parameters that belong to no layer, one of them a single number."""

    def __init__(self) -> None:
        super().__init__()
        self.shift, self.scale = nn.Parameter(torch.randn(5)), nn.Parameter(torch.tensor(0.7))
        self.out = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.out(torch.tanh(x * self.scale + self.shift))
        return output


class Scaled(nn.Linear):
    """A subclass that does not do what its parent does."""

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight.square(), self.bias)


class Words(nn.Module):
    """Embedding with padding, positions, layer norm, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 6, padding_idx=0)
        self.norm, self.root = nn.LayerNorm(6), nn.RMSNorm(6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.mix, self.out = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.norm(self.words(x))
        looked, _ = self.attention(seen, seen, seen, need_weights=False)
        output: Tensor = self.out(self.root(seen + torch.relu(self.mix(looked))).mean(1))
        return output


class Folded(nn.Module):
    """Positions are folded into the rows, before (rows of an example apart) or after them."""

    def __init__(self, apart: bool) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(4, 5), nn.Linear(5, 3)
        self.apart = apart

    def forward(self, x: Tensor) -> Tensor:
        if self.apart:
            x = x.transpose(0, 1)
        rows = torch.tanh(self.inner(x.reshape(-1, 4))).view(*x.shape[:2], 5)
        output: Tensor = self.out(rows.sum(0 if self.apart else 1))
        return output


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRU(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.out(self.cell(x)[0][:, -1])
        return output


def normed_weights() -> nn.Module:
    return nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)), nn.Tanh(), nn.Linear(4, 3)
    )


class Centred(nn.Module):
    """Examples influence each other: each is seen relative to the batch's mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        output: Tensor = self.out(torch.tanh(hidden - hidden.mean(0)))
        return output


def cnn() -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), groups=2),
        nn.BatchNorm2d(6),
        nn.ReLU(inplace=True),
        nn.Conv2d(6, 6, 3, padding="same", dilation=2, padding_mode="circular"),
        nn.GroupNorm(3, 6),
        nn.ReLU(inplace=True),
        nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
        nn.Tanh(),
        Mean(),
        nn.Linear(4, 3),
    )
    net.get_buffer("1.running_mean").normal_()
    net.get_buffer("1.running_var").uniform_(0.5, 2)
    nn.init.normal_(net.get_parameter("1.weight"))
    return net


def repadded() -> nn.Module:
    """A padding that was set after the layer was made."""
    net = nn.Sequential(
        nn.Conv2d(4, 6, 3, padding=2), nn.Tanh(), nn.Conv2d(6, 6, 3), Mean(), nn.Linear(6, 3)
    )
    net[0].padding, net[2].padding = (0, 1), "same"  # type: ignore[assignment]
    return net


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (
        lambda: nn.Sequential(
            nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6, bias=False), nn.Tanh(), nn.Linear(6, 3)
        ),
        (5,),
    ),
    "cnn": (cnn, (4, 7, 6)),
    "padding set later": (repadded, (4, 7, 6)),
    "convolution of a line": (
        lambda: nn.Sequential(
            nn.Conv1d(2, 4, 3, stride=2, dilation=2, padding=1),
            nn.BatchNorm1d(4),
            nn.Tanh(),
            Mean(),
            nn.Linear(4, 3),
        ),
        (2, 9),
    ),
    "convolution of a room": (
        lambda: nn.Sequential(
            nn.Conv3d(2, 4, (2, 1, 3), groups=2),
            nn.Tanh(),
            nn.ConvTranspose3d(4, 3, 2, dilation=2),
            nn.Tanh(),
            Mean(),
        ),
        (2, 4, 3, 5),
    ),
    "flat batch norm": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3)),
        (5,),
    ),
    "layer used twice": (Twice, (5,)),
    "shared weights": (lambda: Tied(functional=False), (5,)),
    "shared with an operation": (lambda: Tied(functional=True), (5,)),
    "bare parameters": (Bare, (5,)),
    "subclass of a layer": (lambda: nn.Sequential(Scaled(5, 4), nn.Tanh(), nn.Linear(4, 3)), (5,)),
    "recurrence": (Recurrent, (3, 4)),
    "weights computed from parameters": (normed_weights, (5,)),
    "positions after the batch": (lambda: Folded(apart=False), (6, 4)),
    "positions before the batch": (lambda: Folded(apart=True), (6, 4)),
    "as many positions as examples": (lambda: Folded(apart=True), (EXAMPLES, 4)),
}


def built(case: str) -> tuple[nn.Module, Losses]:
    make, shape = CASES[case]
    model = make().double().eval()
    return model, classify(model, torch.randn(EXAMPLES, *shape, dtype=torch.double))


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-9, atol=1e-14, msg=name)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [EXAMPLES, 4])
def test_the_exact_diagonal_is_that_of_the_loop(case: str, size: int) -> None:
    model, losses = built(case)
    found = fisher_diagonal(model, dict(model.named_parameters()), in_batches(losses, size))
    same(found, diagonal_by_loop(model, losses))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [EXAMPLES, 4, 2])
def test_means_of_batches_are_squared_whatever_batches_the_losses_come_in(
    case: str, size: int
) -> None:
    """Groups of 3 of 11 examples, out of batches of 11, 4 or 2; the last group is smaller."""
    model, losses = built(case)
    parameters = dict(model.named_parameters())
    found = fisher_diagonal(model, parameters, in_batches(losses, size), fisher_batch=3)
    same(found, diagonal_by_loop(model, losses, group=3))


def test_words_positions_and_attention() -> None:
    model = Words().double().eval()
    losses = classify(model, torch.randint(0, 7, (EXAMPLES, 5)))
    found = fisher_diagonal(model, dict(model.named_parameters()), in_batches(losses, 4))
    same(found, diagonal_by_loop(model, losses))
    assert not found["words.weight"][0].any()  # padding


def test_examples_that_influence_each_other_are_told_apart() -> None:
    """The mean of the batch is part of the model: only the whole batch at once is comparable."""
    model = Centred().double()
    inputs = torch.randn(EXAMPLES, 5, dtype=torch.double)
    all_losses = classify(model, inputs)(slice(0, EXAMPLES))
    parameters = dict(model.named_parameters())
    expected = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for loss in all_losses:
        gradients = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
        for name, gradient in zip(parameters, gradients, strict=True):
            expected[name] += gradient.square() / EXAMPLES
    whole = (classify(model, inputs)(slice(0, EXAMPLES)) for _ in range(1))
    same(fisher_diagonal(model, parameters, whole), expected)


def test_batch_norm_with_the_statistics_of_the_batch() -> None:
    model = nn.Sequential(
        nn.Linear(5, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Tanh(), nn.Linear(4, 3)
    ).double()
    inputs = torch.randn(EXAMPLES, 5, dtype=torch.double)
    parameters = dict(model.named_parameters())
    expected = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for loss in classify(model, inputs)(slice(0, EXAMPLES)):
        gradients = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
        for name, gradient in zip(parameters, gradients, strict=True):
            expected[name] += gradient.square() / EXAMPLES
    whole = (classify(model, inputs)(slice(0, EXAMPLES)) for _ in range(1))
    same(fisher_diagonal(model, parameters, whole), expected)


def test_only_the_head_in_use_counts() -> None:
    model = MultiHead(nn.Sequential(nn.Linear(5, 4), nn.ReLU()), features=4).double()
    model.add_head(3), model.add_head(3)
    inputs, targets = torch.randn(EXAMPLES, 5, dtype=torch.double), torch.arange(EXAMPLES) % 3

    def losses(chosen: slice) -> Tensor:
        return F.cross_entropy(model(inputs[chosen], task=1), targets[chosen], reduction="none")

    found = fisher_diagonal(model, dict(model.named_parameters()), in_batches(losses, 4))
    same(found, diagonal_by_loop(model, losses))
    assert not found["heads.0.weight"].any()
    assert found["heads.1.weight"].all()


def test_a_head_in_use_for_part_of_the_batches_keeps_groups_right() -> None:
    """A parameter that some batches do not use still has its groups completed by them."""
    model = MultiHead(nn.Sequential(nn.Linear(5, 4), nn.Tanh()), features=4).double()
    model.add_head(3), model.add_head(3)
    inputs, targets = torch.randn(EXAMPLES, 5, dtype=torch.double), torch.arange(EXAMPLES) % 3
    tasks = torch.arange(EXAMPLES) // 4 % 2  # four of one, four of the other, three of the first

    def losses(chosen: slice) -> Tensor:
        outputs = model(inputs[chosen], task=tasks[chosen])
        return F.cross_entropy(outputs, targets[chosen], reduction="none")

    found = fisher_diagonal(
        model, dict(model.named_parameters()), in_batches(losses, 4), fisher_batch=3
    )
    same(found, diagonal_by_loop(model, losses, group=3))


@pytest.mark.parametrize("case", ["mlp", "cnn", "layer used twice", "bare parameters"])
@pytest.mark.parametrize("group", [1, 3])
def test_absolute_gradients_too(case: str, group: int) -> None:
    model, losses = built(case)
    found = importance(model, list(model.parameters()), in_batches(losses, 4), "absolute", group)
    expected = diagonal_by_loop(model, losses, group, torch.abs)
    same(dict(zip(expected, found, strict=True)), expected)


def test_whole_batches_as_groups() -> None:
    model, losses = built("cnn")
    found = importance(model, list(model.parameters()), in_batches(losses, 4), "absolute", None)
    expected = diagonal_by_loop(model, losses, 4, torch.abs)
    same(dict(zip(expected, found, strict=True)), expected)


def test_little_at_a_time_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, losses = built("cnn")
    parameters = dict(model.named_parameters())
    at_once = fisher_diagonal(model, parameters, in_batches(losses, EXAMPLES))
    monkeypatch.setattr(per_example, "BUDGET", 1)
    monkeypatch.setattr(per_example, "PASSES", 2)
    same(fisher_diagonal(model, parameters, in_batches(losses, EXAMPLES)), at_once)


@pytest.mark.parametrize(
    ("case", "slow"),
    [
        ("mlp", []),
        ("cnn", []),
        ("layer used twice", []),
        ("shared weights", []),
        ("positions after the batch", []),
        ("shared with an operation", ["first.weight"]),
        ("bare parameters", ["shift", "scale"]),
        ("subclass of a layer", ["0.weight", "0.bias"]),
        ("as many positions as examples", ["inner.weight", "inner.bias"]),
    ],
)
def test_the_rules_cover_what_they_can_and_nothing_else(case: str, slow: list[str]) -> None:
    model, losses = built(case)
    names = [name for name, _ in model.named_parameters()]
    with LayerUses(model, list(model.parameters())) as uses:
        parts = uses.parts(losses(slice(0, EXAMPLES)))
    assert [name for name, part in zip(names, parts, strict=True) if part is None] == slow


def test_nothing_is_left_behind() -> None:
    model, losses = built("mlp")
    fisher_diagonal(model, dict(model.named_parameters()), in_batches(losses, 4))
    assert not any(module._forward_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_losses_made_beforehand_are_measured_too() -> None:
    """Nobody was watching when they were made: slower, and as exact."""
    model, losses = built("mlp")
    found = fisher_diagonal(model, dict(model.named_parameters()), list(in_batches(losses, 4)))
    same(found, diagonal_by_loop(model, losses))


def test_a_mean_loss_is_refused() -> None:
    model, losses = built("mlp")
    message = "`losses` must yield one loss per example, shape (batch,), got shape (). Use red"
    with pytest.raises(TaskError, match=re.escape(message)):
        fisher_diagonal(model, {}, [losses(slice(0, 3)).mean()])


def test_losses_without_a_graph_are_refused() -> None:
    model, _ = built("mlp")
    with pytest.raises(TaskError, match=re.escape("Compute them outside torch.no_grad().")):
        fisher_diagonal(model, {}, [torch.zeros(3)])


def test_no_losses_at_all_are_refused() -> None:
    model, _ = built("mlp")
    with pytest.raises(TaskError, match="must yield at least one batch of the finished task"):
        fisher_diagonal(model, dict(model.named_parameters()), [])


def test_a_loop_over_many_examples_is_told() -> None:
    net, x = nn.Linear(2, 1), torch.randn(1100, 2)
    computed = [net(x)[:, 0]]  # before anybody could look at the layers
    with pytest.warns(UserWarning, match="For 2 of 2 parameters there is no closed rule"):
        slow = importance(net, list(net.parameters()), computed, "square")
    quick = importance(net, list(net.parameters()), (net(x)[:, 0] for _ in range(1)), "square")
    assert all(map(torch.allclose, slow, quick))
