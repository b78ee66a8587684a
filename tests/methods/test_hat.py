"""HAT: what earlier tasks need stays bit for bit, under any optimiser, in any network."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.gated_networks import NETWORKS, inputs_for
from tests.methods.small_tasks import adam, digit_pairs, forgetting, learn, mlp, predict
from uclearn.errors import SettingError, TaskError, UnsupportedLayerError
from uclearn.methods.baselines import FineTuning
from uclearn.methods.hat import HAT, gates
from uclearn.methods.hat.gates import compensation
from uclearn.networks import MultiHead
from uclearn.tasks import Data, Task

Groups = list[dict[str, Any]]


def sgd_with_everything(groups: Groups) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, momentum=0.9, weight_decay=0.01, nesterov=True)


def random_tasks(name: str, count: int = 3) -> list[Task]:
    """Random inputs with random labels: all there is to learn is by heart."""
    tasks = []
    for index in range(count):
        x = inputs_for(name, 40, seed=index)
        y = torch.randint(3, (40,), generator=torch.Generator().manual_seed(index))
        data = Data(x, y, task=index)
        tasks.append(Task(f"random {index}", index, data, test=data, classes=3))
    return tasks


def network(name: str, heads: bool = True, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    trunk = NETWORKS[name]()
    return MultiHead(trunk, 6) if heads else nn.Sequential(trunk, nn.Linear(6, 3))


def built(name: str, heads: bool = True) -> HAT:
    """Gates cost nothing here: so few nodes would be shut at once."""
    return HAT(network(name, heads), inputs_for(name, 1), tasks=3, strength=0.0)


# -- nothing that is needed moves --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", [adam, sgd_with_everything])
@pytest.mark.parametrize("heads", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_predictions_of_earlier_tasks_stay_bit_for_bit(
    name: str, heads: bool, optimizer: Callable[[Groups], torch.optim.Optimizer]
) -> None:
    method, tasks, kept = built(name, heads), random_tasks(name), []
    for task in tasks:
        before = {n: p.detach().clone() for n, p in method.model.named_parameters()}
        learn(method, task, epochs=3, batch=10, optimizer=optimizer)
        moved = [
            n for n, p in method.model.named_parameters() if not torch.equal(p, before.get(n, p))
        ]
        assert any(n.endswith("weight") for n in moved)  # there is something to be kept from
        kept.append(predict(method, task))
        for earlier, then in zip(tasks, kept, strict=False):
            assert torch.equal(predict(method, earlier), then)
    assert not torch.equal(kept[0], kept[1])


def one_optimizer_for_all_tasks(method: HAT, tasks: list[Task]) -> list[Tensor]:
    """A loop of one's own in which momentum lives on from task to task and gradients are zeros
    instead of None; returns the predictions after each task."""
    optimizer = torch.optim.AdamW(method.parameter_groups(lr=0.02), weight_decay=0.1)
    after = []
    for task in tasks:
        x, y, _ = task.train.batch(torch.arange(40))
        for number in range(12):
            method.model.train()
            method.begin_step(progress=number % 4 / 3)
            loss = F.cross_entropy(method.model(x, task=task.index), y) + method.penalty()
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            method.adjust_gradients()
            optimizer.step()
            method.end_step()
        method.end_task()
        after.append(predict(method, task))
    return after


def with_all_heads(name: str = "residual") -> HAT:
    net = network(name)
    assert isinstance(net, MultiHead)
    for _ in range(3):
        net.add_head(3)
    return HAT(net, inputs_for(name, 1), tasks=3, strength=0.0)


def test_momentum_from_earlier_tasks_and_decoupled_decay_move_nothing_that_is_needed() -> None:
    method, tasks = with_all_heads(), random_tasks("residual")
    after = one_optimizer_for_all_tasks(method, tasks)
    for task, then in zip(tasks, after, strict=True):
        assert torch.equal(predict(method, task), then)


@pytest.mark.parametrize("fault", ["put_back", "mask_gradients"])
def test_masks_alone_and_putting_back_alone_are_not_enough(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The test above sees either of them missing."""
    monkeypatch.setattr(gates, fault, lambda kept: kept)
    method, tasks = with_all_heads(), random_tasks("residual")
    gradient_left = False
    adjust = method.adjust_gradients

    def spy() -> None:
        nonlocal gradient_left
        adjust()
        for parameter, mask, *_ in method._kept:
            if parameter.grad is not None:
                gradient_left |= bool((parameter.grad * mask).any())

    monkeypatch.setattr(method, "adjust_gradients", spy)
    after = one_optimizer_for_all_tasks(method, tasks)
    same = all(torch.equal(predict(method, t), a) for t, a in zip(tasks, after, strict=True))
    assert gradient_left if fault == "mask_gradients" else not same


