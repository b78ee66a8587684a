"""EWC: what it remembers, how tasks are merged, and that it acts."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.permuted_digits import check_it_forgets_less, end, network
from tests.methods.small_tasks import fisher_diagonal
from uclearn import Method
from uclearn.errors import SettingError, TaskError
from uclearn.methods.ewc import EWC, Merge
from uclearn.networks import MultiHead
from uclearn.tasks import Data, Task


def problem(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(30, 6, generator=generator, dtype=torch.double)
    return x, torch.randint(3, (30,), generator=generator)


def wander(method: Method, seed: int) -> None:
    """Move the weights somewhere else, as learning would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in method.model.parameters():
            weight.add_(
                torch.randn(weight.shape, generator=generator, dtype=weight.dtype), alpha=0.3
            )


def fisher_now(method: Method, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    losses = (F.cross_entropy(method.model(x), y, reduction="none") for _ in range(1))
    return fisher_diagonal(method.model, dict(method.model.named_parameters()), losses)


def weights(method: Method) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in method.model.named_parameters()}


def gradient(method: Method) -> dict[str, Tensor]:
    """Of the penalty."""
    named = dict(method.model.named_parameters())
    found = torch.autograd.grad(method.penalty(), list(named.values()), materialize_grads=True)
    return dict(zip(named, found, strict=True))


def importance(method: EWC) -> dict[str, Tensor]:
    return dict(zip(method.memory.names, method.memory.importance.tensors(), strict=True))


def three_tasks(method: EWC) -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]:
    """The Fisher information and the weights at the end of each of three tasks."""
    fishers, ends = [], []
    for task in range(3):
        wander(method, task)
        x, y = problem(task)
        fishers.append(fisher_now(method, x, y))
        ends.append(weights(method))
        end(method, x, y)
    wander(method, 99)
    return fishers, ends


def built(merge: Merge = "mean", **settings: float) -> EWC:
    return EWC(network(0, 6, 5, 3).double(), strength=3.0, merge=merge, **settings)  # type: ignore[arg-type]


def test_the_running_mean_is_the_mean_over_tasks_anchored_at_the_last() -> None:
    method = built("mean")
    fishers, ends = three_tasks(method)
    expected = {name: sum(f[name] for f in fishers) / 3 for name in fishers[0]}
    torch.testing.assert_close(importance(method), expected)
    assert all(
        torch.equal(anchor, ends[-1][name])
        for name, anchor in zip(method.memory.names, method.memory.anchor.tensors(), strict=True)
    )


@pytest.mark.parametrize("gamma", [1.0, 0.6])
def test_the_online_sum_lets_earlier_tasks_fade(gamma: float) -> None:
    method = built("sum", gamma=gamma)
    fishers, _ = three_tasks(method)
    first, second, third = fishers
    expected = {n: gamma**2 * first[n] + gamma * second[n] + third[n] for n in first}
    torch.testing.assert_close(importance(method), expected)


def test_separate_is_the_sum_of_every_task_s_own_penalty() -> None:
    method = built("separate")
    fishers, ends = three_tasks(method)
    named = dict(method.model.named_parameters())
    expected = torch.zeros((), dtype=torch.double)
    for fisher, theta in zip(fishers, ends, strict=True):
        for name, weight in named.items():
            expected = expected + 1.5 * (fisher[name] * (weight - theta[name]).square()).sum()
    torch.testing.assert_close(method.penalty(), expected)
    slopes = torch.autograd.grad(expected, list(named.values()))
    torch.testing.assert_close(list(gradient(method).values()), list(slopes))


@pytest.mark.parametrize("merge", ["mean", "sum", "separate"])
def test_what_is_remembered_does_not_grow_with_tasks(merge: Merge) -> None:
    method = built(merge)
    before = {name: tensor.shape for name, tensor in method.state_dict().items()}
    three_tasks(method)
    assert {name: tensor.shape for name, tensor in method.state_dict().items()} == before


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_right_after_a_task_nothing_pulls(merge: Merge) -> None:
    method = built(merge)
    three_tasks(method)
    end(method, *problem(3))
    assert method.penalty() == 0
    assert not any(slope.any() for slope in gradient(method).values())


def test_before_the_first_task_ends_nothing_pulls() -> None:
    method = built()
    wander(method, 0)
    assert method.penalty() == 0
    assert not any(slope.any() for slope in gradient(method).values())


