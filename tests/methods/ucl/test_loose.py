"""Parameters of no known node are held row by row, by how much was found to hang on each."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uclearn import UCL
from uclearn.methods.ucl.looking import look
from uclearn.methods.ucl.loose import LooseAnchor, as_rows
from uclearn.methods.ucl.pretrained import by_chance, of_answers


class Recurrent(nn.Module):
    """A recurrent layer between two that have nodes, and a token."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first, self.memory, self.last = nn.Linear(3, 4), nn.GRU(4, 5), nn.Linear(5, 3)
        self.token = nn.Parameter(torch.randn(1, 1, 4))

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.memory(self.first(x).transpose(0, 1) + self.token)
        said: Tensor = self.last(states[-1])
        return said


X = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(5))


def loose(method: UCL) -> tuple[LooseAnchor, LooseAnchor]:
    """Of the token and of the recurrent layer."""
    token, recurrent = (held for held in method.held if isinstance(held, LooseAnchor))
    assert token.bundles == [["token"]]
    assert recurrent.bundles == [[name for name, _ in nn.GRU(4, 5).named_parameters()]]
    return token, recurrent


def gained_by(held: LooseAnchor) -> Tensor:
    return held.get_buffer("gained_0")


def brute_force(model: nn.Module, parameters: list[nn.Parameter]) -> tuple[Tensor, Tensor]:
    """Of g = d log p_k / d parameters, k drawn from p, example by example: the squares summed over
    each row, and g_a g_b summed over rows, for each pair of columns."""
    count = max(parameters[0].shape)
    width = sum(p.numel() for p in parameters) // count
    rows, columns = torch.zeros(count), torch.zeros(width, width)
    for example in X:
        for chance in model(example[None]).log_softmax(1)[0]:
            slopes = torch.autograd.grad(chance, parameters, retain_graph=True)
            for row in range(count):
                one = torch.cat([slope.reshape(count, -1)[row] for slope in slopes])
                rows[row] += chance.detach().exp() * one @ one
                columns += chance.detach().exp() * torch.outer(one, one)
    return rows / len(X), columns / len(X)


def test_what_hangs_on_a_row_is_the_information_about_its_numbers() -> None:
    method = UCL(Recurrent(), X[:1])
    bundles = [bundle for held in loose(method) for bundle in held.bundled()]
    layers = [anchor.layer for anchor in method._memory.gaussian()]
    passes = [lambda: [method.model(X)]] * 300  # signs are drawn: their mean is what counts
    found = look(method.model, layers, passes, loose=bundles, surprise=by_chance(classes=True))
    method.model.eval()
    for bundle, (rows, columns) in zip(bundles, found.rows, strict=True):
        exact = brute_force(method.model, bundle)
        for ours, theirs in zip((rows[0], columns[0, 0]), exact, strict=True):
            size = float(theirs.abs().max())
            torch.testing.assert_close(ours, theirs, rtol=0.2, atol=size / 10)
        assert float(rows.sum()) == pytest.approx(float(exact[0].sum()), rel=0.1)


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        *(((3,), (1, 3, 1)), ((1, 3, 1), (1, 3, 1)), ((), (1, 1, 1)), ((2, 3), (1, 2, 3))),
        *(((1, 2, 3), (1, 2, 3)), ((4, 2, 3), (4, 2, 3)), ((4, 2, 3, 5), (1, 4, 30))),
    ],
)
def test_rows_of_parameters_of_any_shape(shape: tuple[int, ...], rows: tuple[int, ...]) -> None:
    assert as_rows(torch.zeros(shape)).shape == rows


def learned(beta: float | None = None, steps: int = 3) -> UCL:
    method = UCL(Recurrent(), X[:1], beta="auto" if beta is None else beta)
    optimizer = torch.optim.Adam(method.parameter_groups(lr=0.01))
    y = torch.arange(6) % 3
    for _ in range(steps):
        loss = F.cross_entropy(method.model(X), y) + method.penalty(batch_size=6)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    method.end_task(inputs=[X[:2], X[2:]])
    return method