def test_masked_gradients_are_exactly_zero_and_the_others_untouched() -> None:
    method, tasks = built("residual"), random_tasks("residual")
    learn(method, tasks[0])
    method.begin_task(tasks[1])
    x, y, _ = tasks[1].train.batch(torch.arange(8))
    method.begin_step(progress=0.3)
    F.cross_entropy(method.model(x, task=1), y).backward()
    before = {id(p): p.grad.clone() for p in method.parameters() if p.grad is not None}
    method.adjust_gradients()
    assert len(method._kept) >= 6  # weights and biases of three layers
    for parameter, mask, *_ in method._kept:
        if parameter.grad is None:
            continue  # the head of the first task
        kept = mask.bool().expand_as(parameter)
        assert torch.equal(parameter.grad, before[id(parameter)].masked_fill(kept, 0))
        assert before[id(parameter)][kept].any()


def test_the_first_task_is_free() -> None:
    method = built("residual")
    assert method._kept == []
    assert not any(used.any() for used in method.used().values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_it_forgets_nothing_where_fine_tuning_forgets(seed: int) -> None:
    tasks = digit_pairs(4)
    gated = HAT(mlp(seed=seed), torch.zeros(1, 64), tasks=4, seed=seed)
    lost, left = forgetting(gated, tasks, epochs=15, batch=16, seed=seed)
    plain = FineTuning(mlp(seed=seed))
    plain_lost, plain_left = forgetting(plain, tasks, epochs=15, batch=16, seed=seed)
    assert lost == 0.0
    assert plain_lost > 0.03
    assert left > plain_left + 0.02


# -- gates, sparsity, embeddings ---------------------------------------------------------------


def test_gates_harden_within_an_epoch() -> None:
    method = HAT(mlp(heads=False), torch.zeros(1, 64), tasks=2)
    for progress, scale in ((0.0, 1 / 400), (0.5, (400 + 1 / 400) / 2), (1.0, 400.0)):
        method.begin_step(progress=progress)
        for gate in method._gates.values():
            torch.testing.assert_close(gate.soft(), torch.sigmoid(scale * gate.embedding[0]))


def test_the_penalty_is_the_share_of_free_nodes_that_are_opened() -> None:
    method = HAT(mlp(heads=False), torch.zeros(1, 64), tasks=2, strength=0.3)
    embeddings = torch.cat([g.embedding.detach() for g in method._gates.values()], 1).double()
    scale = 1 / 400 + (400 - 1 / 400) * 0.01
    for task in range(2):
        method.begin_step(progress=0.01)
        free = torch.ones(100) if task == 0 else 1 - (embeddings[0] > 0).double()
        opened = (torch.sigmoid(scale * embeddings[task]) * free).sum()
        assert method.penalty().item() == pytest.approx(float(0.3 * opened / free.sum()), rel=1e-5)
        method.end_task()


def test_an_epoch_is_judged_by_the_gates_at_its_end() -> None:
    """Where epochs are chosen by the penalised loss, the last step's scale does not count."""
    method = HAT(mlp(heads=False), torch.zeros(1, 64), tasks=2, strength=0.3)
    embeddings = torch.cat([g.embedding.detach()[0] for g in method._gates.values()])
    found = []
    for last in (0.1, 0.9):
        method.begin_step(progress=last)
        found.append(method.penalty(progress=1.0).item())
        assert all(gate.scale == gates.anneal(last, 400.0) for gate in method._gates.values())
    hard = 0.3 * torch.sigmoid(400 * embeddings).mean().item()
    assert found == pytest.approx([hard, hard], rel=1e-6)


def test_gradients_of_embeddings_are_compensated_for_the_present_task_only() -> None:
    method = HAT(mlp(heads=False), torch.zeros(1, 64), tasks=3)
    method.end_task()
    method.begin_step(progress=0.02)
    x = torch.rand(16, 64)
    (method.model(x).square().mean() + method.penalty()).backward()
    gate = method._gates["0"]
    assert gate.embedding.grad is not None
    before = gate.embedding.grad.clone()
    method.adjust_gradients()
    e = gate.embedding.detach()[1]
    torch.testing.assert_close(
        gate.embedding.grad[1], before[1] * compensation(e, gate.scale, 400.0)
    )
    assert before[1].count_nonzero() > 40
    assert gate.embedding.grad[[0, 2]].count_nonzero() == 0


def test_embeddings_stay_where_they_can_learn() -> None:
    method = HAT(mlp(heads=False), torch.zeros(1, 64), tasks=2)
    with torch.no_grad():
        method._gates["0"].embedding.mul_(100)
    method.end_step()
    assert method._gates["0"].embedding[0].abs().max().item() == 6.0


def test_the_output_layer_has_no_gate() -> None:
    method = HAT(mlp(heads=False), torch.zeros(1, 64), tasks=2)
    assert list(method.used()) == ["0", "2"]
    headed = HAT(mlp(), torch.zeros(1, 64), tasks=2)
    assert list(headed.used()) == ["trunk.0", "trunk.2"]


def test_the_size_of_the_paper() -> None:
    """Permuted MNIST, 784-400-400-10 and ten tasks: 478,410 weights + 10 * 800 embeddings; the
    paper's table says 486K."""
    net = nn.Sequential(
        nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10)
    )
    method = HAT(net, torch.zeros(1, 784), tasks=10)
    assert sum(p.numel() for p in method.parameters()) == 486_410


