"""Heads of earlier tasks that follow what the trunk becomes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.small_tasks import accuracy, adam, digit_pairs, learn, mlp, permuted_digits
from uclearn import UCL
from uclearn.methods.registry import build
from uclearn.methods.ucl.heads import HELD, RIDGE, OldHeads
from uclearn.methods.ucl.seen import EXAMPLES
from uclearn.networks import MultiHead
from uclearn.tasks import Task


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(features: int = 5, heads: int = 2) -> MultiHead:
    torch.manual_seed(0)
    net = MultiHead(nn.Linear(4, features), features).double()
    for _ in range(heads):
        net.add_head(3)
    return net


def moved(net: MultiHead, by: float = 0.3) -> MultiHead:
    """The same with another trunk."""
    other = copy.deepcopy(net)
    trunk = other.trunk
    assert isinstance(trunk, nn.Linear)
    trunk.weight.data += by * draws(*trunk.weight.shape, seed=7)
    trunk.bias.data += by * draws(*trunk.bias.shape, seed=8)
    return other


def old_heads(net: MultiHead, *tasks: Tensor) -> OldHeads:
    """After `tasks`, by the inputs of each."""
    old = OldHeads(net.features)
    for x in tasks:
        old.follow(net, calls(net, [x]), nullcontext, 1.0)
    old.note(net)
    return old


def followed(
    before: MultiHead, now: MultiHead, *batches: Tensor, seen: Any = (), alike: float = 1.0
) -> None:
    """The heads of `now` have followed from `before`, whose tasks had the inputs `seen`."""

    @contextmanager
    def as_it_was() -> Iterator[None]:
        own = copy.deepcopy(now.trunk.state_dict())
        now.trunk.load_state_dict(before.trunk.state_dict())
        yield
        now.trunk.load_state_dict(own)

    old_heads(before, *seen).follow(now, calls(now, batches), as_it_was, alike)


def calls(net: MultiHead, batches: Iterable[Tensor]) -> Iterator[Callable[[], Any]]:
    return (partial(net, x, task=0) for x in batches)


def head(net: nn.Module, number: int) -> nn.Linear:
    assert isinstance(net, MultiHead)
    found = net.heads[number]
    assert isinstance(found, nn.Linear)
    return found


# -- the formula ---------------------------------------------------------------------------


def test_heads_read_through_the_least_squares_of_how_features_moved() -> None:
    """An oracle by examples: of earlier tasks nothing moved, and the ridge is examples, too."""
    before = network()
    now = moved(before)
    x, earlier = draws(50, 4), (draws(30, 4, seed=1) + 1, draws(20, 4, seed=2) - 1)
    new, old = (net.trunk(x).detach().numpy() for net in (now, before))
    rows = [new / np.sqrt(len(x))]
    for task in earlier:
        rows.append(before.trunk(task).detach().numpy() * np.sqrt(HELD / 0.5**4 / 2 / len(task)))
    size = sum(np.square(part).sum() for part in rows) / 5
    rows.append(np.sqrt(RIDGE * size) * np.eye(5))
    wanted = np.zeros_like(np.concatenate(rows))
    wanted[: len(x)] = (old - new) / np.sqrt(len(x))
    turn = np.linalg.lstsq(np.concatenate(rows), wanted, rcond=None)[0]  # f @ turn ~ g
    followed(before, now, x[:20], x[20:], seen=earlier, alike=0.5)
    for number in range(2):
        weight, bias = (p.detach().numpy() for p in head(before, number).parameters())
        expected = weight + weight @ turn.T
        np.testing.assert_allclose(head(now, number).weight.detach(), expected, rtol=1e-6)
        np.testing.assert_array_equal(head(now, number).bias.detach(), bias)


def test_answers_to_other_inputs_come_back() -> None:
    before = network()
    now, stays = moved(before), moved(before)
    followed(before, now, draws(400, 4))
    fresh = draws(100, 4, seed=3)
    with torch.no_grad():
        wanted = before(fresh, task=1)
        lost, left = (float((net(fresh, task=1) - wanted).square().mean()) for net in (stays, now))
    assert left < lost / 5


def test_a_trunk_that_has_not_moved_leaves_heads_exactly_as_they_were() -> None:
    before = network()
    now = copy.deepcopy(before)
    followed(before, now, draws(9, 4))
    for key, value in before.state_dict().items():
        assert torch.equal(now.state_dict()[key], value), key


def test_the_less_alike_inputs_are_the_less_heads_turn() -> None:
    before = network()
    x = draws(50, 4)
    by = []
    for alike in (1.0, 0.1, 0.01, 0.0):
        now = moved(before)
        followed(before, now, x, seen=(x,), alike=alike)
        by.append(float((head(now, 0).weight - head(before, 0).weight).detach().norm()))
    assert by[0] > 2 * by[1]
    assert by[1] > 20 * by[2] > 1000 * by[3] > 0


def test_where_the_new_inputs_are_silent_nothing_turns() -> None:
    before = network()
    for net in (before, now := moved(before)):
        for parameter in net.trunk.parameters():
            parameter.data[0] = 0
    followed(before, now, draws(50, 4))
    changed = head(now, 0).weight - head(before, 0).weight
    assert not changed[:, 0].any()
    assert changed[:, 1:].all()


def test_a_trunk_that_grew_starts_over() -> None:
    old = old_heads(network(features=5), draws(20, 4))
    wider = network(features=7)
    old.follow(wider, calls(wider, [draws(20, 4)]), nullcontext, 1.0)
    assert old.seen.shape == (7, 7)
    assert int(old.tasks) == 1


# -- whose heads ---------------------------------------------------------------------------


def test_who_has_learned_since_stays() -> None:
    before = network()
    now = moved(before)
    head(now, 0).weight.data[0, 0] += 1e-12
    told = head(now, 0).weight.clone()
    followed(before, now, draws(20, 4))
    assert torch.equal(head(now, 0).weight, told)
    assert not torch.equal(head(now, 1).weight, head(before, 1).weight)


def test_a_frozen_head_and_one_of_another_kind_stay() -> None:
    class Own(nn.Linear):
        """Reads in its own way."""

    before = network(heads=3)
    own = Own(5, 3).double()
    own.load_state_dict(before.heads[1].state_dict())
    before.heads[1] = own
    head(before, 0).weight.requires_grad_(False)
    now = moved(before)
    followed(before, now, draws(20, 4))
    changed = [not torch.equal(head(now, n).weight, head(before, n).weight) for n in range(3)]
    assert changed == [False, False, True]


def test_of_a_long_loader_no_more_is_taken_than_needed() -> None:
    taken = 0

    def batches() -> Iterator[Tensor]:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield draws(EXAMPLES // 2, 4, seed=number)

    net = network()
    OldHeads(5).follow(net, calls(net, batches()), nullcontext, 1.0)
    assert taken == 2


# -- in UCL --------------------------------------------------------------------------------


def ucl(**settings: Any) -> UCL:
    return UCL(mlp(), torch.zeros(1, 64), seed=0, **settings)


def drawn_pairs(method: UCL, count: int) -> None:
    for task in digit_pairs(count):
        learn(method, task, lr=0.01, optimizer=adam)


@pytest.mark.parametrize("tasks", [digit_pairs(), permuted_digits(4)], ids=["alike", "apart"])
@pytest.mark.parametrize("closed_form", [False, True], ids=["loss", "closed form"])
def test_less_is_forgotten(tasks: list[Task], closed_form: bool) -> None:
    """Held weakly, so that there is something to follow; also where inputs have nothing in common
    with those of earlier tasks."""
    kept = {}
    for follows in (False, True):
        method = ucl(beta=100.0, heads_follow=follows, closed_form=closed_form)
        for task in tasks:
            learn(method, task, lr=0.01, optimizer=adam, epochs=8)
        kept[follows] = sum(accuracy(method, task) for task in tasks[:-1]) / (len(tasks) - 1)
    assert kept[True] > kept[False] + 0.01, kept


def test_how_much_alike_inputs_are_is_the_cosine_of_their_covariances() -> None:
    """By numpy, from the examples; the network is narrow enough for one block a layer."""
    method = ucl()
    first, second = digit_pairs(2)
    learn(method, first, lr=0.01, optimizer=adam)
    given = []
    for task in (first, learn(method, second, lr=0.01, optimizer=adam, end=False)):
        x, layers = task.train.batch(torch.arange(len(task.train))).inputs, []
        for held in method._memory.outputs():
            layers.append(np.cov(x.detach().numpy(), rowvar=False))
            weight = held.weight if task is first else held.layer.weight
            x = F.linear(x, weight, held.bias if task is first else held.layer.bias).relu()
        given.append(layers)
    cosines = [
        (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(*given, strict=True)
    ]
    assert len(cosines) > 1
    assert method._memory.alike(method._look(second, None, None)) == pytest.approx(
        min(cosines), rel=1e-4
    )


def test_the_same_inputs_are_alike_and_permuted_ones_are_not() -> None:
    found = {}
    for name, tasks in {"same": digit_pairs(1) * 2, "permuted": permuted_digits(2)}.items():
        method = ucl()
        learn(method, tasks[0], lr=0.01, optimizer=adam)
        x = tasks[1].train.batch(torch.arange(len(tasks[1].train))).inputs
        assert isinstance(method.model, MultiHead)
        method.model.add_head(2)
        found[name] = method._memory.alike(method._look(None, None, [x]))
    assert found["same"] == pytest.approx(1, abs=1e-5)
    assert found["permuted"] < 0.5


def test_what_does_not_vary_is_like_nothing() -> None:
    method = ucl()
    x = torch.ones(20, 64)
    assert isinstance(method.model, MultiHead)
    for _ in range(2):
        method.model.add_head(2)
        looked = method._look(None, None, [x])
        assert method._memory.alike(looked) == 0
        method._memory.see(looked)


def test_nothing_else_depends_on_it() -> None:
    """The trunk, its uncertainties and the new head are learned as without."""
    with_it, without = (ucl(heads_follow=each) for each in (True, False))
    for method in (with_it, without):
        drawn_pairs(method, 2)
    other = without.state_dict()
    known = {k: v for k, v in with_it.state_dict().items() if not k.startswith("_old_heads.")}
    assert known.keys() == other.keys()
    differ = [key for key, value in known.items() if not value.equal(other[key])]
    assert differ == ["model.heads.0.weight"]


def test_with_held_weights_heads_stay_as_in_the_paper() -> None:
    method = ucl(hold="weights", beta=0.01, sigma=0.06)
    learn(method, digit_pairs()[0], lr=0.01, optimizer=adam)
    told = head(method.model, 0).weight.clone()
    learn(method, digit_pairs()[1], lr=0.01, optimizer=adam)
    assert torch.equal(head(method.model, 0).weight, told)


def test_a_trunk_that_is_not_remembered_as_a_whole_is_not_followed() -> None:
    method = ucl(plain=["trunk.2"])
    learn(method, digit_pairs()[0], lr=0.01, optimizer=adam)
    told = head(method.model, 0).weight.clone()
    learn(method, digit_pairs()[1], lr=0.01, optimizer=adam)
    assert torch.equal(head(method.model, 0).weight, told)


def test_replay_teaches_old_heads_itself() -> None:
    method = build("ucl+replay", mlp(), torch.zeros(1, 64), {"replay": {"size": 100}})
    learn(method, digit_pairs()[0], lr=0.01, optimizer=adam)
    begun = learn(method, digit_pairs()[1], lr=0.01, optimizer=adam, end=False)
    taught = head(method.model, 0).weight.clone()
    method.end_task(begun)
    assert torch.equal(head(method.model, 0).weight, taught)


def test_a_loop_of_its_own_needs_no_task() -> None:
    """What the model was last called with does."""
    method = ucl(beta=100.0)
    first, second = digit_pairs(2)
    told = []
    for task in (first, second):
        begun = learn(method, task, lr=0.01, optimizer=adam, end=False)
        assert begun.train is not None
        method.end_task()
        told.append(head(method.model, 0).weight.clone())
    assert not torch.equal(*told)


def test_the_memory_is_lent_and_given_back_even_if_a_pass_fails() -> None:
    method = ucl()
    drawn_pairs(method, 1)
    learn(method, digit_pairs()[1], lr=0.01, optimizer=adam, end=False)
    before = {key: value.clone() for key, value in method.state_dict().items()}
    x = digit_pairs()[0].train.batch(torch.arange(8)).inputs
    method.eval()
    now = method.model(x, task=0).detach()
    with method._memory.as_it_was():
        assert not torch.equal(method.model(x, task=0), now)
    with pytest.raises(RuntimeError, match="shape"), method._memory.as_it_was():
        method.model(x[:, 1:], task=0)
    for key, value in method.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_it_goes_on_from_a_saved_state() -> None:
    whole, resumed = ucl(), ucl()
    tasks = digit_pairs(2)
    learn(whole, tasks[0], lr=0.01, optimizer=adam)
    resumed.load_state_dict(copy.deepcopy(whole.state_dict()))
    for method in (whole, resumed):
        learn(method, tasks[1], lr=0.01, optimizer=adam)
    assert torch.equal(head(whole.model, 0).weight, head(resumed.model, 0).weight)


def test_a_state_from_before_there_were_followers_can_be_read() -> None:
    method, later = ucl(), ucl()
    drawn_pairs(method, 1)
    state = method.state_dict()
    for name in ("left", "tasks", "seen"):
        del state[f"_old_heads.{name}"]
    later.load_state_dict(state)
    told = head(later.model, 0).weight.clone()
    learn(
        later, digit_pairs()[1], lr=0.01, optimizer=adam
    )  # whose they are is not known: they stay
    assert torch.equal(head(later.model, 0).weight, told)
    assert len(later.state_dict()["_old_heads.left"]) == 2