def test_a_row_is_held_by_what_hangs_on_it_as_a_node_would_be() -> None:
    method = learned()
    _, anchor = loose(method)
    passes = [lambda: [method.model(X[:2])], lambda: [method.model(X[2:])]]
    again = method._memory.look(method.model, passes, surprise=of_answers("classes"))
    rows, columns = again.rows[1]
    gained = 100 * 6 * rows[0] / 11  # caution, batch, curvature of one of 11 numbers
    torch.testing.assert_close(gained_by(anchor)[0], gained, rtol=1e-3, atol=1e-6)
    strength = gained + 0.3 * gained.mean()
    directions = columns[0, 0] / columns[0, 0].diagonal().mean()
    before = float(method.penalty(batch_size=1).detach())
    generator = torch.Generator().manual_seed(1)
    moved = [torch.randn(p.shape, generator=generator) for p in anchor.bundled()[0]]
    with torch.no_grad():
        for parameter, way in zip(anchor.bundled()[0], moved, strict=True):
            parameter.add_(way)
    loss = method.penalty(batch_size=1)
    side_by_side = torch.cat([way.view(15, -1) for way in moved], 1)
    pull = strength[:, None] * (side_by_side @ directions) + 0.3 * side_by_side
    by_hand = float((pull * side_by_side).sum()) / 2
    assert float(loss.detach()) - before == pytest.approx(by_hand, rel=1e-3)
    slopes = torch.autograd.grad(loss, anchor.bundled()[0])
    together = torch.cat([slope.view(15, -1) for slope in slopes], 1)
    torch.testing.assert_close(together, pull, rtol=1e-3, atol=1e-4)
    twin = UCL(Recurrent(), X[:1], closed_form=True)
    twin.load_state_dict(method.state_dict())
    twin.adjust_gradients(batch_size=1)
    theirs = twin.model.get_submodule("memory").parameters()
    for slope, parameter in zip(slopes, theirs, strict=True):
        torch.testing.assert_close(parameter.grad, slope)


def test_a_larger_beta_holds_rows_less_as_it_does_nodes() -> None:
    by_rule = learned()
    loosely = learned(beta=10 * by_rule.beta)
    ours, theirs = (gained_by(loose(each)[1]) for each in (by_rule, loosely))
    torch.testing.assert_close(theirs, ours / 10, rtol=0.2, atol=1e-3)  # sigma's noise differs


def test_what_was_measured_adds_up_over_tasks_and_is_state() -> None:
    method = learned()
    before = gained_by(loose(method)[0]).clone()
    assert before.shape == (1, 4)
    method.model(X)
    method.penalty(batch_size=6)
    method.end_task(inputs=[X])
    after = gained_by(loose(method)[0])
    assert bool((after > before).all())
    other = UCL(Recurrent(), X[:1])
    other.load_state_dict(method.state_dict())
    assert torch.equal(gained_by(loose(other)[0]), after)
    with torch.no_grad():
        for each in (method, other):
            each.model.get_parameter("token").add_(1)
        assert torch.equal(other.penalty(batch_size=1), method.penalty(batch_size=1))


def test_everything_is_found_in_one_pass_over_the_examples() -> None:
    method = UCL(Recurrent(), X[:1], pretrained=True)
    calls: list[int] = []
    method.model.register_forward_pre_hook(lambda *_: calls.append(1))
    method.end_task(inputs=[X, X])
    assert len(calls) == 2
    assert float(gained_by(loose(method)[0]).min()) > 0
    method.model(X)
    method.penalty(batch_size=6)
    calls.clear()
    method.end_task(inputs=[X, X, X])
    assert len(calls) == 3


def test_the_paper_s_way_measures_nothing_and_keeps_nothing_for_it() -> None:
    method = UCL(Recurrent(), X[:1], hold="weights")
    method.end_task()
    held = [held for held in method.held if isinstance(held, LooseAnchor)]
    assert [int(each.looks) for each in held] == [0, 0]
    nodes = sum(len(layer.rho) for layer in method._layers.values())
    weights = sum(p.numel() for p in method.model.parameters()) - nodes
    kept = sum(buffer.numel() for each in method.held for buffer in each.buffers())
    # a copy of the weights, a sigma for each node, a start for each layer, a count for each module
    assert kept == weights + nodes + len(method._layers) + len(held)