# -- in the house ------------------------------------------------------------------------------


def test_inference_lends_the_gates_of_the_task_and_leaves_no_trace() -> None:
    method, tasks = HAT(mlp(), torch.zeros(1, 64), tasks=2), digit_pairs(2)
    learn(method, tasks[0], epochs=1)
    begun = method.begin_task(tasks[1])
    x = begun.train.batch(torch.arange(5)).inputs
    method.begin_step(progress=0.2)
    training, state = method.model(x, task=1), copy.deepcopy(method.state_dict())
    with contextlib.suppress(KeyError), method.inference(0) as network:
        assert not network.training
        outputs = network(x, task=0)
        raise KeyError
    assert torch.equal(method.model(x, task=1), training)
    assert all(torch.equal(v, state[k]) for k, v in method.state_dict().items())
    with method.inference(1) as network:
        assert not torch.equal(network(x, task=0), outputs)  # the same head, other gates


def test_saved_in_the_middle_of_a_task_it_goes_on_bit_for_bit() -> None:
    tasks = digit_pairs(3)
    method = HAT(mlp(), torch.zeros(1, 64), tasks=3)
    learn(method, tasks[0], epochs=2)
    learn(method, tasks[1], epochs=1, end=False)
    fresh = HAT(mlp(), torch.zeros(1, 64), tasks=3, seed=9)
    for task in tasks[:2]:
        fresh.begin_task(task)
    fresh.load_state_dict(copy.deepcopy(method.state_dict()))
    for one in (method, fresh):
        learn(one, tasks[1], epochs=1, optimizer=sgd_with_everything)
        learn(one, tasks[2], epochs=1, optimizer=sgd_with_everything)
    state = method.state_dict()
    assert all(torch.equal(v, state[k]) for k, v in fresh.state_dict().items())
    for task in tasks:
        assert torch.equal(predict(method, task), predict(fresh, task))


def test_a_loop_of_ones_own_needs_no_task_objects() -> None:
    method = HAT(mlp(heads=False), torch.zeros(1, 64), tasks=2)
    first = method._gates["0"].hard()
    method.end_task()
    assert torch.equal(method.used()["0"], first)
    assert not torch.equal(method._gates["0"].hard(), first)
    method.end_task()
    with pytest.raises(
        TaskError, match=r"All 2 tasks that this HAT was built for are over.*`tasks`"
    ):
        method.end_task()


def test_moved_to_another_type_it_holds_on() -> None:
    method, tasks = HAT(network("plain"), torch.zeros(1, 64), tasks=2), random_tasks("plain")
    learn(method, tasks[0])
    method.double()
    assert all(kept.values.dtype == torch.float64 for kept in method._kept)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": 0}, r"`tasks` must be at least 1, got 0\. It is how many tasks there will be"),
        ({"tasks": 2, "strength": -1.0}, r"`strength` must be 0 or greater and finite, got -1\.0"),
        ({"tasks": 2, "smax": 1.0}, r"`smax` must be greater than 1 and finite, got 1\.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        HAT(mlp(), torch.zeros(1, 64), **settings)


def test_an_example_that_does_not_fit_is_refused() -> None:
    with pytest.raises(
        SettingError, match=r"`example` must be a batch that the model accepts.*\(1, 63\)"
    ):
        HAT(mlp(), torch.zeros(1, 63), tasks=2)


def test_running_statistics_are_refused() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(UnsupportedLayerError, match=r"running statistics.*: 1\. Use GroupNorm"):
        HAT(net, torch.zeros(2, 4), tasks=2)


def test_a_network_without_hidden_nodes_is_refused() -> None:
    with pytest.raises(UnsupportedLayerError, match="no hidden nodes that could be gated"):
        HAT(nn.Linear(4, 2), torch.zeros(1, 4), tasks=2)


def test_tasks_beyond_the_number_given_are_refused() -> None:
    method = HAT(mlp(), torch.zeros(1, 64), tasks=2)
    with pytest.raises(TaskError, match="has `index` 2, but this HAT was built for 2 tasks"):
        method.begin_task(digit_pairs(3)[2])
    with pytest.raises(TaskError, match=r"`task` must be one of the 2 tasks.*\(0 to 1\), got 2"):
        method.inference(2).__enter__()


def test_a_step_needs_its_progress() -> None:
    method = HAT(mlp(), torch.zeros(1, 64), tasks=2)
    with pytest.raises(TaskError, match="`progress` is needed here: gates harden"):
        method.begin_step(batch_size=3)
    with pytest.raises(SettingError, match=r"`progress` must lie between 0 and 1, got 1\.5"):
        method.begin_step(progress=1.5)
