"""UCL does something: its penalty bites, its memory is its own, and it forgets less."""

from __future__ import annotations

import copy
import itertools
from functools import cache
from statistics import mean

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.paper_ucl import paper_ucl
from uclearn import UCL, Adam, Method
from uclearn.tasks.sources import digits

Examples = tuple[Tensor, Tensor]
SEEDS = range(5)


def two_sets_of_prototypes(seed: int) -> list[Examples]:
    """Twice: tell eight noisy prototypes apart. The second eight bear the same labels."""
    generator = torch.Generator().manual_seed(seed)
    tasks = []
    for _ in range(2):
        prototypes = torch.randn(8, 20, generator=generator)
        y = torch.randint(8, (512,), generator=generator)
        tasks.append((prototypes[y] + 0.7 * torch.randn(512, 20, generator=generator), y))
    return tasks


def permuted_digits(seed: int) -> list[Examples]:
    """The digits twice, each time with the pixels in another order."""
    images, labels = digits.load()
    generator = torch.Generator().manual_seed(seed)
    x = images.flatten(1).float() / 16
    return [(x[:, torch.randperm(64, generator=generator)], labels) for _ in range(2)]


def network(sizes: tuple[int, ...], seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for width, following in itertools.pairwise(sizes):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def learn(method: Method, x: Tensor, y: Tensor, epochs: int, batch: int) -> None:
    optimizer = Adam(method.parameter_groups(lr=4e-3))
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(batch):
            loss = F.cross_entropy(method.model(x[rows]), y[rows])
            loss = loss + method.penalty(batch_size=len(rows))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    method.end_task()


def accuracy(method: Method, x: Tensor, y: Tensor) -> float:
    with method.inference() as net, torch.no_grad():
        right: Tensor = net(x).argmax(1) == y
    return right.float().mean().item()


def forgetting(method: Method, tasks: list[Examples], epochs: int, batch: int) -> float:
    """How much accuracy on the first task learning the second one costs."""
    (x, y), second = tasks
    learn(method, x, y, epochs, batch)
    before = accuracy(method, x, y)
    assert before > 0.9  # there is something to forget
    learn(method, *second, epochs, batch)
    assert accuracy(method, *second) > 0.75  # and the second task was learned
    return before - accuracy(method, x, y)


@cache
def forgetting_of_fine_tuning(seed: int) -> float:
    """On the digits."""
    net = network((64, 100, 10), seed)
    return forgetting(Method(net), permuted_digits(seed), epochs=5, batch=32)


def ucl(net: nn.Module, tasks: list[Examples], seed: int) -> UCL:
    return paper_ucl(net, tasks[0][0][:1], beta=0.03, lr_sigma=0.01, seed=seed)


@pytest.mark.slow
def test_on_a_toy_problem_ucl_forgets_less() -> None:
    """By at least 20 points over 5 seeds (when this was written: 4 instead of 29 points)."""
    plain, held = [], []
    for seed in SEEDS:
        net, tasks = network((20, 50, 8), seed), two_sets_of_prototypes(seed)
        plain.append(forgetting(Method(net), tasks, epochs=6, batch=16))
        held.append(forgetting(ucl(net, tasks, seed), tasks, epochs=6, batch=16))
    assert mean(held) < mean(plain) - 0.20


@pytest.mark.slow
def test_on_the_digits_ucl_forgets_less() -> None:
    """By at least 30 points over 5 seeds (when this was written: 7 instead of 45 points)."""
    plain, held = [], []
    for seed in SEEDS:
        plain.append(forgetting_of_fine_tuning(seed))
        net, tasks = network((64, 100, 10), seed), permuted_digits(seed)
        held.append(forgetting(ucl(net, tasks, seed), tasks, epochs=5, batch=32))
    assert mean(held) < mean(plain) - 0.30


@pytest.mark.slow
def test_as_it_comes_it_forgets_less_than_with_the_weights_held() -> None:
    """Nothing tuned: by at least 30 points less than fine-tuning and 5 less than with
    `hold="weights"`, over 5 seeds (when this was written: 1 instead of 47 and 12 points)."""
    plain, weights, outputs = [], [], []
    for seed in SEEDS:
        plain.append(forgetting_of_fine_tuning(seed))
        net, tasks = network((64, 100, 10), seed), permuted_digits(seed)
        example = tasks[0][0][:1]
        by_weights = UCL(net, example, hold="weights", seed=seed)
        weights.append(forgetting(by_weights, tasks, epochs=5, batch=32))
        outputs.append(forgetting(UCL(net, example, seed=seed), tasks, epochs=5, batch=32))
    assert mean(outputs) < mean(plain) - 0.30
    assert mean(outputs) < mean(weights) - 0.05


@pytest.fixture(scope="module")
def after_one_task() -> tuple[UCL, list[Examples]]:
    tasks = two_sets_of_prototypes(seed=0)
    method = ucl(network((20, 50, 8), seed=0), tasks, seed=0)
    learn(method, *tasks[0], epochs=2, batch=32)
    return method, tasks


def means(method: UCL) -> dict[str, Tensor]:
    """The live means by the name of the buffer that remembers them."""
    layers = [layer for layer in method.model.modules() if isinstance(layer, nn.Linear)]
    return {
        f"held.{number}.{name}": getattr(layer, name)
        for number, layer in enumerate(layers)
        for name in ("weight", "bias")
    }


def test_while_the_second_task_is_learned_the_penalty_is_not_zero(
    after_one_task: tuple[UCL, list[Examples]],
) -> None:
    method, (_, (x, y)) = copy.deepcopy(after_one_task[0]), after_one_task[1]
    at_rest = method.penalty(batch_size=32).item()  # term 3 alone
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    F.cross_entropy(method.model(x), y).backward()
    optimizer.step()
    method.beta = 0.0  # leaves terms 1 and 2
    pull = method.penalty(batch_size=32)
    assert pull.item() > 1e-3 * abs(at_rest) > 0
    optimizer.zero_grad()
    pull.backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in means(method).values())


def test_the_memory_shares_no_storage_with_the_live_weights(
    after_one_task: tuple[UCL, list[Examples]],
) -> None:
    method = after_one_task[0]
    state = method.state_dict()
    places = [tensor.untyped_storage().data_ptr() for tensor in state.values() if tensor.numel()]
    assert len(set(places)) == len(places)


def test_changing_weights_does_not_change_the_memory(
    after_one_task: tuple[UCL, list[Examples]],
) -> None:
    method = copy.deepcopy(after_one_task[0])
    memory = {name: value.clone() for name, value in method.state_dict().items() if "held" in name}
    for name, weight in means(method).items():
        assert torch.equal(memory[name], weight)
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.add_(1.0)
    after = method.state_dict()
    assert all(torch.equal(after[name], value) for name, value in memory.items())


def test_the_given_model_is_left_alone() -> None:
    tasks = two_sets_of_prototypes(seed=0)
    net = network((20, 50, 8), seed=0)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    method = ucl(net, tasks, seed=0)
    learn(method, *tasks[0], epochs=1, batch=32)
    assert [type(layer) for layer in net] == [nn.Linear, nn.ReLU, nn.Linear]
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_exported_network_predicts_as_the_method_does(
    after_one_task: tuple[UCL, list[Examples]],
) -> None:
    method, ((x, _), _) = after_one_task
    plain = method.export()
    assert [type(layer) for layer in plain.children()] == [nn.Linear, nn.ReLU, nn.Linear]
    with method.inference() as net:
        assert torch.equal(plain(x), net(x))
    assert set(plain.state_dict()) == {"0.weight", "0.bias", "2.weight", "2.bias"}
