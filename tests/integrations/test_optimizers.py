"""A method that follows an optimiser does what a loop does by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from lightning_fabric import Fabric
from torch import Tensor, nn

import uclearn
from uclearn.errors import SettingError
from uclearn.integrations import attach
from uclearn.methods.contract import Method
from uclearn.methods.ewc import EWC
from uclearn.methods.lwf import LwF
from uclearn.methods.si import SI

X = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))


def ucl(net: nn.Module) -> Method:
    return uclearn.UCL(net, X[:1], lr_sigma=0.01)


def by_hand(method: Method, pieces: int) -> None:
    """One move of two tasks: the losses of all pieces, and the penalty once."""
    for _ in range(2):
        optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
        for _ in range(3):
            loss = sum(_loss(method, piece) for piece in X.chunk(pieces)) / pieces
            (loss + method.penalty(batch_size=len(X))).backward()
            method.adjust_gradients(batch_size=len(X))
            optimizer.step()
            method.end_step(batch_size=len(X))
            optimizer.zero_grad()
        method.end_task(losses=lambda: _losses(method), inputs=[X])


def followed(method: Method, pieces: int) -> None:
    for _ in range(2):
        optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
        attach(method, optimizer, batch_size=len(X))
        for _ in range(3):
            for piece in X.chunk(pieces):
                (_loss(method, piece) / pieces).backward()
            optimizer.step()
            optimizer.zero_grad()
        method.end_task(losses=lambda: _losses(method), inputs=[X])


def _loss(method: Method, x: Tensor) -> Tensor:
    with uclearn.gaussian.use_means(method.model):
        mean: Tensor = method.model(x).square().mean()
        return mean


def _losses(method: Method) -> Iterator[Tensor]:
    yield method.model(X).square().mean(1)


@pytest.mark.parametrize("pieces", [1, 4])
@pytest.mark.parametrize("make", [ucl, EWC, SI], ids=["ucl", "ewc", "si"])
def test_it_learns_what_a_loop_learns_by_hand(
    make: Callable[[nn.Module], Method], pieces: int
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    first, second = make(net), make(net)
    by_hand(first, pieces)
    followed(second, pieces)
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    assert not torch.equal(net.get_parameter("0.weight"), second.model.get_parameter("0.weight"))


def test_a_move_that_a_scaler_skips_is_skipped() -> None:
    method = ucl(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    attach(method, optimizer, batch_size=8)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(_loss(method, X) * float("inf")).backward()
    before = [p.detach().clone() for p in method.model.parameters()]
    scaler.step(optimizer)
    assert all(map(torch.equal, before, method.model.parameters()))


def test_a_method_whose_penalty_depends_on_the_batch_is_refused() -> None:
    method = LwF(nn.Linear(4, 2))
    with pytest.raises(SettingError, match="LwF has none: its penalty depends on the batch"):
        attach(method, torch.optim.SGD(method.parameter_groups(lr=0.1)), batch_size=8)


def test_a_closure_is_refused() -> None:
    method = ucl(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    attach(method, optimizer, batch_size=8)
    with pytest.raises(SettingError, match=r"`optimizer.step` was given a closure"):
        optimizer.step(lambda: 0.0)


# -- recipes -----------------------------------------------------------------------------------


def with_fabric(method: Method, pieces: int) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    for _ in range(2):
        optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
        attach(method, optimizer, batch_size=len(X))
        model, moved = fabric.setup(method.model, optimizer)
        for _ in range(3):
            for piece in X.chunk(pieces):
                with uclearn.gaussian.use_means(method.model):
                    fabric.backward(model(piece).square().mean() / pieces)
            moved.step()
            moved.zero_grad()
        method.end_task(inputs=[X])


def with_accelerate(method: Method, pieces: int) -> None:
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=pieces)
    for _ in range(2):
        optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
        attach(method, optimizer, batch_size=len(X))
        model, moved = accelerator.prepare(method.model, optimizer)
        for _ in range(3):
            for piece in X.chunk(pieces):
                with accelerator.accumulate(model), uclearn.gaussian.use_means(method.model):
                    accelerator.backward(model(piece).square().mean())
                    moved.step()  # when all pieces are in
                    moved.zero_grad()
        method.end_task(inputs=[X])
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@pytest.mark.parametrize("recipe", [with_fabric, with_accelerate])
def test_the_recipes_of_frameworks_learn_what_a_loop_learns_by_hand(
    recipe: Callable[[Method, int], None],
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    first, second = ucl(net), ucl(net)
    by_hand(first, 4)
    recipe(second, 4)
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
