"""Models with control flow, recurrence, routing and other habits of real code."""

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.topology.compare import Net, agree, agree_on, sources, trace_all
from tests.topology.oracle import Oracle, SetTensor, cat, inputs, stack


def test_a_branch_that_depends_on_data_is_followed_as_the_example_takes_it() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        h = m.a(x)
        if h.sum() * 0 == 0 and not torch.isnan(h).any() and torch.allclose(h, h):
            h = m.b(h) * h.abs().max().item()
        else:
            h = m.c(h)
        return m.c(h) if float(h.mean()) < 1e9 else h

    net = Net(forward, a=nn.Linear(2, 3), b=nn.Linear(3, 3), c=nn.Linear(3, 1))

    def mirror(o: Oracle, x: SetTensor) -> None:
        o.linear("c", o.linear("b", o.linear("a", x, 3), 3), 1)

    agree_on(net, [2], mirror)


def test_layers_in_a_loop_whose_length_depends_on_the_input() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        h = x.new_zeros(len(x), 3)
        states = []
        for step in range(x.shape[1]):
            h = torch.tanh(m.read(x[:, step]) + m.again(h))
            states.append(h)
        return m.out(torch.stack(states, dim=1).flatten(1))

    net = Net(forward, read=nn.Linear(2, 3), again=nn.Linear(3, 3), out=nn.Linear(12, 1))

    def mirror(o: Oracle, x: SetTensor) -> None:
        h, states = inputs(x.shape[0], 3), []
        for step in range(4):
            h = o.linear("read", x[:, step], 3) + o.linear("again", h, 3)
            states.append(h)
        o.linear("out", stack(*states).flatten(), 1)

    agree_on(net, [4, 2], mirror)


def test_a_long_short_term_memory_written_out() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        h, c = x.new_zeros(len(x), 2), torch.zeros(len(x), 2)
        for step in x.unbind(1):
            i, f, g, o = (m.read(step) + m.again(h)).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return m.out(h)

    net = Net(forward, read=nn.Linear(3, 8), again=nn.Linear(2, 8, bias=False), out=nn.Linear(2, 1))

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = c = inputs(x.shape[0], 2)
        for step in range(3):
            gates = o.linear("read", x[:, step], 8) + o.linear("again", h, 8)
            c = gates[:, 2:4] * c + gates[:, :2] * gates[:, 4:6]
            h = gates[:, 6:] * c
        o.linear("out", h, 1)

    agree_on(net, [3, 3], mirror)


def test_batch_and_time_merged_and_parted_again() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        batch, time = x.shape[:2]
        h = m.conv(x.flatten(0, 1)).flatten(1)
        return m.out(m.mix(h.view(batch, time, -1).transpose(1, 2)).flatten(1))

    net = Net(forward, conv=nn.Conv2d(1, 2, 2), mix=nn.Linear(3, 3), out=nn.Linear(24, 1))

    def mirror(o: Oracle, x: SetTensor) -> None:
        batch = x.shape[0]
        h = o.conv("conv", x.reshape(batch * 3, 1, 3, 3), 2, (2, 2)).flatten()
        h = o.linear("mix", h.reshape(batch, 3, 8).swap(1, 2), 3)  # features are moments here
        o.linear("out", h.flatten(), 1)

    agree_on(net, [3, 1, 3, 3], mirror)


def test_a_mixer_of_tokens_and_of_channels() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        h = m.embed(x)
        h = h + m.tokens(h.transpose(1, 2)).transpose(1, 2)
        h = h + m.channels(h)
        return m.out(h.mean(1))

    net = Net(
        forward,
        embed=nn.Linear(2, 3),
        tokens=nn.Linear(4, 4),
        channels=nn.Linear(3, 3),
        out=nn.Linear(3, 1),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.linear("embed", x, 3)
        h = h + o.linear("tokens", h.swap(1, 2), 4).swap(1, 2)
        h = h + o.linear("channels", h, 3)
        o.linear("out", h.union(1), 1)

    agree_on(net, [4, 2], mirror)


def test_messages_along_the_edges_of_a_graph() -> None:
    source, target = torch.tensor([0, 1, 1, 2, 3]), torch.tensor([1, 0, 2, 1, 1])

    def forward(m: Net, x: Tensor) -> Any:
        h = m.a(x)
        summed = torch.zeros(4, 3).index_add_(0, target, m.message(h[source]))
        degree = torch.bincount(target, minlength=4).clamp(min=1)
        return m.out(torch.cat([h, summed / degree[:, None]], dim=1).mean(0))

    net = Net(forward, a=nn.Linear(2, 3), message=nn.Linear(3, 3), out=nn.Linear(6, 1))

    def mirror(o: Oracle) -> None:
        h = o.linear("a", inputs(4, 2), 3)
        message = o.linear("message", h[source.numpy()], 3)
        summed = [inputs(3)] * 4
        for edge, place in enumerate(target.tolist()):
            summed[place] = summed[place] + message[edge]
        o.linear("out", cat(h, stack(*summed, axis=0)).union(0), 1)

    agree(net, torch.randn(4, 2), mirror)


def test_a_mixture_of_experts() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        h = m.a(x)
        weight, chosen = m.gate(h).softmax(-1).topk(2, dim=-1)
        y = torch.zeros_like(h)
        for number, expert in enumerate((m.left, m.right)):
            row, place = torch.where(chosen == number)
            y[row] += expert(h[row]) * weight[row, place, None]
        return m.out(y)

    net = Net(
        forward,
        a=nn.Linear(2, 3),
        gate=nn.Linear(3, 2),
        left=nn.Linear(3, 3),
        right=nn.Linear(3, 3),
        out=nn.Linear(3, 1),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.linear("a", x, 3)
        weight = o.linear("gate", h, 2).union(-1, keep=True)
        o.linear("out", (o.linear("left", h, 3) + o.linear("right", h, 3)) * weight, 1)

    agree_on(net, [2], mirror)


def test_an_expert_that_no_example_chooses() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        h = m.a(x)
        nobody = h[h[:, 0] > 1e9]
        size = nobody.norm(dim=-1, keepdim=True)
        return m.out(torch.cat([h, m.expert(nobody) / size]))

    net = Net(forward, a=nn.Linear(2, 3), expert=nn.Linear(3, 3), out=nn.Linear(3, 1))

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.linear("a", x, 3)
        o.linear("expert", inputs(1, 3), 3)
        o.linear("out", h, 1)

    agree_on(net, [2], mirror)


def test_on_the_meta_device_without_any_data() -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3),
        nn.BatchNorm2d(2),
        nn.ReLU(True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * 4, 3),
    ).to("meta")

    def mirror(o: Oracle) -> None:
        h = o.norm("1", o.conv("0", inputs(1, 1, 6, 6), 2, (3, 3)), 1)
        o.linear("5", h.pool([2, 2]).flatten(), 3)

    agree(net, torch.randn(1, 1, 6, 6, device="meta"), mirror)


