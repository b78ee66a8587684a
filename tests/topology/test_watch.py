"""What cannot be followed is refused by name, never guessed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.topology.compare import Net, sources, trace_all
from uclearn.errors import UnsupportedLayerError
from uclearn.topology import node_count, rules, trace
from uclearn.topology.sets import Call

UNKNOWN: dict[str, Callable[[Tensor], Any]] = {
    "sort": lambda x: x.sort(1)[0],
    "cumsum": lambda x: x.cumsum(1),
    "cumsum_": lambda x: x.clone().cumsum_(1),
    "cummax": lambda x: x.cummax(1)[0],
    "_fft_r2c": lambda x: torch.fft.rfft(x).real,
    "histc": torch.histc,
    "linalg_inv_ex": lambda x: torch.linalg.inv(x[:, :1].reshape(2, 1, 1)).flatten(1),
    "view": lambda x: x.view(torch.int16).view(torch.float32),
    "unique_dim": lambda x: x.unique(dim=0),
    "_to_sparse": lambda x: x.to_sparse().to_dense(),
    "resize_": lambda x: x.clone().resize_(2, 2),
    "repeat_interleave": lambda x: torch.repeat_interleave((x[0] > 0).long()),
    "_foreach_add_": lambda x: torch._foreach_add_([x], [x]),
}


class Odd(nn.Module):
    """Holds the operation, so that its name can be looked for."""

    def __init__(self, operation: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.operation = operation

    def forward(self, x: Tensor) -> Any:
        return self.operation(x)


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.filterwarnings("ignore")  # some of these are frowned upon by torch as well
def test_an_unknown_operation_is_named_with_its_module(name: str) -> None:
    part = Odd(UNKNOWN[name])
    net = nn.Sequential(nn.Linear(2, 4), nn.Sequential(nn.ReLU(), part), nn.Linear(4, 1))
    message = (
        rf"^The operation `{name}` in 1\.1 \(Odd\) cannot be followed: .* name that "
        r"module in `plain`"
    )
    with pytest.raises(UnsupportedLayerError, match=message):
        trace_all(net, torch.randn(2, 2))


def test_in_the_model_itself() -> None:
    net = Net(lambda m, x: m.a(x).cumsum(0), a=nn.Linear(2, 3))
    with pytest.raises(UnsupportedLayerError, match=r"`cumsum` in the model itself \(Net\)"):
        trace_all(net, torch.randn(2, 2))


def test_on_inputs_alone_anything_goes() -> None:
    """No node has made them, so none is lost."""
    net = Net(
        lambda m, x: m.b(m.a(torch.fft.rfft(x.sort(1)[0].cumsum(1)).abs())),
        a=nn.Linear(3, 2),
        b=nn.Linear(2, 1),
    )
    assert sources(trace_all(net, torch.randn(1, 4)))["b"] == [{0}, {1}]


def test_behind_a_module_left_plain_anything_goes() -> None:
    net = nn.Sequential(nn.Linear(2, 4), Odd(lambda x: x.cumsum(1)), nn.Linear(4, 1))
    found = sources(trace_all(net, torch.randn(2, 2), opaque=["1"]))
    assert found == {"0": [set()] * 2, "2": [set()] * 4}


def test_a_form_of_an_operation_that_its_rule_did_not_foresee(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = nn.Sequential(nn.Linear(2, 4), nn.Softplus(), nn.Linear(4, 1))

    def breaks(sets: object, call: Call) -> None:
        raise KeyError("no such argument")

    for rule in (breaks, lambda sets, call: call.numbers["self"][:, :1]):
        monkeypatch.setitem(rules._RULES, "softplus", rule)
        with pytest.raises(UnsupportedLayerError, match=r"`softplus` in 1 \(Softplus\) cannot be"):
            trace_all(net, torch.randn(1, 2))


def test_an_operation_of_another_library_is_not_taken_for_its_namesake() -> None:
    with torch.library._scoped_library("uclearn_test", "DEF") as library:
        library.define("relu(Tensor x) -> Tensor")
        library.impl("relu", lambda x: x.flip(1), "CompositeExplicitAutograd")
        net = Net(lambda m, x: torch.ops.uclearn_test.relu(m.a(x)), a=nn.Linear(2, 3))
        with pytest.raises(UnsupportedLayerError, match="`relu` in the model itself"):
            trace_all(net, torch.randn(1, 2))


def test_a_refusal_is_not_lost_when_the_model_or_an_operator_swallows_it() -> None:
    def swallow(m: Net, x: Tensor) -> Any:
        h = m.a(x)
        try:
            return h.cumsum(1)
        except TypeError:
            return h

    with pytest.raises(UnsupportedLayerError, match="`cumsum`"):
        trace_all(Net(swallow, a=nn.Linear(2, 3)), torch.randn(1, 2))

    net = Net(lambda m, x: m.a(x) // m.a.bias, a=nn.Linear(2, 3))
    with pytest.raises(
        UnsupportedLayerError, match=r"`floor_divide` .* parameter of the layer `a`"
    ):
        trace_all(net, torch.randn(1, 2))


def test_layers_that_the_example_does_not_reach_are_all_listed() -> None:
    net = Net(
        lambda m, x: m.b(m.a(x)) if len(x) < 9 else m.d(m.norm(m.c(x))),
        a=nn.Linear(2, 3),
        b=nn.Linear(3, 1),
        c=nn.Linear(2, 3),
        norm=nn.LayerNorm(3),
        d=nn.Linear(3, 1),
    )
    message = (
        "^These layers were not used when the model ran on the example: c, d, norm. Give an "
        "example that reaches every layer, or name the layers in `plain`.$"
    )
    with pytest.raises(UnsupportedLayerError, match=message):
        trace_all(net, torch.randn(2, 2))


@pytest.mark.parametrize(
    ("operation", "use"),
    [
        ("linear", lambda m, h: F.linear(h, m.same.weight)),
        ("linear", lambda m, h: m.same.forward(h)),
        ("matmul", lambda m, h: h @ m.same.weight.t()),
        ("mul", lambda m, h: m.same.bias * h),
        ("layer_norm", lambda m, h: F.layer_norm(h, (3,), m.norm.weight)),
    ],
)
def test_weights_used_outside_of_their_layer(operation: str, use: Any) -> None:
    """A tied decoder joins other nodes than the layer does."""
    net = Net(
        lambda m, x: use(m, m.norm(m.same(m.a(x)))),
        a=nn.Linear(2, 3),
        same=nn.Linear(3, 3),
        norm=nn.LayerNorm(3),
    )
    owner = "norm" if operation == "layer_norm" else "same"
    message = (
        rf"^The operation `{operation}` in the model itself \(Net\) uses a parameter of the layer "
        rf"`{owner}` outside of that layer, .* Call the layer itself, or name it in `plain`.$"
    )
    with pytest.raises(UnsupportedLayerError, match=message):
        trace_all(net, torch.randn(1, 2))


def test_a_look_at_weights_is_no_use_of_them() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        m.size = m.a.weight.square().sum() + m.a.weight.abs().mean()
        x = x.to(m.a.weight).type_as(m.b.bias).to(m.b.weight.dtype)
        h = m.a(x) + torch.zeros_like(m.a.bias) + torch.ones(()).expand_as(m.a.bias)
        return m.b(h.view(-1, m.b.weight.shape[1]))

    net = Net(forward, a=nn.Linear(2, 3), b=nn.Linear(3, 1))
    assert sources(trace_all(net, torch.randn(1, 2)))["b"] == [{0}, {1}, {2}]


def test_a_layer_whose_nodes_cannot_be_counted() -> None:
    message = "^ReLU has no nodes that could be counted. Give it an attribute `out_features`"
    with pytest.raises(UnsupportedLayerError, match=message):
        node_count(nn.ReLU())
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with pytest.raises(UnsupportedLayerError, match=message):
        trace(net, torch.randn(1, 2), {"1": net[1]})


def test_what_the_model_says_is_passed_on() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        trace_all(net, torch.randn(1, 3))

    def complain(m: Net, x: Tensor) -> Any:
        raise TypeError("not this one")

    with pytest.raises(TypeError, match="not this one"):
        trace_all(Net(complain, a=nn.Linear(2, 2)), torch.randn(1, 2))
