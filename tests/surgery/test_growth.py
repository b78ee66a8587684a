"""More nodes, the same function; new nodes are free, old ones are held as before."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load, save
from torch import Tensor, nn

from tests.paper_ucl import paper_ucl
from tests.surgery.networks import NETWORKS, answers, build, make_certain
from uclearn import Method
from uclearn.errors import SettingError, UnsupportedLayerError
from uclearn.methods.hat import HAT
from uclearn.methods.lwf import LwF
from uclearn.methods.registry import build as build_method
from uclearn.methods.vcl import VCL
from uclearn.networks import MultiHead, mlp, run
from uclearn.surgery.anatomy import widths
from uclearn.surgery.growth import widen, widen_network
from uclearn.tasks import Data, Task
from uclearn.topology import trace


def learn(method: Method, x: Tensor, steps: int = 8, task: int = 0) -> None:
    """A few steps on made-up labels, and the end of the task."""
    torch.manual_seed(task)
    optimizer = torch.optim.Adam(method.parameter_groups(lr=0.01))
    y = torch.randint(2, (len(x),))
    for _ in range(steps):
        method.begin_step(task=task, batch_size=len(x))
        loss = F.cross_entropy(run(method.model, x, task), y)
        loss = loss + method.penalty(task=task, batch_size=len(x))
        optimizer.zero_grad()
        loss.backward()
        method.adjust_gradients(batch_size=len(x))
        optimizer.step()
        method.end_step()
    method.end_task(
        losses=lambda: [F.cross_entropy(run(method.model, x, task), y, reduction="none")],
        inputs=[x],
    )


def close(left: list[Tensor], right: list[Tensor]) -> None:
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("by", [1.1, 2.0])
def test_a_wider_network_computes_the_same(name: str, by: float) -> None:
    net, x = build(name)
    wide = widen_network(net, by, x[:1])
    close(answers(wide, x), answers(net, x))
    grown = {n for n, nodes in widths(wide).items() if nodes > widths(net)[n]}
    outputs = {"4", "out", "heads.0", "heads.1"}
    assert grown == widths(net).keys() - outputs
    for n in grown:
        assert widths(wide)[n] >= by * widths(net)[n]


@pytest.mark.parametrize("name", NETWORKS)
def test_every_new_node_is_alive_and_every_old_one_reads_nothing_of_it(name: str) -> None:
    """What leads into new nodes is drawn, what leads from them to old ones is 0."""
    net, x = build(name)
    wide = widen_network(net, 1.5, x[:1])
    old, new = dict(net.named_modules()), dict(wide.named_modules())
    for layer, nodes in widths(net).items():
        weight, before = (m[layer].weight.detach().flatten(1) for m in (new, old))
        assert all(bool(row.any()) for row in weight[nodes:])
        torch.testing.assert_close(
            weight[:nodes].abs().sum(1), before.abs().sum(1), rtol=1e-5, atol=1e-5
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_ucl_widened_after_a_task_answers_the_same_and_its_nodes_are_free(name: str) -> None:
    net, x = build(name)
    method = paper_ucl(net, x[:1], beta=0.01, ratio=0.3)
    learn(method, x)
    before = answers(method.model, x)
    wide = widen(method, 1.5, x[:1])
    close(answers(wide.model, x), before)
    for layer, strengths in method.strengths().items():
        now = wide.strengths()[layer]
        torch.testing.assert_close(now[: len(strengths)], strengths)
        torch.testing.assert_close(now[len(strengths) :], torch.ones(len(now) - len(strengths)))
        initial = method.sigmas()[layer] * strengths
        torch.testing.assert_close(
            wide.sigmas()[layer][len(strengths) :], initial[:1].expand(len(now) - len(strengths))
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_right_after_widening_nothing_pulls(name: str) -> None:
    """New weights are anchored where they are: eq. (4) and (5) are zero, as they were."""
    net, x = build(name)
    method = paper_ucl(net, x[:1], beta=0.0)
    learn(method, x)
    wide = widen(method, 1.5, x[:1])
    assert wide.penalty(batch_size=1).item() == 0.0


@pytest.mark.parametrize("name", NETWORKS)
def test_the_topology_is_that_of_a_method_built_on_the_wide_network(name: str) -> None:
    net, x = build(name)
    wide = widen(paper_ucl(net, x[:1]), 1.5, x[:1])
    fresh = paper_ucl(wide.export(), x[:1])
    assert dict(wide.topology.offsets) == dict(fresh.topology.offsets)
    for layer, table in fresh.topology.sources.items():
        assert torch.equal(wide.topology.sources[layer], table), layer


def test_a_weight_is_held_by_the_stronger_of_its_nodes_new_or_old() -> None:
    """By hand: the penalty of moving single weights of the widened network is Lambda^2 / 2."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    method = paper_ucl(net, torch.zeros(1, 2), beta=0.0, freeze=False, sigma=0.1)
    for layer, sigma in (("0", [0.05, 0.1]), ("2", [0.02, 0.1])):
        make_certain(method.model, layer, torch.tensor(sigma).expm1().log())
    method.end_task()  # strengths 2, 1 and 5, 1
    wide = widen(method, {"0": 1}, torch.zeros(1, 2))

    def pull(layer: str, row: int, column: int) -> float:
        weight = wide.model.get_submodule(layer).weight
        assert isinstance(weight, Tensor)
        with torch.no_grad():
            weight[row, column] += 1.0
            value = wide.penalty(batch_size=1).item()
            weight[row, column] -= 1.0
        return value

    assert pull("0", 2, 0) == pytest.approx(1 / 2, rel=1e-4)  # into the new node, from an input
    assert pull("2", 0, 2) == pytest.approx(25 / 2, rel=1e-4)  # from it into a certain node
    assert pull("2", 1, 2) == pytest.approx(1 / 2, rel=1e-4)  # from it into a free node
    assert pull("2", 1, 0) == pytest.approx(4 / 2, rel=1e-4)  # between old nodes, as before


