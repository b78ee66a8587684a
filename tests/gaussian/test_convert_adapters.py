"""Adapters: only what is trained is converted, held and saved; the base stays where it is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import uclearn
from uclearn.gaussian import GaussianLayer
from uclearn.integrations.optimizers import memory_of

peft = pytest.importorskip("peft")
KINDS: dict[str, Any] = {
    "lora": lambda: peft.LoraConfig(r=2, target_modules=["0", "2"]),
    "dora": lambda: peft.LoraConfig(r=2, target_modules=["0", "2"], use_dora=True),
    "ia3": lambda: peft.IA3Config(target_modules=["0", "2"], feedforward_modules=["2"]),
    "loha": lambda: peft.LoHaConfig(r=2, target_modules=["0", "2"]),
    "lokr": lambda: peft.LoKrConfig(r=2, target_modules=["0", "2"]),
    "vera": lambda: peft.VeraConfig(r=2, target_modules=["0", "2"]),
}
X = torch.randn(32, 6, generator=torch.Generator().manual_seed(1))


def adapted(kind: str) -> Any:
    torch.manual_seed(0)
    base = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    return peft.get_peft_model(base, KINDS[kind]())


def learned(model: nn.Module) -> uclearn.UCL:
    method = uclearn.UCL(model, X[:2])
    for task in range(2):
        optimizer = torch.optim.Adam(method.parameter_groups(lr=0.05))
        for _ in range(5):
            loss = nn.functional.cross_entropy(method.model(X), (X[:, task] > 0).long())
            optimizer.zero_grad()
            (loss + method.penalty(batch_size=32)).backward()
            optimizer.step()
        method.end_task(inputs=[X])
    return method


@pytest.mark.filterwarnings("ignore")  # peft's own
@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_is_held_and_merged_and_its_base_is_left_alone(kind: str) -> None:
    model = adapted(kind)
    frozen = {n: p for n, p in model.named_parameters() if not p.requires_grad}
    before = {name: weight.clone() for name, weight in frozen.items()}
    method = learned(model)
    assert method.coverage().share == 1
    ours = dict(method.model.named_parameters())
    for name, weight in frozen.items():  # the same memory, and nothing has changed there
        assert ours[name].data_ptr() == weight.data_ptr()
        assert not isinstance(ours[name], GaussianLayer)
        assert torch.equal(weight, before[name])
    assert not set(memory_of(method)) & {f"model.{name}" for name in frozen}
    rest = method.penalty(batch_size=1).detach()
    with torch.no_grad():
        for name, parameter in method.model.named_parameters():
            if parameter.requires_grad and not name.endswith("rho"):
                parameter.add_(0.1)
                assert method.penalty(batch_size=1).detach() > rest, name
                parameter.sub_(0.1)
    with torch.no_grad(), method.inference() as network:
        said = network(X)
    exported: Any = method.export()
    assert torch.equal(exported(X), said)
    whole = exported.merge_and_unload()
    torch.testing.assert_close(whole(X), said, rtol=1e-4, atol=1e-5)
    assert type(whole[0]) is nn.Linear
    for name, weight in frozen.items():  # merging writes into the export's base alone
        assert torch.equal(weight, before[name])


class InEightBit(nn.Module):
    """Stands for a linear layer of a package whose weights are frozen whole numbers."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = plain.in_features, plain.out_features
        self.scale = plain.weight.detach().abs().max() / 127
        short = (plain.weight.detach() / self.scale).round().to(torch.int8)
        self.weight = nn.Parameter(short, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.scale)


class LikeTheirs(nn.Parameter):
    """A type of its own, as packages have for weights in 4 bit."""


def test_a_base_in_eight_bit_stays_as_it_is() -> None:
    torch.manual_seed(0)
    base = InEightBit(nn.Linear(6, 6))
    other = InEightBit(nn.Linear(6, 6))
    other.weight = LikeTheirs(other.weight.data, requires_grad=False)
    down, up = nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False)
    model = nn.Sequential(base, other, nn.Sequential(down, up))
    before = base.weight.clone()
    method = learned(model)
    ours = method.model.get_submodule("0")
    assert type(ours) is InEightBit
    short = ours.get_parameter("weight")
    assert short.dtype == torch.int8
    assert short.data_ptr() == base.weight.data_ptr()
    assert method.model.get_parameter("1.weight") is other.weight
    assert torch.equal(base.weight, before)
    assert method.coverage().total == 24
    assert sum(held.weight.numel() for held in method._memory.gaussian()) == 24
    with torch.no_grad(), method.inference() as network:
        assert torch.equal(method.export()(X), network(X))


def test_moving_a_method_leaves_the_model_that_it_was_made_from() -> None:
    first, second = nn.Linear(3, 3).requires_grad_(False), nn.Linear(3, 2)
    method = uclearn.UCL(nn.Sequential(first, second), torch.zeros(1, 3))
    assert method.model.get_parameter("0.weight").data_ptr() == first.weight.data_ptr()
    assert method.model.get_parameter("1.weight").data_ptr() != second.weight.data_ptr()
    method.double()
    assert method.model.get_parameter("0.weight").dtype == torch.float64
    assert first.weight.dtype == torch.float32
