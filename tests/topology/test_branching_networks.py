"""Networks whose branches meet again: sources equal the oracle's, set by set."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.topology.compare import Net, agree_on
from tests.topology.oracle import Oracle, SetTensor, cat, inputs


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