def test_the_penalty_is_half_lambda_fisher_distance_squared() -> None:
    method = built()
    fishers, ends = three_tasks(method)
    mean = {name: sum(f[name] for f in fishers) / 3 for name in fishers[0]}
    now = weights(method)
    value = sum(float((mean[n] * (now[n] - ends[-1][n]).square()).sum()) for n in now)
    assert method.penalty().item() == pytest.approx(3.0 / 2 * value)


@pytest.mark.parametrize("merge", ["mean", "sum", "separate"])
def test_the_closed_form_moves_the_weights_as_autograd_does(merge: Merge) -> None:
    plain = built(merge)
    closed = EWC(network(0, 6, 5, 3).double(), strength=3.0, merge=merge, closed_form=True)
    for method in (plain, closed):
        three_tasks(method)
        optimizer = torch.optim.SGD(method.parameter_groups(lr=0.05))
        x, y = problem(5)
        for _ in range(5):
            optimizer.zero_grad()
            (F.cross_entropy(method.model(x), y) + method.penalty()).backward()
            method.adjust_gradients()
            optimizer.step()
    torch.testing.assert_close(weights(closed), weights(plain))
    torch.testing.assert_close(closed.penalty(), plain.penalty().detach())
    assert not closed.penalty().requires_grad


def test_the_anchor_is_not_the_weights_themselves() -> None:
    method = built()
    end(method, *problem(0))
    kept = [anchor.clone() for anchor in method.memory.anchor.tensors()]
    wander(method, 0)
    assert all(torch.equal(a, k) for a, k in zip(method.memory.anchor.tensors(), kept, strict=True))
    assert method.penalty() > 0


def test_the_model_that_was_given_stays_as_it_was() -> None:
    net = network(0, 6, 5, 3).double()
    before = copy.deepcopy(net.state_dict())
    method = EWC(net)
    wander(method, 0)
    end(method, *problem(0))
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


@pytest.mark.parametrize("heads", [0, 1])
def test_heads_are_not_held_and_the_trunk_is(heads: int) -> None:
    """Neither one that was there when the method was built nor one that came later."""
    net = MultiHead(nn.Sequential(nn.Linear(6, 5), nn.ReLU()), features=5).double()
    for _ in range(heads):
        net.add_head(3)
    method = EWC(net)
    x, y = problem(0)
    task = Task("first", 0, Data(x, y), classes=3)
    method.begin_task(task)

    def losses() -> Iterator[Tensor]:
        yield F.cross_entropy(method.model(x, task=0), y, reduction="none")

    method.end_task(task, losses)
    wander(method, 0)
    slopes = gradient(method)
    assert all(slope.any() == (not name.startswith("heads")) for name, slope in slopes.items())
    assert all(name.startswith("trunk") for name in method.memory.names)


def test_modules_named_plain_are_not_held() -> None:
    method = EWC(network(0, 6, 5, 3).double(), plain=["2"])
    assert method.memory.names == ("0.weight", "0.bias")


def test_the_fisher_is_measured_without_dropout_and_modes_come_back() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.ReLU(), nn.Linear(5, 3)).double()
    method = EWC(net)
    x, y = problem(0)
    end(method, x, y)
    assert all(module.training for module in method.model.modules())
    without = network(0, 6, 5, 3).double()
    without.load_state_dict(
        {
            "0.weight": net[0].weight,
            "0.bias": net[0].bias,
            "2.weight": net[3].weight,
            "2.bias": net[3].bias,
        }
    )
    losses = (F.cross_entropy(without(x), y, reduction="none") for _ in range(1))
    expected = fisher_diagonal(without, dict(without.named_parameters()), losses)
    torch.testing.assert_close(list(importance(method).values()), list(expected.values()))


def test_frozen_weights_are_left_alone() -> None:
    net = network(0, 6, 5, 3).double()
    method = EWC(net, closed_form=True)
    end(method, *problem(0))
    wander(method, 0)
    method.model.get_submodule("0").requires_grad_(False)
    method.adjust_gradients()
    slopes = {name: p.grad for name, p in method.model.named_parameters()}
    assert {name for name, slope in slopes.items() if slope is None} == {"0.weight", "0.bias"}
    assert slopes["2.weight"] is not None
    assert slopes["2.weight"].any()


@pytest.mark.parametrize("merge", ["mean", "sum", "separate"])
def test_save_and_load_restore_everything_bit_for_bit(merge: Merge) -> None:
    method = built(merge)
    three_tasks(method)
    other = EWC(network(7, 6, 5, 3).double(), strength=3.0, merge=merge)
    other.load_state_dict(method.state_dict())
    assert torch.equal(other.penalty(), method.penalty())
    for m in (method, other):  # and what follows is the same, too
        end(m, *problem(4))
        wander(m, 4)
    states = method.state_dict(), other.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert torch.equal(other.penalty(), method.penalty())


