"""What is learned is noticed, and measured as what it is when a task ends."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from uclearn import UCL
from uclearn.methods.ucl.choice import NoticedChoice
from uclearn.rl.simulators import Spaces
from uclearn.rl.tasks import tasks_of
from uclearn.tasks import Data, Task

Loss = Callable[[Tensor], Tensor]
LABELS = torch.arange(16) % 3
CHOICES: dict[str, Loss] = {
    "cross-entropy": lambda z: F.cross_entropy(z, LABELS),
    "smoothed": lambda z: F.cross_entropy(z, LABELS, label_smoothing=0.1),
    "scaled": lambda z: 2**16 * F.cross_entropy(z, LABELS),
    "distilled": lambda z: F.kl_div(
        z.log_softmax(1), torch.full((16, 3), 1 / 3), reduction="batchmean"
    ),
    "half precision": lambda z: F.cross_entropy(z.bfloat16(), LABELS),
}
TICKS = (torch.arange(48).view(16, 3) % 2).float()
LABELLED: dict[str, Loss] = {
    "several labels at once": lambda z: F.binary_cross_entropy_with_logits(z, TICKS),
    "all of them": lambda z: F.binary_cross_entropy_with_logits(z, torch.ones(16, 3)),
    "one label": lambda z: F.binary_cross_entropy_with_logits(z[:, 0], TICKS[:, 0]),
    "summed and scaled": lambda z: (
        512 * F.binary_cross_entropy_with_logits(z, TICKS, reduction="sum")
    ),
    "rare ones count more": lambda z: F.binary_cross_entropy_with_logits(
        z, TICKS, pos_weight=torch.tensor(5.0)
    ),
    "labels in half precision": lambda z: F.binary_cross_entropy_with_logits(
        z.bfloat16(), TICKS.bfloat16()
    ),
}
NUMBERS: dict[str, Loss] = {
    "squared error": lambda z: F.mse_loss(z, LABELS[:, None].expand(-1, 3).float()),
    "of 0 and 1": lambda z: F.mse_loss(z, TICKS),
    "of chances": lambda z: F.mse_loss(z.sigmoid(), TICKS),
    "one number": lambda z: F.mse_loss(z[:, 0], TICKS[:, 0]),
    "absolute error": lambda z: F.l1_loss(z, torch.ones(16, 3)),
}
KINDS = {"classes": CHOICES, "labels": LABELLED, "numbers": NUMBERS}


def method(seed: int = 0) -> UCL:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    return UCL(net, torch.zeros(1, 4))


def steps(of: UCL, loss: Loss, count: int = 3) -> None:
    optimizer = torch.optim.Adam(of.parameter_groups(lr=1e-2))
    for _ in range(count):
        optimizer.zero_grad()
        (loss(of.model(torch.randn(16, 4))) + of.penalty(batch_size=16)).backward()
        optimizer.step()


@pytest.mark.parametrize(("kind", "name"), [(k, name) for k, own in KINDS.items() for name in own])
def test_gradients_tell_what_is_learned(kind: str, name: str) -> None:
    ours = method()
    steps(ours, KINDS[kind][name])
    assert ours._choice.kind == kind
    assert copy.deepcopy(ours)._choice.kind is None
    ours.end_task()
    assert ours._choice.kind is None


@pytest.mark.parametrize("shape", [(), (1,)], ids=["(batch,)", "(batch, 1)"])
def test_a_single_answer_is_a_label_or_a_number(shape: tuple[int, ...]) -> None:
    """Also in batches of one example, whose gradients alone tell any unit."""
    for kind, loss in (
        ("labels", F.binary_cross_entropy_with_logits),
        ("numbers", F.mse_loss),
    ):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0) if shape == () else nn.Identity())
        noticed = NoticedChoice()
        noticed.listen_to(net)
        for k in range(4):
            loss(net(torch.randn(1, 4)), torch.full((1, *shape), float(k % 2))).backward()
        assert noticed.kind == kind


@pytest.mark.parametrize("nested", [True, False], ids=["nested", "a loss"])
def test_of_answers_that_nobody_understands_nothing_is_measured(nested: bool) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 5)

        def forward(self, x: Tensor) -> Any:
            said = self.inner(x)
            return {"found": {"boxes": said}} if nested else said.square().mean()

    ours = UCL(Odd(), torch.zeros(1, 4), lr_sigma=1e-9)
    optimizer = torch.optim.Adam(ours.parameter_groups(lr=1e-2))
    said = ours.model(torch.randn(16, 4))
    loss = said["found"]["boxes"].square().mean() if nested else said
    (loss + ours.penalty(batch_size=16)).backward()
    optimizer.step()
    ours.end_task()
    for strength in ours.strengths().values():
        torch.testing.assert_close(strength, torch.ones_like(strength))


def test_words_of_a_text_are_choices_behind_logits() -> None:
    class Texts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 5)

        def forward(self, x: Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=self.inner(x))

    noticed, net = NoticedChoice(), Texts()
    noticed.listen_to(net)
    logits = net(torch.randn(6, 7, 4)).logits
    F.cross_entropy(logits.movedim(-1, 1), torch.randint(5, (6, 7))).backward()
    assert noticed.kind == "classes"


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_what_was_noticed_is_measured(kind: str) -> None:
    """Against the gradient of each answer to each example, by autograd: nodes gain 0.3 of what the
    mean loss over answers warrants, of which the information is p (1 - p) for a label and 2 for a
    number. Signs are random, so the mean over examples agrees by and large."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    ours = UCL(net, torch.zeros(1, 4), lr_sigma=1e-9)  # a task too short for sigma
    steps(ours, next(iter(KINDS[kind].values())))
    means, x = ours.export(), torch.randn(4000, 4)
    p = means(x).sigmoid()
    information = p * (1 - p) if kind == "labels" else torch.full_like(p, 2.0)
    slopes = vmap(jacrev(partial(functional_call, means)), (None, 0))(
        dict(means.named_parameters()), x
    )
    ours.parameter_groups(lr=1e-9)  # whose steps would bear any strength
    ours.end_task(inputs=x.split(500))
    for held, name in zip(ours._memory.outputs(), ("0.weight", "2.weight"), strict=True):
        curvature = (information[..., None] * slopes[name].square().sum(-1)).sum(1).mean(0) / 3
        warranted = 0.3 * float(held.initial) ** 2 * 16 * curvature / (2 * ours.beta)
        torch.testing.assert_close(held.strength().square() - 1, warranted, rtol=0.1, atol=0.01)


