"""VCL: the loss of the paper, the start, what is remembered, and that it acts."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from tests.methods.small_tasks import (
    adam,
    digit_pairs,
    forgetting,
    learn,
    mlp,
    permuted_digits,
    predict,
)
from uclearn.errors import SettingError, TaskError
from uclearn.methods.baselines import FineTuning
from uclearn.methods.contract import Method, Step
from uclearn.methods.parts.fit import fit, mean_loss
from uclearn.methods.vcl import VCL
from uclearn.methods.vcl.mean_field import MeanFieldLayer
from uclearn.networks import MultiHead, answer
from uclearn.tasks import Data, Task, iterate

STEP = Step(batch_size=8, examples=240)


def shaken(method: VCL, size: float = 0.3) -> VCL:
    """The method after all its parameters moved."""
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(size * torch.randn_like(parameter))
    return method


def second_task(closed_form: bool = False) -> VCL:
    method = shaken(VCL(mlp(8), samples=3, closed_form=closed_form))
    first, second = digit_pairs(2)
    method.begin_task(first)
    shaken(method).end_task()
    method.begin_task(second)
    return shaken(method)


def divergence(method: VCL) -> Tensor:
    """KL( q || q' ) by torch.distributions, over all layers and heads."""
    total = torch.zeros(())
    for layer in method.model.modules():
        if isinstance(layer, MeanFieldLayer):
            for mean, log_variance, prior, prior_log_variance in layer.posteriors():
                now = Normal(mean, (log_variance / 2).exp())
                before = Normal(prior, (prior_log_variance / 2).exp())
                total = total + kl_divergence(now, before).sum()
    return total


# -- the penalty -------------------------------------------------------------------------------


@pytest.mark.parametrize("closed_form", [False, True])
def test_the_penalty_is_the_divergence_from_the_previous_posterior_by_example(
    closed_form: bool,
) -> None:
    method = second_task(closed_form)
    parameters = [p for p in method.parameters() if p.requires_grad]
    expected = divergence(method) / 240
    gradients = torch.autograd.grad(expected, parameters)
    penalty = method.penalty(STEP)
    torch.testing.assert_close(penalty.detach(), expected.detach())
    assert penalty.requires_grad is not closed_form
    if not closed_form:
        penalty.backward()
    method.adjust_gradients(STEP)
    for parameter, theirs in zip(parameters, gradients, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, theirs)


def test_before_the_first_task_the_prior_is_standard_normal() -> None:
    method = VCL(mlp(8, heads=False), initial_log_variance=-4.0)
    total = torch.zeros(())
    for name, parameter in method.model.named_parameters():
        if not name.endswith("log_variance"):
            spread = torch.full_like(parameter, torch.tensor(-2.0).exp().item())
            total = total + kl_divergence(Normal(parameter, spread), Normal(0.0, 1.0)).sum()
    torch.testing.assert_close(method.penalty(examples=50), total / 50)


def test_right_after_a_task_nothing_pulls() -> None:
    method = second_task()
    method.end_task()
    penalty = method.penalty(STEP)
    penalty.backward()
    assert penalty.item() == 0.0
    for parameter in method.parameters():
        assert parameter.grad is None or parameter.grad.count_nonzero() == 0


def test_what_is_remembered_does_not_follow_the_weights() -> None:
    method = second_task()
    method.end_task()
    kept = {name: buffer.clone() for name, buffer in method.named_buffers()}
    shaken(method)
    assert all(torch.equal(buffer, kept[name]) for name, buffer in method.named_buffers())
    assert method.penalty(STEP).item() > 0


def test_four_numbers_per_weight() -> None:
    """Permuted MNIST, 784-400-400-10: 4 * 478,410; the paper's table says 1914K."""
    net = nn.Sequential(
        nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10)
    )
    method = VCL(net)
    parameters = sum(p.numel() for p in method.parameters())
    buffers = sum(b.numel() for b in method.model.buffers())
    assert parameters + buffers == 4 * 478_410


# -- the loss ----------------------------------------------------------------------------------


