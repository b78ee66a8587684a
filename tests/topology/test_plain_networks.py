"""Networks as people write them: sources equal the oracle's, set by set."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.topology.compare import Net, agree, agree_on
from tests.topology.oracle import Oracle, SetTensor, cat, inputs
from uclearn.networks import MultiHead, run_trunk


def test_a_perceptron() -> None:
    net = nn.Sequential(
        nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        o.linear("5", o.linear("3", o.linear("0", x, 5), 4), 2)

    agree_on(net, [3], mirror)


def test_convolutions_then_flatten_then_linear() -> None:
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, (2, 3), stride=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 2 * 1, 5),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.conv("0", x, 3, (3, 3), padding=1).pool([2, 2])
        o.linear("6", o.conv("3", h, 4, (2, 3)).flatten(), 5)

    agree_on(net, [2, 6, 6], mirror)


def test_convolutions_of_one_and_three_dimensions() -> None:
    one = nn.Sequential(
        nn.Conv1d(2, 3, 3, dilation=2), nn.GELU(), nn.Conv1d(3, 2, 2, stride=2), nn.Flatten()
    )
    one.append(nn.Linear(2 * 3, 2))

    def mirror_one(o: Oracle, x: SetTensor) -> None:
        h = o.conv("0", x, 3, (3,), dilation=2)
        o.linear("4", o.conv("2", h, 2, (2,), stride=2).flatten(), 2)

    agree_on(one, [2, 10], mirror_one)

    three = nn.Sequential(nn.Conv3d(1, 2, 2), nn.SiLU(), nn.Conv3d(2, 3, (1, 2, 2)), nn.Flatten())
    three.append(nn.Linear(3 * 2, 2))

    def mirror_three(o: Oracle, x: SetTensor) -> None:
        h = o.conv("2", o.conv("0", x, 2, (2, 2, 2)), 3, (1, 2, 2))
        o.linear("4", h.flatten(), 2)

    agree_on(three, [1, 3, 3, 3], mirror_three)


def test_a_convolution_without_batch() -> None:
    net = Net(
        lambda m, x: m.c(m.b(m.a(x)).flatten()),
        a=nn.Conv2d(1, 2, 1),
        b=nn.Conv2d(2, 3, 2),
        c=nn.Linear(3, 1),
    )

    def mirror(o: Oracle) -> None:
        h = o.conv("b", o.conv("a", inputs(1, 2, 2), 2, (1, 1)), 3, (2, 2))
        o.linear("c", h.reshape(-1), 1)

    agree(net, torch.randn(1, 2, 2), mirror)


def test_grouped_and_depthwise_convolutions_count_input_channels() -> None:
    net = nn.Sequential(
        nn.Conv2d(2, 6, 1),
        nn.Conv2d(6, 4, 3, padding=1, groups=2),
        nn.BatchNorm2d(4),
        nn.ReLU6(),
        nn.Conv2d(4, 8, 3, padding=1, groups=4),  # depthwise, twice as wide
        nn.Conv2d(8, 2, 1),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.conv("1", o.conv("0", x, 6, (1, 1)), 4, (3, 3), padding=1)
        h = o.conv("4", o.norm("2", h, 1), 8, (3, 3), padding=1)
        o.conv("5", h, 2, (1, 1))

    agree_on(net, [2, 3, 3], mirror)


def test_a_layer_used_twice_is_fed_by_both_uses() -> None:
    net = Net(
        lambda m, x: m.out(m.same(m.b(F.relu(m.same(m.a(x)))))),
        a=nn.Linear(2, 3),
        same=nn.Linear(3, 3),
        b=nn.Linear(3, 3),
        out=nn.Linear(3, 1),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.linear("b", o.linear("same", o.linear("a", x, 3), 3), 3)
        o.linear("out", o.linear("same", h, 3), 1)

    agree_on(net, [2], mirror)


def test_the_same_module_under_two_names_is_one_layer() -> None:
    shared = nn.Linear(3, 3)
    net = nn.Sequential(nn.Linear(2, 3), shared, nn.ReLU(), shared)

    def mirror(o: Oracle, x: SetTensor) -> None:
        o.linear("1", o.linear("1", o.linear("0", x, 3), 3), 3)

    agree_on(net, [2], mirror)


def test_weights_shared_between_two_branches() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        left, right = m.b(m.a(x[:, 0])), m.b(m.other(x[:, 1]))
        return m.out((left - right).abs())

    net = Net(
        forward,
        a=nn.Linear(2, 3),
        other=nn.Linear(2, 3),
        b=nn.Linear(3, 4),
        out=nn.Linear(4, 1),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        left = o.linear("b", o.linear("a", x[:, 0], 3), 4)
        right = o.linear("b", o.linear("other", x[:, 1], 3), 4)
        o.linear("out", left - right, 1)

    agree_on(net, [2, 2], mirror)


def multi_head() -> MultiHead:
    net = MultiHead(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5)), features=5)
    for outputs in (2, 3):
        net.add_head(outputs)
    return net


def test_many_heads_each_fed_by_the_trunk() -> None:
    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.linear("trunk.2", o.linear("trunk.0", x, 4), 5)
        for head, outputs in enumerate((2, 3)):
            o.linear(f"heads.{head}", h, outputs)

    net = multi_head()
    agree_on(net, [3], mirror, call=lambda m, x: [m(x, task=t) for t in (0, 1)])


def test_heads_of_examples_from_different_tasks() -> None:
    def mirror(o: Oracle) -> None:
        h = o.linear("trunk.2", o.linear("trunk.0", inputs(3, 3), 4), 5)
        for head, outputs in enumerate((2, 3)):
            o.linear(f"heads.{head}", h, outputs)

    agree(multi_head(), (torch.randn(3, 3), torch.tensor([1, 0, 1])), mirror)


def test_heads_left_plain_are_no_part_of_it() -> None:
    def mirror(o: Oracle, x: SetTensor) -> None:
        o.linear("trunk.2", o.linear("trunk.0", x, 4), 5)

    net = multi_head()
    heads = ["heads.0", "heads.1"]
    agree_on(net, [3], mirror, opaque=heads, call=run_trunk)
    agree_on(net, [3], mirror, opaque=heads)


def test_embeddings_of_words_and_of_positions() -> None:
    def forward(m: Net, words: Tensor) -> Any:
        places = torch.arange(words.shape[1])
        h = m.norm(m.words(words) + m.places(places))
        return m.out(h.mean(1))

    net = Net(
        forward,
        words=nn.Embedding(7, 3),
        places=nn.Embedding(5, 3),
        norm=nn.LayerNorm(3),
        out=nn.Linear(3, 2),
    )

    def mirror(o: Oracle) -> None:
        h = o.embedding("words", [2, 4], 7, 3) + o.embedding("places", [4], 5, 3)
        o.linear("out", o.norm("norm", h, -1).union(1), 2)

    agree(net, torch.randint(7, (2, 4)), mirror)


def test_several_inputs_and_outputs_in_containers() -> None:
    def forward(m: Net, x: Tensor, y: Tensor) -> dict[str, object]:
        h = torch.cat([m.a(x), m.b(y)], dim=1)
        return {"policy": m.c(h), "others": (m.d(h), [h.sum(), None])}

    net = Net(forward, a=nn.Linear(2, 3), b=nn.Linear(1, 2), c=nn.Linear(5, 2), d=nn.Linear(5, 1))

    def mirror(o: Oracle) -> None:
        h = cat(o.linear("a", inputs(2, 2), 3), o.linear("b", inputs(2, 1), 2))
        o.linear("c", h, 2)
        o.linear("d", h, 1)

    agree(net, (torch.randn(2, 2), torch.randn(2, 1)), mirror)