def test_a_task_of_numbers_is_measured_by_the_sum_of_their_squares_as_its_loss_is() -> None:
    gained = []
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    for task in (None, Task("numbers", 0, Data(x, torch.zeros(64, 3)))):
        ours = method()
        steps(ours, NUMBERS["squared error"])
        ours.parameter_groups(lr=1e-9)  # whose steps would bear any strength
        ours.end_task(task, inputs=[x])
        gained.append(torch.cat([s.square() - 1 for s in ours.strengths().values()]))
    torch.testing.assert_close(gained[1], 3 * gained[0], rtol=1e-3, atol=1e-3)


def test_a_task_knows_whether_it_is_a_choice() -> None:
    x = torch.zeros(4, 2)
    labels, numbers = Data(x, torch.tensor([0, 1, 0, 1])), Data(x, torch.zeros(4, 1))
    assert Task("labels", 0, labels, classes=2).chooses
    assert not Task("numbers", 0, numbers).chooses
    assert not Task("numbers behind a head", 0, numbers, classes=1).chooses
    (acting,) = tasks_of(
        ["walk"], {"walk": Spaces(3, 2, (-1.0, -1.0), (1.0, 1.0))}
    )  # actions are numbers
    assert acting.classes == 2
    assert not acting.chooses


def test_an_exported_network_is_not_listened_to() -> None:
    assert not method().export()._forward_hooks