def test_the_gradient_of_the_whole_loss_is_that_of_a_loop_over_draws() -> None:
    """The same noise, one draw at a time."""
    method = second_task().double()
    slow = copy.deepcopy(method)
    slow.draws.samples = 1
    x, y, _ = digit_pairs(2)[1].train.batch(torch.arange(8))
    given: dict[str, Tensor] = {}

    def draw(name: str, like: Tensor) -> Tensor:
        given[name] = torch.randn(3, *like.shape, dtype=like.dtype)
        return given[name]

    method.draws.normals = draw  # type: ignore[method-assign]
    (mean_loss(method.model(x.double(), task=1), y) + method.penalty(STEP)).backward()
    loss = divergence(slow) / 240
    for number in range(3):
        slow.draws.normals = lambda name, like: given[name][number : number + 1]  # type: ignore[method-assign]  # noqa: B023
        loss = loss + mean_loss(slow.model(x.double(), task=1), y) / 3
    loss.backward()
    for (name, ours), theirs in zip(method.named_parameters(), slow.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad, msg=name)


def test_examples_of_different_tasks_go_through_their_own_heads() -> None:
    method = second_task()
    x = torch.randn(6, 64)
    tasks = torch.tensor([0, 1, 1, 0, 1, 0])
    with method.inference() as network:
        mixed = network(x, task=tasks)
        for task in range(2):
            torch.testing.assert_close(mixed[tasks == task], network(x, task=task)[tasks == task])
    assert method.model(x, task=tasks).shape == (3, 6, 2)


# -- prediction --------------------------------------------------------------------------------


def test_predictions_average_probabilities_over_draws_of_the_posterior() -> None:
    """Against networks whose weights are drawn outside of the method: the means agree within
    four standard errors."""
    method = VCL(mlp(8, heads=False), prediction_samples=2000, initial_log_variance=-3.0)
    x = torch.rand(5, 64)
    with torch.no_grad(), method.inference() as network:
        found = network(x).exp()
    plain, generator = mlp(8, heads=False), torch.Generator().manual_seed(9)
    draws = []
    for _ in range(2000):
        weights = {
            name: p + torch.tensor(-1.5).exp() * torch.randn(p.shape, generator=generator)
            for name, p in plain.named_parameters()
        }
        draws.append(torch.func.functional_call(plain, weights, (x,)).softmax(-1))
    expected = torch.stack(draws).detach()
    error = expected.std(0) * (2 / 2000) ** 0.5
    assert bool(((found - expected.mean(0)).abs() < 4 * error).all())
    torch.testing.assert_close(found.sum(1), torch.ones(5))


def test_the_lent_network_is_one_fixed_ensemble() -> None:
    """An example's prediction depends on neither its batch nor on when it is asked for."""
    method = VCL(mlp(8, heads=False))
    x = torch.rand(6, 64)
    with torch.no_grad(), method.inference() as network:
        whole = network(x)
        assert torch.equal(network(x), whole)
        torch.testing.assert_close(network(x[2:4]), whole[2:4])
    with torch.no_grad(), method.inference() as network:
        assert torch.equal(network(x), whole)


def test_inference_leaves_no_trace() -> None:
    method = second_task()
    state = copy.deepcopy(method.state_dict())
    twin = copy.deepcopy(method)
    x = torch.rand(6, 64)
    with method.inference(1) as network:
        network(x, task=1)
        assert not network.training
    assert method.model.training
    assert all(torch.equal(value, state[name]) for name, value in method.state_dict().items())
    assert torch.equal(method.model(x, task=1), twin.model(x, task=1))


def test_values_are_averaged_for_regression() -> None:
    task = Task("line", 0, Data(torch.linspace(-1, 1, 64)[:, None], torch.zeros(64, 1)))
    method = VCL(nn.Linear(1, 1), start_epochs=0, initial_log_variance=0.0)
    method.begin_task(task)
    with torch.no_grad(), method.inference() as network:
        once = network(torch.tensor([[1.0], [2.0]]))
    assert once.shape == (2, 1)
    fresh = VCL(nn.Linear(1, 1))
    fresh.load_state_dict(method.state_dict())
    with torch.no_grad(), fresh.inference() as network:
        assert torch.equal(network(torch.tensor([[1.0], [2.0]])), once)


# -- the maximum-likelihood start --------------------------------------------------------------


def test_it_starts_where_a_plain_network_ends() -> None:
    task = permuted_digits(1, train=200)[0]
    net = mlp(16, heads=False, outputs=10)
    method = VCL(net, start_epochs=3, start_lr=0.01, start_batch_size=50, seed=4)
    begun = method.begin_task(task)
    for name, parameter in net.named_parameters():
        assert torch.equal(method.model.get_parameter(name), parameter)
    method.begin_step(STEP)
    plain = Method(net)
    fit(plain, begun.train, epochs=3, lr=0.01, batch_size=50, seed=4)
    for name, parameter in plain.model.named_parameters():
        assert torch.equal(method.model.get_parameter(name), parameter)
        spread = method.model.get_parameter(f"{name}_log_variance")
        assert bool((spread == -6.0).all())
    after = copy.deepcopy(method.state_dict())
    method.begin_step(STEP)
    method.end_task()
    method.begin_task(permuted_digits(2, train=200)[1])
    method.begin_step(STEP)
    for name, parameter in method.model.named_parameters():
        assert torch.equal(parameter, after[f"model.{name}"])


