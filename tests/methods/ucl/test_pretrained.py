"""What a network knew before UCL got it is measured, and held."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.permuted_digits import Examples, accuracy, network, permuted_digits
from uclearn import UCL, Method
from uclearn.errors import TaskError
from uclearn.gaussian import GaussianLayer, convert, use_means, use_samples
from uclearn.methods.ucl.looking import look
from uclearn.methods.ucl.outputs import OutputAnchor
from uclearn.methods.ucl.pretrained import by_chance, of_answers
from uclearn.methods.ucl.rules import PRICE
from uclearn.networks import MultiHead, mlp
from uclearn.tasks import Data, Task


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def brute_force(model: nn.Module, name: str, x: Tensor) -> Tensor:
    """(nodes,) the square of d log p_k / d weights of the node, summed over them, k drawn from p,
    example by example."""
    layer = model.get_submodule(name)
    weight = layer.get_parameter("weight")
    nodes_at = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
    total = torch.zeros(weight.shape[nodes_at], dtype=x.dtype)
    for example in x:
        chances = model(example[None]).log_softmax(1)[0]
        for chance in chances:
            (slope,) = torch.autograd.grad(chance, weight, retain_graph=True)
            by_node = slope.movedim(nodes_at, 0).flatten(1)
            total += chance.detach().exp() * by_node.square().sum(1)
    return total / len(x)


NETWORKS: dict[str, Callable[[], list[nn.Module]]] = {
    "linear": lambda: [nn.Flatten(), nn.Linear(9, 5), nn.Tanh(), nn.Linear(5, 3)],
    "conv": lambda: [nn.Conv2d(1, 4, 2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)],
    "grouped, many nodes": lambda: [
        *(nn.Conv2d(1, 4, 1), nn.Tanh(), nn.Conv2d(4, 40, 2, groups=2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(160, 3)),
    ],
    "transposed": lambda: [nn.ConvTranspose2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)],
    "places": lambda: [
        *(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 30), nn.Tanh()),
        *(nn.Flatten(), nn.Linear(90, 3)),
    ],
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_what_hangs_on_a_node_is_the_information_about_its_weights(kind: str) -> None:
    torch.manual_seed(3)
    net = nn.Sequential(*NETWORKS[kind]()).double()
    x = drawn(6, 1, 3, 3)
    model = convert(net, sigma=0.1)
    layers = {n: m for n, m in model.named_modules() if isinstance(m, GaussianLayer)}
    many = x.repeat(1000, 1, 1, 1)  # signs are drawn: their mean is what counts
    found = look(
        model, list(layers.values()), [lambda: [model(many)]] * 4, surprise=by_chance(classes=True)
    )
    assert found.batch_size == 6000
    for name, curvature in zip(layers, found.curvature, strict=True):
        torch.testing.assert_close(curvature, brute_force(net, name, x), rtol=0.08, atol=1e-4)


def taught(x: Tensor, y: Tensor) -> nn.Module:
    """A network that was trained without uclearn."""
    net = network(0, 64, 60, 10)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    torch.manual_seed(0)
    for _ in range(10):
        for rows in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    return net


def learn(method: Method, task: Examples) -> None:
    x, y = task
    method.task_steps = 10 * -(-len(x) // 32)
    optimizer = torch.optim.Adam(method.parameter_groups(lr=2e-3))
    torch.manual_seed(1)
    for _ in range(10):
        for rows in torch.randperm(len(x)).split(32):
            loss = F.cross_entropy(method.model(x[rows]), y[rows])
            (loss + method.penalty(batch_size=len(rows))).backward()
            optimizer.step()
            optimizer.zero_grad()
    method.end_task(inputs=x.split(256))


@pytest.mark.slow
def test_a_pretrained_network_keeps_what_it_knew(caplog: pytest.LogCaptureFixture) -> None:
    old, new = permuted_digits(0)
    net = taught(*old)
    methods: dict[str, Method] = {
        "forgets": Method(net),
        "not told": UCL(net, old[0][:1]),
        "shown": UCL(net, old[0][:1], pretrained=True),
        "shown nothing": UCL(net, old[0][:1], pretrained=True),
    }
    methods["shown"].end_task(inputs=old[0].split(32))
    kept = {}
    for name, method in methods.items():
        learn(method, new)
        kept[name] = accuracy(method, *old)
        assert accuracy(method, *new) > 0.85
    assert kept["shown"] > 0.93
    assert kept["shown"] > kept["forgets"] + 0.2
    assert kept["shown"] > kept["not told"] + 0.2
    assert kept["shown nothing"] > kept["forgets"] + 0.1
    assert caplog.messages == [
        "UCL was shown nothing of what the pretrained network knows, so it holds what the network "
        "makes of the inputs that the model was called with first. Better: "
        "`method.end_task(inputs=batches)`, before the first new task, with inputs that the "
        "network was trained on."
    ]


def test_looking_back_changes_no_answer_and_holds_everything_where_it_is() -> None:
    (x, y), _ = permuted_digits(0)
    net = taught(x, y)
    method = UCL(net, x[:1], pretrained=True)
    method.end_task(inputs=x.split(64))
    with method.inference() as same:
        torch.testing.assert_close(same(x), net(x))
    plain = UCL(net, x[:1], sigma=0.06)
    plain.end_task(inputs=x.split(64))
    assert plain.strengths()["0"].max() == 1
    assert method.strengths()["0"].min() >= 1
    assert method.strengths()["2"].max() > 2
    weight = method.model.get_parameter("0.weight")
    (gradient,) = torch.autograd.grad(method.penalty(batch_size=8), weight)
    assert not gradient.any()  # right at the anchor
    with torch.no_grad(), method.inference() as noisy, use_samples(noisy):
        right = (noisy(x).argmax(1) == y).float().mean()
    assert right > 0.96  # the noise leaves a finished network alone


def test_what_was_measured_is_state_and_not_measured_again() -> None:
    (x, y), _ = permuted_digits(0)
    net = taught(x, y)
    method, again = (UCL(net, x[:1], pretrained=True) for _ in range(2))
    method.end_task(inputs=x.split(64))
    again.load_state_dict(method.state_dict())
    before = again.strengths()
    (F.cross_entropy(again.model(x[:8]), y[:8]) + again.penalty(batch_size=8)).backward()
    for name, strength in again.strengths().items():
        assert torch.equal(strength, before[name])


def test_a_trainer_that_shows_nothing_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    network = mlp(6, (8,), None)
    x = drawn(20, 6).float()
    method = UCL(network, x[:1], pretrained=True)  # a trunk without heads
    with caplog.at_level(logging.WARNING, "uclearn"):
        method.begin_task(Task("first", 0, Data(x, torch.arange(20) % 2), classes=2))
    assert "makes of the inputs of task 'first'" in caplog.text
    assert method.strengths()["trunk.0"].max() > 1
    assert int(method.tasks_done) == 0  # no head is taken
    assert isinstance(method.model, MultiHead)
    assert len(method.model.heads) == 1


def test_heads_that_are_there_belong_to_tasks_that_are_done() -> None:
    network = mlp(6, (8,), None)
    assert isinstance(network, MultiHead)
    network.add_head(3)
    x = drawn(20, 6).float()
    method = UCL(network, x[:1], pretrained=True)
    method.end_task(inputs=[x])
    assert int(method.tasks_done) == 1


def test_without_anything_to_look_at_it_says_what_to_pass() -> None:
    method = UCL(nn.Linear(4, 2), torch.zeros(1, 4), pretrained=True)
    with pytest.raises(TaskError, match=r"`pretrained=True` UCL looks at .* it was given none.*"):
        method.penalty(batch_size=4)


@pytest.mark.parametrize("kind", ["shared", "per-task", "frozen"])
def test_running_statistics_that_came_with_the_network_stay(kind: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    x = drawn(32, 6).float()
    net(x + 2)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    method = UCL(net, x[:2], pretrained=True, batch_norm=kind)  # type: ignore[arg-type]
    method.end_task(inputs=[x])
    for key, value in method.export().state_dict().items():
        assert torch.equal(value, before[key])
    method.model(x - 3)
    moved = not torch.equal(method.model.get_buffer("1.running_mean"), before["1.running_mean"])
    assert moved == (kind != "frozen")
    with method.inference(0) as network:
        kept = torch.equal(network.get_buffer("1.running_mean"), before["1.running_mean"])
    assert kept == (kind != "shared")


def short_task(classes: int, batch_sizes: Sequence[int] = (16,)) -> UCL:
    """A network after so few steps that sigma could not move."""
    torch.manual_seed(0)
    x, y = torch.randn(32, 6), torch.randint(3, (32,))
    method = UCL(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), x[:1], lr_sigma=1e-9)
    optimizer = torch.optim.Adam(method.parameter_groups(lr=0.01))
    for size in batch_sizes:
        loss = F.cross_entropy(method.model(x), y) + method.penalty(batch_size=size)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    method.end_task(Task("a", 0, Data(x, y), classes=classes))
    return method


@pytest.mark.parametrize("batch_sizes", [(16,), (16, 3)], ids=["whole", "with a rest at the end"])
def test_after_a_short_task_nodes_are_as_certain_as_its_curvature_warrants(
    batch_sizes: Sequence[int],
) -> None:
    method = short_task(3, batch_sizes)
    torch.manual_seed(0)
    x = torch.randn(32, 6)  # what the task was
    layers = [held.layer for held in method.held if isinstance(held, OutputAnchor)]
    passes = [lambda: [method.model(x)]]
    found = look(method.model, layers, passes, surprise=of_answers("classes"))
    for held, curvature in zip(method.held, found.curvature, strict=True):
        assert isinstance(held, OutputAnchor)
        gained = 0.3 * float(held.initial) ** 2 * 16 * curvature / (2 * method.beta)
        torch.testing.assert_close(held.strength().square(), 1 + gained, rtol=1e-3, atol=1e-4)
        assert bool((held.strength() > 1).any())


def test_who_has_learned_to_be_more_certain_stays_so() -> None:
    method = short_task(3)
    for held in method.held:
        assert isinstance(held, OutputAnchor)
        held.layer.rho.data.fill_(-12.0)
        held.be_as_certain_as_measured(
            torch.ones_like(held.sigma), method.beta, 16, acted=False, lr=None
        )
        assert bool((held.layer.rho == -12).all())


def price_of_undoing(method: UCL, held: OutputAnchor, x: Tensor, batch_size: int) -> float:
    """In nats an example, from what a convolution says at each place."""
    patches = F.unfold(x, 3)  # (batch, inputs of a node, places)
    unit = (patches.square().sum(1).mean() + 1) / (patches.shape[1] + 1)
    with torch.no_grad(), use_means(method.model):
        said = method.model.get_submodule("0")(x).square().mean((0, 2, 3))  # (nodes,)
    gained = held.strength().square() - 1
    return float((gained * held.even * said / unit).sum() / (2 * batch_size))


@pytest.mark.parametrize("batch_size", [8, 256])
@pytest.mark.parametrize("scale", [0.1, 10.0])
@pytest.mark.parametrize("curvature", [1e-3, 1e4, 1e6])
def test_to_undo_all_that_a_convolution_says_costs_a_few_nats_at_most(
    curvature: float, scale: float, batch_size: int
) -> None:
    torch.manual_seed(0)
    x = scale * torch.randn(32, 2, 4, 4)
    first = nn.Conv2d(2, 4, 3)
    first.weight.data.div_(scale)
    method = UCL(nn.Sequential(first, nn.Flatten(), nn.Linear(4 * 4, 3)), x[:1])
    held = method.held[0]
    assert isinstance(held, OutputAnchor)
    passes = [lambda: [method.model(x)]]
    found = look(method.model, [held.layer], passes, seen=[held.seen], surprise=None)
    held.seen.add_task(found.sums[0])
    each = torch.full((4,), curvature)
    held.be_as_certain_as_measured(each, method.beta, batch_size, acted=False, lr=1e-6)
    held.remember()
    price = price_of_undoing(method, held, x, batch_size)
    if curvature > 1:
        assert price == pytest.approx(PRICE, rel=1e-3)
        return
    assert price < PRICE
    gained = float(held.initial) ** 2 * batch_size * curvature / (2 * method.beta)
    squares = torch.full((4,), 1 + gained)
    torch.testing.assert_close(held.strength().square(), squares, rtol=1e-3, atol=1e-4)