def test_new_nodes_learn_while_what_is_held_holds() -> None:
    net = mlp(6, (8, 8), None)
    assert isinstance(net, MultiHead)
    net.add_head(2)
    net.add_head(2)
    torch.manual_seed(0)
    x = torch.randn(64, 6)
    method = paper_ucl(net, x[:1], beta=0.001, ratio=0.2, lr_sigma=0.05)
    learn(method, x, steps=200)
    for name in ("trunk.0", "trunk.2"):  # the certain end of what UCL can say
        make_certain(method.model, name, -9.0)
    method.end_task()
    wide = widen(method, {"trunk.0": 8, "trunk.2": 8}, x[:1])
    start = copy.deepcopy(wide.model.state_dict())
    learn(wide, x, steps=50, task=1)

    def moved(key: str, rows: slice, columns: slice) -> float:
        weight = wide.model.state_dict()[key] - start[key]
        return float(weight[rows, columns].abs().mean())

    old, new, every = slice(0, 8), slice(8, 16), slice(None)
    assert moved("trunk.0.weight", old, every) < 1e-3
    assert moved("trunk.2.weight", old, old) < 1e-3
    assert moved("trunk.2.weight", old, new) < 1e-3  # held near 0: the old nodes hear nothing new
    assert moved("trunk.0.weight", new, every) > 1e-2
    assert moved("trunk.2.weight", new, new) > 1e-2
    assert moved("heads.1.weight", every, new) > 1e-2
    assert not wide.model.state_dict()["heads.1.weight"][:, 8:].eq(0).any()


def test_what_old_tasks_answer_stays_while_new_nodes_learn() -> None:
    """The end of the test above, seen from outside: head 0 through certain nodes only."""
    torch.manual_seed(1)
    x = torch.randn(32, 6)
    net = mlp(6, (8, 8), None)
    assert isinstance(net, MultiHead)
    net.add_head(2)
    net.add_head(2)
    method = paper_ucl(net, x[:1], ratio=0.2, batch_norm="shared")
    for name in ("trunk.0", "trunk.2"):
        make_certain(method.model, name, -9.0)
    method.end_task()
    wide = widen(method, 2.0, x[:1])
    before = answers(wide.model, x)[0]
    learn(wide, x, steps=50, task=1)
    torch.testing.assert_close(answers(wide.model, x)[0], before, rtol=0, atol=0.02)


