"""The penalty by the library is that by torch, whatever the number of threads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.native.alone import threads, torch_alone, with_library
from tests.paper_ucl import paper_ucl
from uclearn import UCL

pytestmark = with_library


def held(closed_form: bool) -> UCL:
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3, groups=2), nn.GroupNorm(2, 4)),
        *(nn.Flatten(), nn.Linear(64, 150), nn.ReLU(), nn.Linear(150, 130)),
    )
    method = paper_ucl(network, torch.zeros(1, 2, 8, 8), noisy_bias=True, closed_form=closed_form)
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        method.end_task()
        for parameter in method.model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return method


@pytest.mark.parametrize(
    "options", [{}, {"upper_freeze": False}, {"freeze": False}, {"inflate": False}]
)
@pytest.mark.parametrize("closed_form", [False, True])
def test_the_penalty_is_that_of_torch(closed_form: bool, options: dict[str, bool]) -> None:
    method = held(closed_form)
    for name, value in options.items():
        setattr(method, name, value)
    method._tighten()

    def outcome() -> tuple[Tensor, list[Tensor]]:
        method.zero_grad()
        value = method.penalty(batch_size=7)
        if not closed_form:
            (3 * value).backward()
        method.adjust_gradients(batch_size=7)
        return value.detach(), [p.grad for p in method.model.parameters() if p.grad is not None]

    found = outcome()
    with torch_alone():
        method._tighten()
        expected = outcome()
    torch.testing.assert_close(found[0], expected[0])
    assert len(found[1]) == len(expected[1]) > 0
    for mine, theirs in zip(found[1], expected[1], strict=True):
        torch.testing.assert_close(mine, theirs)


def test_the_penalty_does_not_depend_on_the_number_of_threads() -> None:
    torch.manual_seed(0)
    method = paper_ucl(nn.Linear(400, 300), torch.zeros(1, 400))
    with torch.no_grad():
        method.end_task()
        for parameter in method.model.parameters():
            parameter.add_(torch.randn_like(parameter))
    values = []
    for count in (1, 2, 3):
        with threads(count):
            values.append(method.penalty(batch_size=1).item())
    assert len(set(values)) == 1
