"""Only a choice among classes is measured as one when a task ends."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

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
NUMBERS: dict[str, Loss] = {
    "squared error": lambda z: F.mse_loss(z, LABELS[:, None].expand(-1, 3).float()),
    "absolute error": lambda z: F.l1_loss(z, torch.ones(16, 3)),
    "several labels at once": lambda z: F.binary_cross_entropy_with_logits(z, torch.ones(16, 3)),
}


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


@pytest.mark.parametrize("name", [*CHOICES, *NUMBERS])
def test_gradients_tell_a_choice_from_numbers(name: str) -> None:
    ours = method()
    steps(ours, {**CHOICES, **NUMBERS}[name])
    assert ours._choice.chooses is (name in CHOICES)
    assert copy.deepcopy(ours)._choice.chooses is None
    ours.end_task()
    assert ours._choice.chooses is None


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
    assert noticed.chooses is True


def measured_in(of: UCL) -> bool:
    """Whether the end of a task made nodes more certain than they had learned to be."""
    before = of.sigmas()
    of.end_task()
    return any(not torch.equal(before[name], sigma) for name, sigma in of.sigmas().items())


def test_numbers_are_not_measured_as_if_they_were_logits() -> None:
    ours, other = method(), method()
    steps(ours, CHOICES["cross-entropy"])
    assert measured_in(ours)
    steps(other, NUMBERS["squared error"])
    assert not measured_in(other)


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