def test_a_widened_state_is_saved_and_loaded() -> None:
    """Into a method built from the first network and widened to the saved widths."""
    net, x = build("residual")
    method = paper_ucl(net, x[:1], batch_norm="per-task")
    learn(method, x)
    wide = widen(method, 1.5, x[:1])
    learn(wide, x, task=1)
    saved = load(save({k: v.contiguous() for k, v in wide.state_dict().items()}))
    other = paper_ucl(net, x[:1], batch_norm="per-task")
    before = widths(other.model)
    after = {name: nodes - before[name] for name, nodes in widths(wide.model).items()}
    other = widen(other, {n: k for n, k in after.items() if k}, x[:1])
    other.load_state_dict(saved)
    for task in (0, 1):
        with wide.inference(task) as one, other.inference(task) as two:
            assert torch.equal(run(one, x, task), run(two, x, task))
    assert torch.equal(wide.penalty(batch_size=8), other.penalty(batch_size=8))


def test_statistics_of_every_task_are_kept_and_old_answers_with_them() -> None:
    net, x = build("residual")
    method = paper_ucl(net, x[:1], batch_norm="per-task")
    learn(method, x)
    learn(method, 2 * x + 1, task=1)
    wide = widen(method, 1.5, x[:1])
    for task in (0, 1):
        with method.inference(task) as one, wide.inference(task) as two, torch.no_grad():
            torch.testing.assert_close(run(two, x, task), run(one, x, task), rtol=1e-4, atol=1e-5)
            for key, neutral in (("running_mean", 0.0), ("running_var", 1.0)):
                before, now = (net.get_buffer(f"trunk.1.{key}") for net in (one, two))
                assert torch.equal(now, torch.cat([before, torch.full((2,), neutral)]))


@pytest.mark.parametrize("kind", ["finetuning", "ewc", "si", "mas", "rwalk", "ewc+replay"])
def test_other_methods_grow_with_neutral_values(kind: str) -> None:
    """The penalty of a moved network is the same before and after: new weights add nothing."""
    net, x = build("residual")
    method = build_method(kind, net, x[:1])
    inner = getattr(method, "method", method)
    learn(inner, x)
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.add_(0.01)
    before, held = answers(method.model, x), method.penalty().item()
    method.model.train()
    wide = widen(method, 1.5, x[:1])
    close(answers(wide.model, x), before)
    assert wide.penalty().item() == pytest.approx(held, rel=1e-5)
    with torch.no_grad():
        layer = wide.model.get_submodule("trunk.0")
        assert isinstance(layer.weight, Tensor)
        layer.weight[4:] += 1.0
    assert wide.penalty().item() == pytest.approx(held, rel=1e-5)
    learn(getattr(wide, "method", wide), x, steps=3, task=1)


@pytest.mark.parametrize("heads", [True, False])
@pytest.mark.parametrize("kind", [LwF, VCL])
def test_a_teacher_and_posteriors_grow_and_are_loaded(kind: Any, heads: bool) -> None:
    """A teacher stays as large as it was; new weights vary as in the beginning."""
    net = mlp(4, (6,), None if heads else 3)
    x, task = torch.randn(5, 4), Task("first", 0, Data(torch.randn(8, 4), torch.arange(8) % 3))
    method = kind(net, **({"start_epochs": 0} if kind is VCL else {}))
    method.begin_task(replace(task, classes=3))
    method.end_task()
    wide = widen(method, 2.0, x[:1])
    with method.inference(0) as small, wide.inference(0) as large, torch.no_grad():
        if kind is LwF:
            torch.testing.assert_close(run(large, x), run(small, x))
        else:  # new weights vary around 0
            assert (run(large, x) - run(small, x)).abs().max() < 0.5
        expected = run(large, x)
    if kind is VCL:
        layer = next(wide._all_layers())
        assert torch.all(layer.weight_log_variance == wide.initial_log_variance)
        assert torch.all(layer.prior_weight_log_variance[6:] == 0)  # N(0, 1)
        assert torch.equal(layer.prior_weight[:6], method._layers[0].prior_weight)
    again = widen(kind(net), 2.0, x[:1], seed=1)
    again.load_state_dict(wide.state_dict())
    with again.inference(0) as loaded, torch.no_grad():
        assert torch.equal(run(loaded, x), expected)
    assert torch.equal(*(m.penalty(inputs=x, examples=8) for m in (again, wide)))


