"""Springs, paths and masks by the library are those by torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.native.alone import torch_alone, with_library
from uclearn.methods.hat.gates import keep, mask_gradients, put_back
from uclearn.methods.si import SI

pytestmark = with_library


def one_path(closed_form: bool) -> list[Tensor]:
    """Three steps of a second task, one of them with a gradient that is not finite."""
    torch.manual_seed(0)
    method = SI(nn.Linear(300, 200), strength=0.5, closed_form=closed_form)
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    for number in range(6):
        x = torch.randn(8, 300)
        optimizer.zero_grad()
        (method.model(x).square().mean() + method.penalty()).backward()
        weight = method.model.get_parameter("weight")
        assert weight.grad is not None
        if number == 4:
            weight.grad[0, :3] = torch.tensor([torch.inf, -torch.inf, torch.nan])
        method.adjust_gradients()
        weight.grad.nan_to_num_(0.0, 0.0, 0.0)
        optimizer.step()
        method.end_step()
        if number == 2:
            method.end_task()
    return [tensor.clone() for tensor in method.state_dict().values()]


@pytest.mark.parametrize("closed_form", [True, False])
def test_a_path_is_followed_and_weights_are_held_as_by_torch(closed_form: bool) -> None:
    found = one_path(closed_form)
    with torch_alone():
        expected = one_path(closed_form)
    assert len(found) == len(expected) > 5
    for mine, theirs in zip(found, expected, strict=True):
        assert theirs.isfinite().all()
        torch.testing.assert_close(mine, theirs)


MASKS = {
    "nodes": ((40, 30), (40, 1)),
    "weights": ((40, 30), (40, 30)),
    "kernels": ((8, 6, 3, 3), (8, 6, 1, 1)),
    "whole kernels": ((8, 6, 3, 3), (8, 1, 1, 1)),
    "all": ((40,), ()),
    "features": ((40, 30), (1, 30)),  # has no rows: torch's work
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_close_the_same_elements(name: str) -> None:
    shape, masked = MASKS[name]
    torch.manual_seed(0)
    parameter = nn.Parameter(torch.randn(shape))
    mask = torch.rand(masked) < 0.5 if masked else torch.tensor(True)
    (kept,) = keep(parameter, mask)
    assert (kept.rows is None) == (name == "features")
    before, gradient = parameter.detach().clone(), torch.randn(shape)
    parameter.grad = gradient.clone()
    mask_gradients([kept])
    assert torch.equal(parameter.grad, torch.where(mask, 0.0, gradient))
    with torch.no_grad():
        parameter.add_(1)
        moved = parameter.clone()
    put_back([kept])
    assert torch.equal(parameter, torch.where(mask, before, moved))
