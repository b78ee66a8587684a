"""Strengths by rule: undoing a task costs a given price, whatever importances are measured in."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.permuted_digits import after_two_tasks, finetuned, network
from uclearn import Learner
from uclearn.errors import SettingError
from uclearn.live.folder import FORMAT, state_of
from uclearn.methods.contract import Method
from uclearn.methods.ewc import EWC
from uclearn.methods.mas import MAS
from uclearn.methods.parts.anchors import AnchoredMethod
from uclearn.methods.parts.surprise import Kind, surprise
from uclearn.methods.rwalk import RWalk
from uclearn.methods.si import SI
from uclearn.networks import mlp
from uclearn.storage.checkpoint import CHECKPOINT_NAME, save
from uclearn.tasks import Data, Task

FOUR = [EWC, SI, MAS, RWalk]


def data(seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(24, 6, generator=draw).double(), torch.randint(0, 3, (24,), generator=draw)


def learn(method: Method, seed: int, scale: float = 1.0, copies: int = 1) -> None:
    """A few steps, the same however the loss is scaled, and the end of the task."""
    x, y = data(seed)
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    for _ in range(5):
        loss = F.cross_entropy(method.model(x), y)
        optimizer.zero_grad()
        loss.backward()
        method.adjust_gradients()
        optimizer.step()
        method.end_step()

    def losses() -> Iterator[Tensor]:
        for _ in range(copies):
            yield scale * F.cross_entropy(method.model(x), y, reduction="none")

    method.end_task(losses=losses, inputs=[x] * copies)


def wandered(method: Method) -> float:
    """The penalty a little way off."""
    draw = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=0.1)
    return float(method.penalty().detach())


@pytest.mark.parametrize("make", FOUR)
def test_to_undo_a_task_costs_the_price(make: Callable[..., AnchoredMethod]) -> None:
    """The penalty right where the first task began."""
    method = make(network(0, 6, 5, 3).double())
    began = [parameter.detach().clone() for parameter in method.model.parameters()]
    assert method.pull == 0
    learn(method, 0)
    assert float(method.penalty().detach()) == 0
    with torch.no_grad():
        for parameter, before in zip(method.model.parameters(), began, strict=True):
            parameter.copy_(before)
    assert float(method.penalty().detach()) == pytest.approx(method.price)


def test_of_several_tasks_it_is_the_mean() -> None:
    """price / mean over tasks of 1/2 sum F_t D_t^2, with every F_t and D_t by hand."""
    method = EWC(network(0, 6, 5, 3).double(), merge="sum", closed_form=True)
    costs = []
    for seed in range(3):
        before = [anchor.clone() for anchor in method.memory.anchor.tensors()]
        known = [importance.clone() for importance in method.memory.importance.tensors()]
        learn(method, seed)
        now = zip(
            before, known, method.memory.importance.tensors(), method.memory.weights(), strict=True
        )
        cost = sum(float(((f - old) * (w.detach() - a).square()).sum()) / 2 for a, old, f, w in now)
        costs.append(cost)
        assert method.pull == pytest.approx(method.price * len(costs) / sum(costs))


def test_the_scale_of_losses_and_copies_of_the_data_do_not_matter() -> None:
    plain, scaled, copied = (EWC(network(0, 6, 5, 3).double()) for _ in range(3))
    learn(plain, 0)
    learn(scaled, 0, scale=7.0)
    learn(copied, 0, copies=3)
    expected = wandered(plain)
    assert expected > 0
    assert wandered(scaled) == pytest.approx(expected)
    assert wandered(copied) == pytest.approx(expected)


def test_mean_and_sum_are_the_same_by_rule() -> None:
    mean, total = (EWC(network(0, 6, 5, 3).double(), merge=m) for m in ("mean", "sum"))
    for seed in range(2):
        learn(mean, seed)
        learn(total, seed)
    assert wandered(mean) == pytest.approx(wandered(total))


@pytest.mark.parametrize("make", FOUR)
def test_the_state_brings_the_strength_along(make: Callable[..., AnchoredMethod]) -> None:
    method, other = (make(network(seed, 6, 5, 3).double()) for seed in range(2))
    learn(method, 0)
    other.load_state_dict(method.state_dict())
    assert other.pull == method.pull > 0
    assert "ways" not in make(network(0, 6, 3), strength=1.0).state_dict()  # as it always was


def test_what_a_network_came_with_is_measured_from_zero() -> None:
    net = nn.Linear(1, 1, bias=False)
    nn.init.constant_(net.weight, 3.0)
    method = EWC(net)
    method.end_task(losses=lambda: iter([2 * method.model(torch.ones(4, 1))[:, 0]]))
    assert method.pull == pytest.approx(method.price / (4 * 3**2 / 2))  # F = 2^2


def test_a_word_other_than_auto_is_refused() -> None:
    with pytest.raises(SettingError, match="`strength` must be a number or 'auto', got 'strong'"):
        EWC(nn.Linear(2, 1), strength="strong")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["classes", "labels", "numbers"])
@pytest.mark.parametrize("own", [True, False], ids=["signs of its own", "drawn"])
def test_the_surprise_has_the_true_fisher_as_its_mean_square(kind: Kind, own: bool) -> None:
    """diag(p) - p p^T of logits, diag(p (1 - p)) / 3 of the mean over three labels, 2 I of
    numbers. Signs of their own are as good as drawn ones: outputs that differ by little have
    others."""
    draw = torch.Generator().manual_seed(0)
    outputs = torch.tensor([[2.0, 0.0, -1.0]]).repeat(200_000, 1)
    outputs = (outputs + 0.1 * torch.randn(outputs.shape, generator=draw)).requires_grad_()
    told = surprise(outputs, kind, None if own else draw)
    (v,) = torch.autograd.grad(told.sum(), outputs)
    p, q = outputs.detach().softmax(1), outputs.detach().sigmoid()
    expected = {
        "classes": torch.diag(p.mean(0)) - p.T @ p / len(p),
        "labels": torch.diag((q * (1 - q)).mean(0)) / 3,
        "numbers": 2 * torch.eye(3),
    }[kind]
    torch.testing.assert_close(v.T @ v / len(v), expected, atol=0.03, rtol=0)


def test_the_true_fisher_asks_no_labels_and_the_empirical_one_does() -> None:
    def importance(seed_of_labels: int, **settings: object) -> Tensor:
        method = EWC(network(0, 6, 5, 3).double(), **settings)  # type: ignore[arg-type]
        (x, _), (_, y) = data(0), data(seed_of_labels)
        losses = F.cross_entropy(method.model(x), y, reduction="none")
        method.end_task(Task("first", 0, Data(x, y), classes=3), lambda: iter([losses]))
        return method.memory.importance.tensors()[0]

    assert torch.equal(importance(0), importance(1))
    assert torch.equal(importance(0), importance(0, strength=3.0, fisher="true"))
    for settings in ({"strength": 3.0}, {"fisher": "empirical"}):
        assert not torch.equal(importance(0, **settings), importance(1, **settings))


@pytest.mark.slow
@pytest.mark.parametrize("make", FOUR)
def test_by_rule_it_forgets_less_than_fine_tuning(make: Callable[..., AnchoredMethod]) -> None:
    """By 8 points on average and 3 with every seed; and it still learns."""
    gains = []
    for seed in range(3):
        first, second = after_two_tasks(make(network(seed, 64, 64, 10)), seed)
        gains.append(first - finetuned(seed)[0])
        assert second > 0.8
    assert min(gains) > 0.03
    assert sum(gains) / len(gains) > 0.08


def test_a_learner_from_before_the_rule_goes_on_as_it_began(tmp_path: Path) -> None:
    x, y = data(0)
    learner = Learner(mlp(6, (5,), 3), "ewc", strength=30.0)
    learner.learn((x.float(), y), "first")
    learner.save(tmp_path)
    state = state_of(learner)
    state["version"] = 1
    state["settings"] = {}  # 30 was the default
    save(tmp_path / CHECKPOINT_NAME, state, FORMAT)
    assert Learner.load(tmp_path).method.strength == 30.0
