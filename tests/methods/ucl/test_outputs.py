"""What nodes say is held by the library as by torch; the formula has tests in test_ucl_seen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.native.alone import torch_alone, with_library
from uclearn import UCL
from uclearn.native import holding

pytestmark = with_library


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("frozen", [None, "weight", "bias"])
def test_what_nodes_say_is_held_as_by_torch(
    frozen: str | None, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient that is added in place: by the library, by torch, and autograd's of the value,
    in a layer of more inputs than nodes, whose blocks are of two widths."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(131, 66, bias=bias), nn.ReLU(), nn.Linear(66, 70, bias=bias))
    method = UCL(network, torch.zeros(1, 131), seed=1, closed_form=True)
    with torch.no_grad():
        method.end_task(inputs=[torch.randn(40, 131) + 0.3])
        for parameter in method.model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    if frozen is not None and (bias or frozen == "weight"):
        method.model.get_parameter(f"0.{frozen}").requires_grad_(False)

    def outcome() -> list[Tensor]:
        method.zero_grad()
        for parameter in method.model.parameters():
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
        method.adjust_gradients(batch_size=7)
        return [p.grad for p in method.model.parameters() if p.grad is not None]

    used: list[int] = []
    by_library = holding.pulled_rows

    def counted(*arguments: Any) -> Tensor:
        used.append(1)
        return by_library(*arguments)

    monkeypatch.setattr(holding, "pulled_rows", counted)
    found = outcome()
    assert len(used) == (1 if frozen == "weight" else 2)
    with torch_alone():
        method._tighten()
        expected = outcome()
        value = method.penalty(batch_size=7)
    assert len(used) == (1 if frozen == "weight" else 2)
    torch.testing.assert_close(method.penalty(batch_size=7), value)
    method.closed_form = False
    trained = [p for p in method.model.parameters() if p.requires_grad]
    exact = torch.autograd.grad(method.penalty(batch_size=7), trained)
    for mine, theirs, value in zip(found, expected, exact, strict=True):
        torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(mine - 1, value, rtol=1e-4, atol=1e-5)