def test_the_method_that_was_given_is_left_alone() -> None:
    net, x = build("residual")
    method = paper_ucl(net, x[:1])
    before = {key: value.clone() for key, value in method.state_dict().items()}
    widen(method, 2.0, x[:1])
    after = method.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_what_is_added_together_grows_together() -> None:
    net, x = build("residual")
    wide = widen_network(net, {"trunk.0": 2}, x[:1])
    grown = {n: nodes - widths(net)[n] for n, nodes in widths(wide).items()}
    assert {n: k for n, k in grown.items() if k} == {"trunk.0": 2, "trunk.3.second": 2}
    close(answers(wide, x), answers(net, x))


def test_new_features_of_a_batch_norm_are_neutral() -> None:
    net, x = build("residual")
    wide = widen_network(net, 1.5, x[:1]).state_dict()
    for key, neutral in {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}.items():
        old = net.state_dict()[f"trunk.1.{key}"]
        added = torch.full((2,), float(neutral))
        assert torch.equal(wide[f"trunk.1.{key}"], torch.cat([old, added]))


def test_a_new_head_reads_the_new_nodes() -> None:
    net, x = build("residual")
    wide = widen(paper_ucl(net, x[:1]), 1.5, x[:1])
    assert isinstance(wide.model, MultiHead)
    wide.model.add_head(4)
    assert answers(wide.model, x)[2].shape == (5, 4)


def test_before_the_first_task_there_are_no_heads_yet() -> None:
    method = paper_ucl(mlp(6, (8,), None), torch.zeros(1, 6))
    wide = widen(method, 2.0, torch.zeros(1, 6))
    assert isinstance(wide.model, MultiHead)
    wide.model.add_head(3)
    assert answers(wide.model, torch.zeros(2, 6))[0].shape == (2, 3)


