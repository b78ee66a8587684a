"""Networks as people write them: sources equal the oracle's, set by set."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.topology.compare import Net, agree, agree_on
from tests.topology.oracle import Oracle, SetTensor, cat, inputs
from uclearn.networks.heads import MultiHead, run_trunk


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


class Residual(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.short: nn.Module = nn.Identity()
        if into != out or stride != 1:
            self.short = nn.Sequential(nn.Conv2d(into, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += self.short(x)
        result: Tensor = self.relu(out)
        return result


def mirror_residual(o: Oracle, name: str, x: SetTensor, out: int, stride: int) -> SetTensor:
    h = o.conv(f"{name}.conv1", x, out, (3, 3), stride, 1)
    h = o.norm(f"{name}.norm1", h, 1)
    h = o.conv(f"{name}.conv2", h, out, (3, 3), 1, 1)
    h = o.norm(f"{name}.norm2", h, 1)
    if x.shape[1] != out or stride != 1:
        x = o.norm(f"{name}.short.1", o.conv(f"{name}.short.0", x, out, (1, 1), stride), 1)
    return h + x


def test_a_residual_network_with_batch_norm() -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1),
        nn.BatchNorm2d(2),
        nn.ReLU(inplace=True),
        Residual(2, 2, 1),
        Residual(2, 3, 2),
        Residual(3, 3, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(3, 2),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.norm("1", o.conv("0", x, 2, (3, 3), padding=1), 1)
        h = mirror_residual(o, "3", h, 2, 1)
        h = mirror_residual(o, "4", h, 3, 2)
        h = mirror_residual(o, "5", h, 3, 1)
        o.linear("8", h.adaptive_pool(1, 1).flatten(), 2)

    agree_on(net, [1, 4, 4], mirror)


def test_dense_connections() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        features = [m.stem(x)]
        for norm, conv in ((m.n1, m.c1), (m.n2, m.c2), (m.n3, m.c3)):
            features.append(conv(F.relu(norm(torch.cat(features, 1)))))
        pooled = F.avg_pool2d(m.squeeze(torch.cat(features, 1)), 2)
        return m.head(pooled.flatten(1))

    net = Net(
        forward,
        stem=nn.Conv2d(1, 2, 3, padding=1),
        n1=nn.BatchNorm2d(2),
        c1=nn.Conv2d(2, 3, 3, padding=1),
        n2=nn.BatchNorm2d(5),
        c2=nn.Conv2d(5, 3, 3, padding=1),
        n3=nn.BatchNorm2d(8),
        c3=nn.Conv2d(8, 3, 3, padding=1),
        squeeze=nn.Conv2d(11, 2, 1),
        head=nn.Linear(8, 2),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        features = [o.conv("stem", x, 2, (3, 3), padding=1)]
        for i in (1, 2, 3):
            joined = o.norm(f"n{i}", cat(*features), 1)
            features.append(o.conv(f"c{i}", joined, 3, (3, 3), padding=1))
        pooled = o.conv("squeeze", cat(*features), 2, (1, 1)).pool([2, 2])
        o.linear("head", pooled.flatten(), 2)

    agree_on(net, [1, 4, 4], mirror)


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
    agree_on(net, [3], mirror, call=lambda m, x: m.all_heads(x))
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


def test_a_unet_that_shrinks_and_grows_again() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        down1 = F.relu(m.down1(x))
        down2 = F.relu(m.down2(F.max_pool2d(down1, 2)))
        middle = F.relu(m.middle(F.max_pool2d(down2, 2)))
        up2 = torch.cat([m.up2(middle), down2], dim=1)
        up1 = F.interpolate(m.join2(up2), scale_factor=2, mode="bilinear")
        return m.join1(torch.cat([up1, down1], dim=1))

    net = Net(
        forward,
        down1=nn.Conv2d(1, 2, 3, padding=1),
        down2=nn.Conv2d(2, 3, 3, padding=1),
        middle=nn.Conv2d(3, 4, 1),
        up2=nn.ConvTranspose2d(4, 3, 2, stride=2),
        join2=nn.Conv2d(6, 2, 3, padding=1),
        join1=nn.Conv2d(4, 1, 1),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        down1 = o.conv("down1", x, 2, (3, 3), padding=1)
        down2 = o.conv("down2", down1.pool([2, 2]), 3, (3, 3), padding=1)
        middle = o.conv("middle", down2.pool([2, 2]), 4, (1, 1))
        up2 = cat(o.conv_transpose("up2", middle, 3, 2, 2), down2)
        up1 = o.conv("join2", up2, 2, (3, 3), padding=1).union(2, 3, keep=True) + inputs(4, 4)
        o.conv("join1", cat(up1, down1), 1, (1, 1))

    agree_on(net, [1, 4, 4], mirror)


def test_a_decoder_of_transposed_convolutions() -> None:
    net = nn.Sequential(
        nn.Linear(3, 8),
        nn.Unflatten(1, (2, 2, 2)),
        nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(4, 2, 2, groups=2),
        nn.Conv2d(2, 1, 1),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.linear("0", x, 8).reshape(-1, 2, 2, 2)  # a channel is fed by four nodes
        h = o.conv_transpose("4", o.conv_transpose("2", h, 4, 3, 2, 1), 2, 2, 1)
        o.conv("5", h, 1, (1, 1))

    agree_on(net, [3], mirror)


def test_squeeze_and_excite() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        h = m.conv(x)
        gate = torch.sigmoid(m.up(F.relu(m.down(h.mean((2, 3))))))
        return m.out(h * gate[:, :, None, None])

    net = Net(
        forward,
        conv=nn.Conv2d(1, 4, 3),
        down=nn.Linear(4, 2),
        up=nn.Linear(2, 4),
        out=nn.Conv2d(4, 1, 1),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        h = o.conv("conv", x, 4, (3, 3))
        gate = o.linear("up", o.linear("down", h.union(2, 3), 2), 4)
        o.conv("out", h * gate[:, :, None, None], 1, (1, 1))

    agree_on(net, [1, 4, 4], mirror)


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