def test_a_resumed_run_does_not_start_again() -> None:
    tasks = digit_pairs(1)
    method = VCL(mlp(8), start_epochs=2)
    method.begin_task(tasks[0])
    method.begin_step(STEP)
    shaken(method)
    fresh = VCL(mlp(8), start_epochs=2)
    fresh.begin_task(tasks[0])
    fresh.load_state_dict(method.state_dict())
    fresh.begin_step(STEP)
    for name, parameter in method.model.named_parameters():
        assert torch.equal(fresh.model.get_parameter(name), parameter)


def test_without_data_it_starts_from_the_weights_it_got() -> None:
    net = mlp(8, heads=False)
    method = VCL(net)
    method.begin_step(STEP)
    for name, parameter in net.named_parameters():
        assert torch.equal(method.model.get_parameter(name), parameter)


# -- heads -------------------------------------------------------------------------------------


def test_a_new_head_has_a_posterior_and_the_first_prior() -> None:
    method = second_task()
    assert isinstance(method.model, MultiHead)
    first, second = method.model.heads
    assert isinstance(first, MeanFieldLayer)
    assert isinstance(second, MeanFieldLayer)
    for posterior in second.posteriors():
        assert posterior.prior_mean.count_nonzero() == 0
        assert posterior.prior_log_variance.count_nonzero() == 0
    for posterior in first.posteriors():
        assert bool((posterior.prior_mean != 0).all())


def test_heads_of_finished_tasks_cost_nothing_until_they_move() -> None:
    method = second_task()
    method.end_task()
    assert isinstance(method.model, MultiHead)
    first, second = method.model.heads
    method.penalty(STEP).backward()
    assert all(p.grad is None for p in method.model.heads.parameters())
    with torch.no_grad():
        first.weight.add_(0.1)  # type: ignore[operator]
    penalty = method.penalty(STEP)
    torch.testing.assert_close(penalty.detach(), divergence(method).detach() / 240)
    penalty.backward()
    assert all(p.grad is not None for p in first.parameters())
    assert all(p.grad is None for p in second.parameters())


def test_parameter_groups_hold_each_parameter_once_and_spare_variances_from_decay() -> None:
    method = second_task()
    means, spreads = method.parameter_groups(lr=0.1)
    names = {id(p): name for name, p in method.named_parameters()}
    assert {id(p) for p in means["params"]} | {id(p) for p in spreads["params"]} == names.keys()
    assert all(names[id(p)].endswith("log_variance") for p in spreads["params"])
    assert not any(names[id(p)].endswith("log_variance") for p in means["params"])
    assert spreads["weight_decay"] == 0.0


# -- in the house ------------------------------------------------------------------------------


def test_saved_in_the_middle_of_a_task_it_goes_on_bit_for_bit() -> None:
    tasks = digit_pairs(3)
    settings: dict[str, Any] = {"samples": 2, "start_epochs": 1}
    method = VCL(mlp(8), **settings)
    learn(method, tasks[0], epochs=1, lr=0.01, optimizer=adam)
    learn(method, tasks[1], epochs=1, lr=0.01, optimizer=adam, end=False)
    fresh = VCL(mlp(8), **settings, seed=7)
    fresh.load_state_dict(copy.deepcopy(method.state_dict()))  # heads are made as they are met
    for one in (method, fresh):
        learn(one, tasks[1], epochs=1, lr=0.01, optimizer=adam)
        learn(one, tasks[2], epochs=1, lr=0.01, optimizer=adam)
    state = method.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in fresh.state_dict().items())


