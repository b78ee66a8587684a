"""What UCL remembers of what its layers were given, and what follows from it for its penalty."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from uclearn import UCL
from uclearn.errors import TaskError
from uclearn.gaussian import convert
from uclearn.gaussian.layers import GaussianLayer
from uclearn.methods.ucl.outputs import OutputAnchor
from uclearn.methods.ucl.seen import RecentCalls, SeenInputs
from uclearn.surgery.growth import widen


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gaussian(layer: nn.Module) -> GaussianLayer:
    converted = convert(nn.Sequential(layer.double()), sigma=0.1)[0]  # type: ignore[index]
    assert isinstance(converted, GaussianLayer)
    return converted


def certain(layer: GaussianLayer, x: Tensor) -> OutputAnchor:
    """As a task on `x` left the layer: its nodes are certain, each a little more than the last."""
    held = OutputAnchor(layer)
    held.sigma.mul_(torch.linspace(0.8, 0.2, len(held.sigma)))
    held.seen.add_task(held.seen.sums(layer.inputs_seen(x)))
    held.tighten(torch.zeros(0), True, torch.tensor(1.0), None)
    assert (held._node > 0).all()
    return held


def network() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 3)).double()


def anchors(method: UCL) -> list[OutputAnchor]:
    return [held for held in method.held if isinstance(held, OutputAnchor)]


def hidden(method: UCL, x: Tensor) -> Tensor:
    with method.inference() as net, torch.no_grad():
        assert isinstance(net, nn.Sequential)
        said: Tensor = net[1](net[0](x))
    return said


# -- moments -------------------------------------------------------------------------------


def test_moments_are_those_of_all_that_was_given() -> None:
    layer = gaussian(nn.Linear(5, 4))
    seen, rows = SeenInputs(layer), draws(30, 5)
    for _ in range(2):  # a task like the one before changes nothing
        seen.add_task(seen.sums(layer.inputs_seen(rows)))
        given = seen.given()
        assert given is not None
        unit = (rows.square().sum() / 30 + 1) / 6  # the diagonal is 1 on average
        centred = rows - rows.mean(0)
        torch.testing.assert_close(given.one, (1 / unit).sqrt())
        torch.testing.assert_close(given.mean[0], rows.mean(0) / unit.sqrt())
        torch.testing.assert_close(given.covariance[0, 0], centred.T @ centred / 30 / unit)


def test_every_task_counts_alike_whatever_its_size_and_units() -> None:
    layer = gaussian(nn.Linear(5, 4))
    tasks = [draws(30, 5), 100 * draws(7, 5, seed=1), 0.01 * draws(300, 5, seed=2)]
    seen = SeenInputs(layer)
    alone = []
    for rows in tasks:
        seen.add_task(seen.sums(layer.inputs_seen(rows)))
        one = SeenInputs(layer)
        one.add_task(one.sums(layer.inputs_seen(rows)))
        alone.append(one)
    for name in ("corner", "edge", "blocks"):
        expected = torch.stack([one.get_buffer(name) for one in alone]).mean(0)
        torch.testing.assert_close(seen.get_buffer(name), expected)


def test_blocks_are_no_more_numbers_than_the_weights() -> None:
    seen = SeenInputs(gaussian(nn.Linear(784, 100)))
    assert seen.blocks.shape == (1, 8, 98, 98)
    assert seen.blocks.numel() <= 784 * 100


def test_before_the_first_task_nothing_is_known() -> None:
    assert SeenInputs(gaussian(nn.Linear(5, 4))).given() is None


# -- the penalty, against what layers do say ------------------------------------------------


LAYERS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "linear": (lambda: nn.Linear(5, 4), draws(9, 5)),
    "linear without bias": (lambda: nn.Linear(5, 4, bias=False), draws(9, 5)),
    "linear on sequences": (lambda: nn.Linear(5, 4), draws(3, 3, 5)),
    "embedding": (lambda: nn.Embedding(7, 3), torch.tensor([[0, 1, 1], [3, 3, 3], [6, 0, 1]])),
    "embedding of one": (lambda: nn.Embedding(7, 1), torch.tensor([[0, 1, 1], [3, 3, 6]])),
    "pointwise": (lambda: nn.Conv2d(4, 6, 1), draws(3, 4, 2, 2)),
    "pointwise, grouped": (lambda: nn.Conv2d(4, 6, 1, groups=2), draws(3, 4, 2, 2)),
    "1d": (lambda: nn.Conv1d(4, 6, 1, groups=2), draws(3, 4, 5)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 1), draws(3, 4, 2, 2)),
    "transposed, grouped": (lambda: nn.ConvTranspose2d(4, 6, 1, groups=2), draws(3, 4, 2, 2)),
}
KERNELS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "3x3": (lambda: nn.Conv2d(4, 6, 3), draws(3, 4, 5, 5)),
    "grouped": (lambda: nn.Conv2d(4, 6, 3, groups=2), draws(3, 4, 5, 5)),
    "each channel on its own": (lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4), draws(3, 4, 5, 5)),
    "padded, with gaps": (
        lambda: nn.Conv2d(3, 5, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        draws(3, 3, 6, 7),
    ),
    "same": (lambda: nn.Conv2d(2, 5, (1, 3), padding="same", dilation=2), draws(3, 2, 5, 4)),
    "round the edge": (
        lambda: nn.Conv2d(2, 5, 3, padding=1, padding_mode="circular"),
        draws(3, 2, 5, 4),
    ),
    "not in a batch": (lambda: nn.Conv2d(2, 5, 3, padding=1), draws(2, 5, 4)),
    "1d, 3 wide": (lambda: nn.Conv1d(4, 6, 3, stride=2), draws(3, 4, 9)),
    "3d": (lambda: nn.Conv3d(2, 3, 2, stride=(1, 2, 1), padding=1), draws(2, 2, 3, 4, 3)),
    "transposed, 3x3": (lambda: nn.ConvTranspose2d(4, 6, 3, groups=2), draws(3, 4, 5, 5)),
    "transposed, with gaps": (
        lambda: nn.ConvTranspose2d(
            3, 5, (3, 2), stride=(2, 3), padding=1, output_padding=(1, 2), dilation=(2, 1)
        ),
        draws(2, 3, 4, 5),
    ),
    "transposed, 1d": (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=3), draws(3, 4, 9)),
}


@pytest.mark.parametrize("name", [*LAYERS, *KERNELS])
def test_the_penalty_is_the_mean_squared_change_of_what_the_layer_says(name: str) -> None:
    build, x = (LAYERS | KERNELS)[name]
    torch.manual_seed(0)
    layer = gaussian(build())
    held = certain(layer, x)

    def said() -> Tensor:
        """(places, nodes) by the layer in mean."""
        out: Tensor = layer.eval()(x)
        nodes_at = -1 if isinstance(layer, nn.Linear | nn.Embedding) else -len(x.shape[1:])
        nodes_at = 0 if name == "not in a batch" else nodes_at
        return out.movedim(nodes_at, -1).flatten(0, -2)

    before = said().detach()
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias if hasattr(layer, "bias") else None):
            if parameter is not None:
                parameter.add_(draws(*parameter.shape, seed=3))
        term = held.output_term(0.5)
    assert term is not None
    rows = layer.inputs_seen(x)
    inputs = held.seen.edge.shape[1]
    size = 1.0 if held.seen.words else float(rows.square().mean() * inputs)
    unit = (size + 1) / (inputs + 1)
    weighed = held._node.flatten() / unit  # a node's weight is the anchor's affair
    expected = 0.5 * (weighed * (said() - before).square().mean(0)).sum() / 2
    torch.testing.assert_close(term.value, expected.detach(), rtol=1e-9, atol=0)
    slopes = torch.autograd.grad(expected, list(term.parameters))
    for found, slope in zip(term.gradients, slopes, strict=True):
        torch.testing.assert_close(found, slope, rtol=1e-9, atol=1e-12)


def by_loop(held: OutputAnchor, scale: float) -> Tensor:
    """Over groups and nodes one by one."""
    given, layer = held.seen.given(), held.layer
    assert given is not None
    moved = (layer.inputs_last(layer.weight) - layer.inputs_last(held.weight)).flatten(2)
    shift = (layer.bias - held.bias).view(held._node.shape)
    total = torch.zeros((), dtype=torch.float64)
    for group, node in ((g, n) for g in range(moved.shape[0]) for n in range(moved.shape[1])):
        d = moved[group, node]
        whole = torch.block_diag(*given.covariance[group])[: len(d), : len(d)]
        steady = d @ given.mean[group] + shift[group, node] * given.one
        total = total + held._node[group, node] * (steady**2 + d @ whole @ d) / 2 * scale
    return total


@pytest.mark.parametrize("last", [False, True], ids=["", "channels last"])
@pytest.mark.parametrize("name", [*KERNELS, *(n for n in LAYERS if "grouped" in n)])
def test_value_and_gradient_are_those_of_a_loop(name: str, last: bool) -> None:
    build, x = {**LAYERS, **KERNELS}[name]
    torch.manual_seed(0)
    layer = gaussian(build())
    if last and layer.weight.dim() == 4:
        layer = layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    held = certain(layer, x)
    with torch.no_grad():
        layer.weight.add_(draws(*layer.weight.shape, seed=3))
        layer.bias.add_(draws(*layer.bias.shape, seed=4))
        term = held.output_term(0.5)
    assert term is not None
    expected = by_loop(held, 0.5)
    slopes = torch.autograd.grad(expected, [layer.weight, layer.bias])
    torch.testing.assert_close(term.value, expected.detach(), rtol=1e-10, atol=0)
    for found, slope in zip(term.gradients, slopes, strict=True):
        torch.testing.assert_close(found, slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*LAYERS, *KERNELS])
def test_what_is_added_to_gradients_is_the_gradient(name: str, precision: torch.dtype) -> None:
    build, x = {**LAYERS, **KERNELS}[name]
    torch.manual_seed(0)
    held = certain(gaussian(build()), x)
    layer = held.layer
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(draws(*parameter.shape, seed=3))
    held.to(precision)
    layer.to(precision)
    held.tighten(torch.zeros(0), True, torch.tensor(1.0), None)
    with torch.no_grad():
        term = held.output_term(0.5)
    assert term is not None
    for parameter in term.parameters:
        parameter.grad = torch.ones_like(parameter)
    with torch.no_grad():
        held.add_output_gradients(0.5)
    for parameter, gradient in zip(term.parameters, term.gradients, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, 1 + gradient)


@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_what_is_frozen_gets_no_gradient_and_the_other_is_held(frozen: str) -> None:
    layer = gaussian(nn.Linear(5, 4))
    held = certain(layer, draws(9, 5))
    layer.get_parameter(frozen).requires_grad_(False)
    other = layer.get_parameter("bias" if frozen == "weight" else "weight")
    with torch.no_grad():
        other.add_(1.0)
        term = held.output_term(1.0)
    assert term is not None
    assert term.value > 0
    assert len(term.parameters) == 1
    assert term.parameters[0] is other
    assert term.gradients[0].shape == other.shape


# -- a method's life -----------------------------------------------------------------------


def one_task(method: UCL, x: Tensor, steps: int = 3) -> None:
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    for _ in range(steps):
        optimizer.zero_grad()
        (method.model(x).square().mean() + method.penalty(batch_size=len(x))).backward()
        optimizer.step()


def test_a_loop_of_ones_own_need_not_pass_anything() -> None:
    """What the model was called with in training mode is what the task gave it."""
    x, other = draws(8, 6), draws(8, 6, seed=1)
    method = UCL(network(), x, seed=3)
    one_task(method, x, steps=2)
    with method.inference() as net, torch.no_grad():
        net(other)  # to look is not to train
    twin = copy.deepcopy(method)
    method.end_task()
    twin.end_task(inputs=[x])
    for mine, theirs in zip(anchors(method), anchors(twin), strict=True):
        torch.testing.assert_close(mine.seen.blocks, theirs.seen.blocks)
    assert not method._recent.calls  # the next task starts anew


def test_a_task_of_which_nothing_was_seen_cannot_end() -> None:
    method = UCL(network(), draws(1, 6))
    before = copy.deepcopy(method.state_dict())
    with pytest.raises(TaskError, match=r"method\.end_task\(inputs=\[x1, x2, \.\.\.\]\)"):
        method.end_task()
    assert all(torch.equal(method.state_dict()[key], value) for key, value in before.items())


def test_inputs_that_are_not_finite_change_nothing() -> None:
    method = UCL(network(), draws(1, 6))
    before = copy.deepcopy(method.state_dict())
    with pytest.raises(TaskError, match="not finite"):
        method.end_task(inputs=[draws(4, 6), draws(4, 6) * torch.inf])
    assert all(torch.equal(method.state_dict()[key], value) for key, value in before.items())


def test_right_after_a_task_the_drift_is_zero_and_then_grows() -> None:
    x = draws(8, 6)
    method = UCL(network(), x, inflate=False)
    one_task(method, x)
    method.end_task()
    still = method.penalty(batch_size=1)
    with torch.no_grad():
        method.model[0].weight.add_(0.1)  # type: ignore[index]
    assert method.penalty(batch_size=1) > still


def test_a_direction_that_was_never_seen_is_free() -> None:
    x = draws(8, 6)
    x[:, 2] = 0
    method = UCL(network(), x)
    with torch.no_grad():
        method.model[0].rho.sub_(1.0)  # type: ignore[index]  # certain nodes
    method.end_task(inputs=[x])
    before, said = method.penalty(batch_size=1), hidden(method, x)
    with torch.no_grad():
        method.model[0].weight[:, 2] += 5.0  # type: ignore[index]
    torch.testing.assert_close(method.penalty(batch_size=1), before)
    assert torch.equal(hidden(method, x), said)
    with torch.no_grad():
        method.model[0].weight[:, 1] += 5.0  # type: ignore[index]
    assert method.penalty(batch_size=1) > before + 1


def test_idle_inputs_are_silenced_without_a_change_of_what_was_learned() -> None:
    x = draws(40, 6)
    x[:, 2] = 0
    net = network()
    with torch.no_grad():
        net[0].bias[4] = -1e6  # type: ignore[operator]  # it never speaks
    plain, silenced = (UCL(net, x, silence_idle=each) for each in (False, True))
    for method in (plain, silenced):
        method.end_task(inputs=[x])
    with plain.inference() as one, silenced.inference() as other, torch.no_grad():
        assert torch.equal(one(x), other(x))
    first, second = (silenced.model[place].weight for place in (0, 2))  # type: ignore[index]
    assert (first[:, 2] == 0).all()
    assert (second[:, 4] == 0).all()
    assert int((first == 0).sum()) == 10
    assert int((second == 0).sum()) == 3


def test_a_saved_method_goes_on_bit_for_bit() -> None:
    x, y = draws(8, 6), draws(8, 6, seed=1)
    method = UCL(network(), x)
    one_task(method, x)
    method.end_task()
    twin = UCL(network(), x, seed=9)
    twin.load_state_dict(method.state_dict())
    copies = (twin, copy.deepcopy(method))
    for each in copies:
        with torch.no_grad():
            each.model[0].weight.add_(0.1)  # type: ignore[index]
    with torch.no_grad():
        method.model[0].weight.add_(0.1)  # type: ignore[index]
    expected = method.penalty(batch_size=4)
    method.end_task(inputs=[y])
    for each in copies:
        assert torch.equal(each.penalty(batch_size=4), expected)
        each.end_task(inputs=[y])
        for mine, theirs in zip(anchors(each), anchors(method), strict=True):
            assert torch.equal(mine.seen.blocks, theirs.seen.blocks)


def test_a_copy_listens_to_its_own_model_only() -> None:
    method = UCL(network(), draws(1, 6))
    method.model(draws(8, 6))
    twin = copy.deepcopy(method)
    twin.model(draws(4, 6))
    assert [len(arguments[0]) for arguments, _ in method._recent.calls] == [8]
    assert [len(arguments[0]) for arguments, _ in twin._recent.calls] == [4]


def test_what_is_exported_is_not_listened_to() -> None:
    method = UCL(network(), draws(1, 6))
    exported = method.export().train()
    assert not exported._forward_pre_hooks
    exported(draws(2, 6))
    assert not method._recent.calls


def test_no_more_calls_are_remembered_than_fit() -> None:
    recent, net = RecentCalls(), nn.Linear(2, 1)
    recent.listen_to(net)
    for _ in range(100):
        net(torch.zeros(3, 2))
    assert len(recent.calls) == 16
    with torch.no_grad():
        net(torch.ones(3, 2))
    net.eval()(torch.ones(3, 2))
    assert all(bool((arguments[0] == 0).all()) for arguments, _ in recent.calls)


def test_a_wider_network_remembers_the_same_of_its_old_inputs() -> None:
    x = draws(20, 6)
    method = UCL(network(), x)
    one_task(method, x)
    method.end_task()
    narrow = method.penalty(batch_size=1)
    wide = widen(method, 1.5, x[:1])
    assert isinstance(wide, UCL)
    old, new = anchors(method)[1].seen, anchors(wide)[1].seen
    known = slice(0, 10)
    torch.testing.assert_close(new.edge[:, known], old.edge)
    torch.testing.assert_close(new.blocks[0, 0, known, known], old.blocks[0, 0])
    given = new.given()
    assert given is not None
    torch.testing.assert_close(new.edge[0, 10:], old.edge.mean().expand(5))
    assert given.covariance[0, 0, 10:, :10].abs().max() < 1e-12  # of its own, and not with others
    size = old.blocks[0, 0].diagonal().mean()
    torch.testing.assert_close(new.blocks[0, 0].diagonal()[10:], size.expand(5))
    assert wide.penalty(batch_size=1).isfinite()
    assert narrow.isfinite()
    with wide.inference() as one, method.inference() as other, torch.no_grad():
        torch.testing.assert_close(one(x), other(x))


def test_nobody_may_listen_to_a_new_node_at_once() -> None:
    """It was not there in the tasks before, but says something to their inputs."""
    x = draws(20, 6)
    method = UCL(network(), x)
    one_task(method, x)
    method.end_task()
    wide = widen(method, 1.5, x[:1])
    assert isinstance(wide, UCL)
    weight = wide.model.get_parameter("2.weight")
    with torch.no_grad():
        weight[:, 10:] += 0.1
    (gradient,) = torch.autograd.grad(wide.penalty(batch_size=1), weight)
    assert (gradient[:, 10:] > 0).all()


# -- room ----------------------------------------------------------------------------------


def test_directions_are_taken_as_inputs_take_them() -> None:
    layer = gaussian(nn.Linear(4, 70))
    alike = torch.cat([torch.eye(4), -torch.eye(4)]).double()
    one = alike[:, :1] @ torch.tensor([[1.0, 2.0, -1.0, 3.0]]).double()
    for x, share in ((alike, 1.0), (one, 0.25), (alike * torch.tensor([1, 1, 0, 0]), 0.5)):
        seen = SeenInputs(layer)
        assert seen.taken() == 0.0
        seen.add_task(seen.sums(layer.inputs_seen(x)))
        assert seen.taken() == pytest.approx(share)
    words = gaussian(nn.Embedding(8, 3))
    seen = SeenInputs(words)
    seen.add_task(seen.sums(words.inputs_seen(torch.tensor([[1, 5], [5, 1]]))))
    assert seen.taken() == 0.25


def test_weights_that_are_held_take_all_directions() -> None:
    x = draws(20, 6)
    assert UCL(network(), x, hold="weights").taken() == {}
    assert list(UCL(network(), x).taken()) == ["0", "2"]


# -- copies and precision ------------------------------------------------------------------


def test_what_was_shortened_for_autocast_is_looked_at_in_full() -> None:
    x = torch.randn(8, 6).bfloat16()
    method = UCL(network().float(), torch.zeros(1, 6))
    with torch.autocast("cpu", torch.bfloat16):
        method.model(x)
    method.end_task()
    twin = UCL(network().float(), torch.zeros(1, 6))
    twin.end_task(inputs=[x.float()])
    for mine, theirs in zip(anchors(method), anchors(twin), strict=True):
        torch.testing.assert_close(mine.seen.blocks, theirs.seen.blocks)


def test_what_is_given_by_name_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few large batches are remembered, however they are handed over."""
    monkeypatch.setattr("uclearn.methods.ucl.seen._REMEMBERED_BYTES", 3 * 8 * 4 * 4)
    method = UCL(nn.Linear(4, 2), torch.zeros(1, 4))
    for _ in range(9):
        method.model(input=torch.zeros(8, 4))
    assert len(method._recent.calls) == 3