def test_the_batch_fisher_is_what_the_setting_says() -> None:
    method = EWC(network(0, 6, 5, 3).double(), fisher_batch=20)
    x, y = problem(0)
    parameters = dict(method.model.named_parameters())
    expected = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for rows in (slice(0, 20), slice(20, 30)):
        loss = F.cross_entropy(method.model(x[rows]), y[rows])
        for name, slope in zip(
            parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True
        ):
            expected[name] += (rows.stop - rows.start) * slope.square() / 30
    end(method, x, y)
    torch.testing.assert_close(importance(method), expected)


@pytest.mark.parametrize("on", [False, True])
def test_dropout_counts_only_if_asked_for(on: bool) -> None:
    x, y = problem(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3)).double()
    method = EWC(net, fisher_dropout=on)
    seen: list[bool] = []

    def losses() -> Iterator[Tensor]:
        seen.extend(module.training for module in method.model.modules())
        yield F.cross_entropy(method.model(x), y, reduction="none")

    method.train()
    method.end_task(losses=losses)
    assert seen == [False, False, on, False]  # the container, and each layer
    assert all(module.training for module in method.model.modules())
    fixed = all(
        torch.equal(found, fisher_in_evaluation(method, x, y)[name])
        for name, found in importance(method).items()
    )
    assert fixed is not on


def fisher_in_evaluation(method: Method, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    method.model.eval()
    return fisher_now(method, x, y)


@pytest.mark.slow
def test_it_forgets_less_than_fine_tuning() -> None:
    check_it_forgets_less(lambda net: EWC(net, strength=30.0))


@pytest.mark.slow
def test_the_authors_fisher_forgets_less_too() -> None:
    check_it_forgets_less(lambda net: EWC(net, strength=600.0, fisher_batch=20, closed_form=True))


# -- what is refused ---------------------------------------------------------------------------


def test_without_losses_the_task_cannot_end() -> None:
    with pytest.raises(TaskError, match="EWC measures importance by the finished task's losses"):
        built().end_task()


def test_losses_that_are_not_finite_change_nothing() -> None:
    method = built()
    three_tasks(method)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    x, y = problem(0)
    with pytest.raises(TaskError, match="the Fisher information gave an importance that is not"):
        end(method, x * torch.inf, y)
    assert all(torch.equal(before[name], t) for name, t in method.state_dict().items())


def test_weights_that_are_not_finite_change_nothing() -> None:
    method = built()
    method.model.get_parameter("0.bias").data[0] = torch.nan
    with pytest.raises(TaskError, match=re.escape("these parameters are not finite: 0.bias. The")):
        end(method, *problem(0))


def test_parameters_that_were_not_there_to_be_held_are_named() -> None:
    net = network(0, 6, 5, 3).double()
    net[0].requires_grad_(False)
    method = EWC(net)
    method.model.get_submodule("0").requires_grad_(True)
    with pytest.raises(TaskError, match=re.escape("are not held: 0.weight, 0.bias. Build")):
        end(method, *problem(0))


def test_a_layer_that_was_exchanged_is_noticed() -> None:
    method = built()
    method.model.set_submodule("0", nn.Linear(6, 7))
    with pytest.raises(TaskError, match=re.escape("The parameter 0.weight has shape (7, 6), but")):
        method.penalty()
    method.model.set_submodule("0", nn.ReLU())
    with pytest.raises(TaskError, match=re.escape("The parameter 0.weight is no longer there")):
        method.penalty()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strength": -1.0}, "`strength` must be 0 or greater and finite, got -1.0. It is lambda"),
        ({"merge": "max"}, "`merge` must be one of mean, sum, separate, got 'max'."),
        ({"gamma": 1.5, "merge": "sum"}, "`gamma` must lie between 0 and 1, got 1.5."),
        ({"gamma": 0.5}, "`gamma` must be 1 unless `merge` is 'sum', got 0.5 with 'mean'."),
        ({"fisher_batch": 0}, "`fisher_batch` must be at least 1, got 0."),
        ({"plain": ["head"]}, "`plain` must name modules of the model, got 'head'. Its modules"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        EWC(network(0, 6, 5, 3), **settings)  # type: ignore[arg-type]


def test_a_network_with_nothing_to_hold() -> None:
    with pytest.raises(SettingError, match="must have trainable parameters that all tasks share"):
        EWC(MultiHead(nn.Flatten(), features=4))