def test_a_copy_shares_nothing_with_the_original() -> None:
    method = VCL(mlp(8), start_epochs=1)
    task = digit_pairs(1)[0]
    method.begin_task(task)
    state, twin = copy.deepcopy(method.state_dict()), copy.deepcopy(method)
    learn(twin, task, epochs=1, optimizer=adam)
    assert all(torch.equal(value, state[name]) for name, value in method.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "drawing"),
    [
        *((seed, {"samples": 2}) for seed in range(3)),
        (0, {"samples": 1, "sampling": "local"}),
    ],
)
def test_it_forgets_less_than_fine_tuning(seed: int, drawing: dict[str, Any]) -> None:
    """Two permutations of the digits, one head: what VCL loses is less than half."""
    tasks = permuted_digits(2)
    settings: dict[str, Any] = {"epochs": 20, "lr": 0.02, "batch": 100, "optimizer": adam}
    net = mlp(40, heads=False, outputs=10, seed=seed)
    start: dict[str, Any] = {"start_epochs": 10, "start_lr": 0.005, "start_batch_size": 32}
    method = VCL(net, seed=seed, **drawing, **start)
    lost, left = forgetting(method, tasks, **settings, seed=seed)
    plain_lost, plain_left = forgetting(FineTuning(net), tasks, **settings, seed=seed)
    assert lost < plain_lost / 2
    assert left > plain_left + 0.1


@pytest.mark.slow
def test_weights_that_the_data_leave_uncertain_stay_uncertain() -> None:
    """A pixel that is always black says nothing: its weights keep the prior's variance, those of
    a pixel that varies become certain."""
    task = permuted_digits(1)[0]
    inputs = torch.cat([batch.inputs for batch in iterate(task.train, 1000)])
    black = inputs.amax(0) == 0
    method = VCL(mlp(20, heads=False, outputs=10), samples=2, initial_log_variance=-3.0)
    learn(method, task, epochs=20, lr=0.02, optimizer=adam)
    spread = method.model.get_parameter("0.weight_log_variance").mean(0)
    assert bool(black.any())
    assert spread[black].mean() > spread[~black].mean() + 0.3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"samples": 0}, "`samples` must be at least 1, got 0. It is the draws of the weights"),
        ({"prediction_samples": 0}, "`prediction_samples` must be at least 1, got 0."),
        ({"prior_variance": 0.0}, "`prior_variance` must be positive, got 0.0."),
        ({"start_epochs": -1}, "`start_epochs` must be 0 or greater, got -1."),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        VCL(mlp(8), **settings)
    assert message in str(error.value)


def test_the_penalty_needs_the_number_of_examples() -> None:
    method = VCL(mlp(8, heads=False))
    with pytest.raises(TaskError, match="`examples` is needed here: the divergence is divided"):
        method.penalty(batch_size=3)
    with pytest.raises(SettingError, match="`examples` must be at least 1, got 0"):
        method.penalty(examples=0)


def test_predictions_of_the_first_task_are_reproducible() -> None:
    task = digit_pairs(1)[0]
    runs = []
    for _ in range(2):
        method = VCL(mlp(8), samples=2, start_epochs=1, seed=3)
        learn(method, task, epochs=1, lr=0.01, optimizer=adam)
        runs.append(predict(method, task))
    assert torch.equal(*runs)


class Words(nn.Module):
    """Answers in several places; puts out an object, a dictionary, or a tuple."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.kind, self.first, self.last = kind, nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Any:
        hidden = self.first(x).relu()
        logits = self.last(hidden)
        said = {"loss": logits.mean(), "logits": logits, "hidden": hidden, "count": 7}
        if self.kind == "object":
            return SimpleNamespace(**said)
        return said if self.kind == "dictionary" else tuple(said.values())


@pytest.mark.parametrize("kind", ["object", "dictionary", "tuple"])
@pytest.mark.parametrize("places", [(), (5,)])
def test_several_draws_of_a_model_that_puts_out_more_than_a_tensor(
    kind: str, places: tuple[int, ...]
) -> None:
    method = VCL(Words(kind), samples=3, prediction_samples=4)
    x = torch.randn(2, *places, 4)
    said = method.model(x)
    loss, logits, hidden, count = said.values()
    assert (loss.shape, count) == ((), 7)
    assert hidden.shape == (3, 2, *places, 6)
    assert logits is answer(said)
    assert logits.shape == (3, 2, 3, *places)  # classes come third, as losses want them
    torch.testing.assert_close(loss, logits.mean())
    assert mean_loss(logits, torch.zeros(2, *places).long()).isfinite()
    with torch.no_grad(), method.inference() as network:
        chances = answer(network(x)).exp()
    torch.testing.assert_close(chances.sum(1), torch.ones(2, *places))
    if kind != "tuple":
        assert said.logits is logits
        with pytest.raises(AttributeError, match=r"The model put out no 'logit', but \['loss'"):
            _ = said.logit
