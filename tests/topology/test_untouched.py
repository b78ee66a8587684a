"""A trace leaves no trace: not on the model, not on the example, not in memory."""

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.topology.compare import Net, sources, trace_all


def build(last: Any = None) -> Net:
    def forward(m: Net, x: Tensor) -> Any:
        x.mul_(2)  # a model may even write to its inputs
        h = m.norm(m.conv(x))
        m.count += 1
        m.cached = h
        h = m.drop(h).flatten(1)
        return m.out(h if last is None else last(h))

    net = Net(
        forward,
        conv=nn.Conv1d(1, 2, 2),
        norm=nn.BatchNorm1d(2),
        drop=nn.Dropout(),
        out=nn.Linear(4, 1),
    )
    net.register_buffer("count", torch.zeros(()))
    net.conv.requires_grad_(False)
    net.train()
    net.drop.eval()
    return net


def look(net: nn.Module) -> Any:
    return {
        name: (
            module.training,
            sorted(key for key in vars(module) if key != "function"),
            list(module._forward_hooks.values()),
            list(module._forward_pre_hooks.values()),
            [p.requires_grad for p in module.parameters(recurse=False)],
            [p.grad is None for p in module.parameters(recurse=False)],
        )
        for name, module in net.named_modules()
    }


def fail(h: Tensor) -> Tensor:
    raise KeyError("the model broke")


@pytest.mark.parametrize(
    ("last", "error"),
    [(None, None), (fail, KeyError), (lambda h: h.cumsum(1), TypeError)],
    ids=["success", "an error in the model", "a refusal"],
)
def test_model_and_example_stay_as_they_were(last: Any, error: Any) -> None:
    net = build(last)
    seen: list[object] = []
    net.norm.register_forward_hook(lambda *_: seen.append(1))
    before, state = look(net), copy.deepcopy(net.state_dict())
    example = torch.randn(2, 1, 3)
    kept, version = example.clone(), example._version
    if error is None:
        trace_all(net, example)
        assert seen  # the model's own hooks run as ever
    else:
        with pytest.raises(error):
            trace_all(net, example)

    assert look(net) == before
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert torch.equal(example, kept)
    assert example._version == version
    assert torch.overrides._get_current_function_mode_stack() == []
    assert torch.utils._python_dispatch._get_current_dispatch_mode_stack() == []
    assert torch.is_grad_enabled()
    assert torch.ones(1, requires_grad=True).mul(2).requires_grad


def test_the_network_trains_on_as_before() -> None:
    """The same steps from the same start, with and without a trace in between."""
    first, second = build(), build()
    second.load_state_dict(first.state_dict())
    trace_all(second, torch.randn(2, 1, 3))
    x = torch.randn(5, 1, 3)
    for net in (first, second):
        net(x.clone()).sum().backward()
    assert torch.equal(first.out.weight.grad, second.out.weight.grad)
    assert torch.equal(first.norm.running_mean, second.norm.running_mean)


def test_nothing_is_kept_alive() -> None:
    seen: list[weakref.ref[Tensor]] = []

    def remember(h: Tensor) -> Tensor:
        seen.append(weakref.ref(h))
        return h

    topology = trace_all(build(remember), torch.randn(2, 1, 3))
    gc.collect()
    assert [reference() for reference in seen] == [None]
    assert topology.total == 3


def test_own_hooks_that_change_inputs_and_outputs_are_part_of_the_model() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1))
    net[1].register_forward_pre_hook(lambda module, inputs: (inputs[0].flip(1),))
    net[1].register_forward_hook(lambda module, inputs, output: output * 2)
    found = sources(trace_all(net, torch.randn(1, 2)))
    assert found["1"] == [{2}, {1}, {0}]
    assert found["2"] == [{3}, {4}, {5}]


def test_a_layer_that_hands_out_memory_which_others_see() -> None:
    """One of its own features many times, or even its input: the nodes are its own."""

    class Wide(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input)[:, :1].expand(-1, self.out_features)

    class Same(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return input

    def forward(m: Net, x: Tensor) -> Any:
        h = m.a(x)
        return m.d(torch.cat([m.b(h), m.c(h), h], dim=1))

    net = Net(forward, a=nn.Linear(2, 2), b=Wide(2, 2), c=Same(2, 2), d=nn.Linear(6, 1))
    assert sources(trace_all(net, torch.randn(1, 2)))["d"] == [{2}, {3}, {4}, {5}, {0}, {1}]


def test_an_opaque_module_that_hands_its_input_through() -> None:
    """What comes out counts as an input; whoever else reads the same tensor sees the nodes."""

    def forward(m: Net, x: Tensor) -> Any:
        h = m.a(x)
        y, z = m.b(m.plain(h)), m.c(h)
        return y + z

    net = Net(forward, a=nn.Linear(2, 3), plain=nn.Identity(), b=nn.Linear(3, 1), c=nn.Linear(3, 1))
    found = sources(trace_all(net, torch.randn(1, 2), opaque=["plain"]))
    assert found == {"a": [set()] * 2, "b": [set()] * 3, "c": [{0}, {1}, {2}]}


def test_an_opaque_module_that_returns_a_container() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"all": self.inside(x), "half": x[:, :1].expand(-1, 2)}

    def forward(m: Net, x: Tensor) -> Any:
        parts = m.plain(m.a(x))
        return m.b(torch.cat([parts["all"], parts["half"]], dim=1))

    net = Net(forward, a=nn.Linear(2, 3), plain=Two(), b=nn.Linear(5, 1))
    assert sources(trace_all(net, torch.randn(1, 2), opaque=["plain"]))["b"] == [set()] * 5
