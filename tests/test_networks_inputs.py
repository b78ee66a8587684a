"""Models are called as their users call them, and put out what they put out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import uclearn
from uclearn.errors import SettingError, TaskError
from uclearn.methods.contract import Method
from uclearn.methods.lwf import LwF
from uclearn.methods.mas import MAS
from uclearn.networks import answer


@dataclass
class Output:
    logits: Tensor
    loss: Tensor | None = None


class Reader(nn.Module):
    """Called with words and a mask by name; puts out an object."""

    def __init__(self, wrap: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.words, self.last, self.wrap = nn.Embedding(9, 4), nn.Linear(4, 3), wrap

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Any:
        mask = torch.ones_like(ids) if mask is None else mask
        read = (self.words(ids) * mask.unsqueeze(-1)).sum(1)
        return self.wrap(self.last(input=read))


def itself(logits: Tensor) -> Any:
    return logits


WRAPS: dict[str, Callable[[Tensor], Any]] = {
    "tensor": itself,
    "object": Output,
    "dictionary": lambda z: {"loss": z.sum(), "logits": z},
    "tuple": lambda z: (z.sum(), z),
}
BATCHES = {
    "dictionary": {"ids": torch.arange(12).view(4, 3) % 9, "mask": torch.ones(4, 3)},
    "tuple": (torch.arange(12).view(4, 3) % 9, torch.ones(4, 3)),
    "tensor": torch.arange(12).view(4, 3) % 9,
}


@pytest.fixture(params=list(WRAPS))
def wrap(request: pytest.FixtureRequest) -> Callable[[Tensor], Any]:
    return WRAPS[request.param]


@pytest.fixture(params=list(BATCHES))
def batch(request: pytest.FixtureRequest) -> Any:
    return BATCHES[request.param]


def call(model: nn.Module, batch: Any) -> Tensor:
    if isinstance(batch, dict):
        return answer(model(**batch))
    return answer(model(*batch) if isinstance(batch, tuple) else model(batch))


@pytest.mark.parametrize("inputs_told", [True, False])
def test_ucl(wrap: Callable[[Tensor], Any], batch: Any, inputs_told: bool) -> None:
    torch.manual_seed(0)
    model = Reader(wrap)
    plain = uclearn.UCL(Reader(itself), BATCHES["tensor"])
    plain.load_state_dict(uclearn.UCL(model, batch).state_dict())
    method = uclearn.UCL(model, batch)
    assert method.coverage().share == 1
    for each, given in ((method, batch), (plain, BATCHES["tensor"])):
        call(each.model, given).sum().backward()
        each.end_task(inputs=[given] if inputs_told else None)
        with torch.no_grad():
            each.model.get_parameter("last.weight").add_(0.1)
    both = [float(each.penalty(batch_size=1).detach()) for each in (method, plain)]
    assert both[0] == pytest.approx(both[1])


def test_mas(wrap: Callable[[Tensor], Any], batch: Any) -> None:
    torch.manual_seed(0)
    model = Reader(wrap)
    method, plain = MAS(model), MAS(Reader(itself))
    plain.model.load_state_dict(model.state_dict())
    method.end_task(inputs=[batch])
    plain.end_task(inputs=[BATCHES["tensor"]])
    found, wanted = (m.memory.importance.tensors() for m in (method, plain))
    assert all(map(torch.allclose, found, wanted))
    assert bool(found[1].any())


def test_lwf(wrap: Callable[[Tensor], Any], batch: Any) -> None:
    torch.manual_seed(0)
    model = Reader(wrap)
    pulls = []
    for start, given in ((model, batch), (Reader(itself), BATCHES["tensor"])):
        start.load_state_dict(model.state_dict())
        method: Method = LwF(start)
        method.end_task()
        with torch.no_grad():
            method.model.get_parameter("last.weight").mul_(2)
        pulls.append(float(method.penalty(inputs=given).detach()))
    assert pulls[0] == pytest.approx(pulls[1])


def test_an_output_without_a_tensor_is_refused() -> None:
    with pytest.raises(TaskError, match=r"something with `logits`.*got list without one"):
        answer(["nothing"])


def test_an_example_that_the_model_does_not_take_is_told() -> None:
    with pytest.raises(SettingError, match=r"got dict. The model said: .*unexpected keyword"):
        uclearn.UCL(Reader(itself), {"words": torch.zeros(1, 3).long()})