class Encoder(nn.Module):
    """A residual stream under layer norms, which keep its width, around a layer that can grow."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = nn.Linear(3, 6), nn.LayerNorm(6)
        self.hidden, self.back = nn.Linear(6, 5), nn.Linear(5, 6)
        self.mixed = nn.Conv1d(6, 6, 1, groups=2)
        self.out = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Any:
        h = self.norm(self.enter(x))
        h = h + self.back(self.hidden(h).relu())
        return self.out(self.mixed(h.unsqueeze(2)).flatten(1))


@pytest.mark.parametrize("kind", ["ucl", "ewc", "si"])
def test_beside_layers_that_must_keep_their_width_others_grow(kind: str) -> None:
    torch.manual_seed(0)
    net, x = Encoder(), torch.randn(8, 3)
    method = build_method(kind, net, x[:1])
    learn(method, x)
    before = answers(method.model, x)
    wide = widen(method, 2.0, x[:1])
    assert widths(wide.model) == {**widths(net), "hidden": 10}
    close(answers(wide.model, x), before)
    wide.model.train()
    learn(wide, x, steps=3, task=1)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(7, 4, padding_idx=0), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Any:
        return self.out(self.words(x).mean(1))


def test_embeddings_get_more_dimensions_and_padding_stays_zero() -> None:
    torch.manual_seed(0)
    net, x = Words(), torch.tensor([[1, 2, 0], [6, 5, 4]])
    wide = widen_network(net, 2.0, x)
    close(answers(wide, x), answers(net, x))
    weight = wide.get_submodule("words").weight
    assert isinstance(weight, Tensor)
    assert weight.shape == (7, 8)
    assert not weight[0].any()
    assert weight[1:, 4:].all()


# -- refusals --------------------------------------------------------------------------------


class Lambda(nn.Module):
    """Two layers and something between them."""

    def __init__(self, between: Any, **modules: nn.Module) -> None:
        super().__init__()
        self.first, self.between, self.last = nn.Linear(3, 6), between, nn.Linear(6, 2)
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: Tensor) -> Any:
        return self.last(self.between(self, self.first(x), x))


@pytest.mark.parametrize(
    ("between", "modules", "reason"),
    [
        (lambda m, h, x: m.norm(h), {"norm": nn.LayerNorm(6)}, "`norm` (LayerNorm) normalises"),
        (
            lambda m, h, x: m.conv(h.unsqueeze(2)).flatten(1),
            {"conv": nn.Conv1d(6, 6, 1, groups=3)},
            "`conv` is a grouped convolution (groups=3)",
        ),
        (lambda m, h, x: h + x.repeat(1, 2), {}, "it is combined with an input"),
        (lambda m, h, x: m.act(h), {"act": nn.PReLU(6)}, "a module taken whole: `act` (PReLU)"),
        (lambda m, h, x: torch.ones(1, 6) * h.detach().shape[0], {}, "arrive at no layer"),
    ],
)
def test_a_layer_that_must_stay_is_refused_with_the_reason(
    between: Any, modules: dict[str, nn.Module], reason: str
) -> None:
    with pytest.raises(UnsupportedLayerError) as refusal:
        widen_network(Lambda(between, **modules), {"first": 2}, torch.randn(2, 3))
    assert "The layer `first` cannot be widened" in str(refusal.value)
    assert reason in str(refusal.value)


def test_a_size_written_into_the_forward_pass_is_named() -> None:
    net = Lambda(lambda m, h, x: h.view(-1, 6))
    with pytest.raises(UnsupportedLayerError) as refusal:
        widen_network(net, {"first": 2}, torch.randn(2, 3))
    assert "the operation `view` in the model itself (Lambda) fails" in str(refusal.value)
    assert "8 nodes in `first`" in str(refusal.value)


def test_features_arranged_by_a_size_of_their_own_are_refused() -> None:
    """Two heads of three: with eight nodes they would be two heads of four."""
    net = Lambda(lambda m, h, x: h.view(len(h), 2, -1).transpose(1, 2).flatten(1))
    with pytest.raises(UnsupportedLayerError, match="other nodes than expected reach `last`"):
        widen_network(net, {"first": 2}, torch.randn(2, 3))


def test_a_softmax_over_features_is_refused() -> None:
    net = Lambda(lambda m, h, x: h.softmax(1))
    with pytest.raises(UnsupportedLayerError, match="it computes something else"):
        widen_network(net, {"first": 2}, torch.randn(2, 3))


def test_halves_of_one_layer_that_meet_are_refused() -> None:
    net = Lambda(lambda m, h, x: h.chunk(2, 1)[0] * h.chunk(2, 1)[1])
    net.last = nn.Linear(3, 2)
    with pytest.raises(UnsupportedLayerError, match="meet in one feature at the input of `last`"):
        widen_network(net, {"first": 2}, torch.randn(2, 3))


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (1.0, "`by` must be a factor above 1 and finite, got 1.0"),
        ({"nowhere": 2}, "`by` must name layers of the network, got 'nowhere'"),
        ({"0": -1}, "`by` must hold whole numbers of nodes to add, got -1 for '0'"),
        ({"0": 0}, "`by` must add at least one node"),
        ({}, "`by` must add at least one node"),
    ],
)
def test_senseless_amounts(by: Any, words: str) -> None:
    net, x = build("mlp")
    with pytest.raises(SettingError) as refusal:
        widen_network(net, by, x)
    assert words in str(refusal.value)


def test_an_output_layer_is_refused_and_the_others_are_named() -> None:
    net, x = build("mlp")
    with pytest.raises(UnsupportedLayerError, match="these can be widened: 0, 2"):
        widen_network(net, {"4": 1}, x)
    with pytest.raises(UnsupportedLayerError, match="No layer of this network can be widened"):
        widen_network(nn.Linear(2, 2), 2.0, torch.zeros(1, 2))


def test_a_method_with_another_memory_is_refused() -> None:
    net, x = build("mlp")
    with pytest.raises(UnsupportedLayerError, match="A network under HAT cannot be widened"):
        widen(HAT(net, x[:1], tasks=2), 2.0, x[:1])


def test_tracing_is_not_left_behind() -> None:
    """The widened network carries no hooks, and can be traced as any other."""
    net, x = build("mlp")
    wide = widen_network(net, 2.0, x[:1])
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in wide.modules())
    layers = {n: wide.get_submodule(n) for n in ("0", "2", "4")}
    assert trace(wide, x, layers).total == 16 + 14 + 3