def test_a_variational_autoencoder() -> None:
    def forward(m: Net, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = m.encode(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        again = m.decode(z)
        loss = F.mse_loss(again, x) - 0.5 * (1 + log_variance - mean**2).sum()
        return again, loss

    net = Net(forward, encode=nn.Linear(3, 4), decode=nn.Linear(2, 3))

    def mirror(o: Oracle, x: SetTensor) -> None:
        code = o.linear("encode", x, 4)
        o.linear("decode", code[:, :2] + code[:, 2:], 3)

    agree_on(net, [3], mirror)


def test_a_vector_quantised_code_passed_straight_through() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        z = m.a(x)
        nearest = torch.cdist(z, torch.randn(5, 3)).argmin(dim=1)
        code = m.codes(nearest)
        return m.out(z + (code - z).detach())

    net = Net(forward, a=nn.Linear(2, 3), codes=nn.Embedding(5, 3), out=nn.Linear(3, 1))

    def mirror(o: Oracle, x: SetTensor) -> None:
        z = o.linear("a", x, 3)
        o.linear("out", z + o.embedding("codes", [x.shape[0]], 5, 3), 1)

    agree_on(net, [2], mirror)


def test_gumbel_softmax_passes_on_feature_by_feature() -> None:
    net = Net(lambda m, x: m.b(F.gumbel_softmax(m.a(x))), a=nn.Linear(2, 3), b=nn.Linear(3, 1))

    def mirror(o: Oracle, x: SetTensor) -> None:
        o.linear("b", o.linear("a", x, 3), 1)

    agree_on(net, [2], mirror)


def test_a_layer_called_by_keyword() -> None:
    net = Net(
        lambda m, x: m.b(input=m.norm(input=m.a(input=x))),
        a=nn.Linear(2, 3),
        norm=nn.LayerNorm(3),
        b=nn.Linear(3, 1),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        o.linear("b", o.norm("norm", o.linear("a", x, 3), -1), 1)

    agree_on(net, [2], mirror)


def test_a_table_cached_outside_of_the_model_still_serves_training() -> None:
    """What the model computes while it is traced must be ordinary tensors."""

    @functools.cache
    def scale() -> Tensor:
        return torch.arange(1.0, 4.0)

    net = Net(lambda m, x: m.b(m.a(x) * scale()), a=nn.Linear(2, 3), b=nn.Linear(3, 1))
    trace_all(net, torch.randn(1, 2))
    net(torch.randn(4, 2)).sum().backward()
    assert scale().is_inference() is False


def test_a_compiled_part_is_followed_like_any_other() -> None:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.b(x)).flip(1)

    compiled: Any = torch.compile(Part(), backend="eager")
    net = nn.Sequential(nn.Linear(2, 3), compiled, nn.Linear(3, 1))
    assert sources(trace_all(net, torch.randn(1, 2)))["2"] == [{5}, {4}, {3}]


def test_a_custom_autograd_function() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return (2 * x).flip(1)

        @staticmethod
        def backward(ctx: object, gradient: Tensor) -> Tensor:
            return (2 * gradient).flip(1)

    apply: Any = Twice.apply
    net = Net(lambda m, x: m.b(apply(m.a(x))), a=nn.Linear(2, 3), b=nn.Linear(3, 1))

    def mirror(o: Oracle, x: SetTensor) -> None:
        o.linear("b", o.linear("a", x, 3)[:, ::-1], 1)

    agree_on(net, [2], mirror)


def test_half_precision_and_a_double_model() -> None:
    def mirror(o: Oracle, x: SetTensor) -> None:
        o.linear("b", o.linear("a", x, 3), 1)

    net = Net(lambda m, x: m.b(m.a(x.double()).relu()), a=nn.Linear(2, 3), b=nn.Linear(3, 1))
    agree_on(net.double(), [2], mirror)

    def under_autocast(m: Net, x: Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return m.b(m.a(x).relu())

    agree_on(Net(under_autocast, a=nn.Linear(2, 3), b=nn.Linear(3, 1)), [2], mirror)
