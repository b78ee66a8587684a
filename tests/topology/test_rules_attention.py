"""Attention passes on the features of its values, in one operation or written out."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.topology.compare import Net, agree, agree_by_element, agree_on
from tests.topology.oracle import Oracle, SetTensor, cat, inputs

HEADS, WIDTH, LENGTH = 2, 4, 3


class Block(nn.Module):
    """A transformer block, as in any text book."""

    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        self.by_hand = by_hand
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 6), nn.GELU(), nn.Linear(6, WIDTH))

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, width // HEADS).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        if self.by_hand:
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
            ahead = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
            y = scores.masked_fill(ahead, float("-inf")).softmax(dim=-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = self.project(y.transpose(1, 2).contiguous().view(batch, length, width))
        return result

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        result: Tensor = x + self.mlp(self.norm2(x))
        return result


def mirror_block(o: Oracle, name: str, x: SetTensor) -> SetTensor:
    def heads(part: SetTensor) -> SetTensor:
        return part.reshape(*part.shape[:2], HEADS, WIDTH // HEADS).swap(1, 2)

    made = o.linear(f"{name}qkv", o.norm(f"{name}norm1", x, -1), 3 * WIDTH)
    v = heads(made[..., 2 * WIDTH :])
    y = v.attend(LENGTH)
    x = x + o.linear(f"{name}project", y.swap(1, 2).reshape(*x.shape), WIDTH)
    h = o.linear(f"{name}mlp.0", o.norm(f"{name}norm2", x, -1), 6)
    return x + o.linear(f"{name}mlp.2", h, WIDTH)


def test_transformer_blocks() -> None:
    for by_hand in (False, True):
        net = nn.Sequential(
            nn.Linear(2, WIDTH), Block(by_hand), Block(by_hand), nn.Linear(WIDTH, 1)
        )

        def mirror(o: Oracle, x: SetTensor) -> None:
            h = mirror_block(o, "1.", o.linear("0", x, WIDTH))
            o.linear("3", mirror_block(o, "2.", h), 1)

        agree_on(net, [LENGTH, 2], mirror)


def test_separate_projections_and_attention_to_another_sequence() -> None:
    def forward(m: Net, x: Tensor, memory: Tensor) -> Any:
        y = F.scaled_dot_product_attention(m.q(x), m.k(memory), m.v(memory))
        return m.out(y)

    net = Net(forward, q=nn.Linear(3, 4), k=nn.Linear(2, 4), v=nn.Linear(2, 5), out=nn.Linear(5, 1))

    def mirror(o: Oracle) -> None:
        o.linear("q", inputs(2, 3, 3), 4)
        o.linear("k", inputs(2, 6, 2), 4)
        o.linear("out", o.linear("v", inputs(2, 6, 2), 5).attend(3), 1)

    agree(net, (torch.randn(2, 3, 3), torch.randn(2, 6, 2)), mirror)


def test_heads_of_queries_that_share_heads_of_values() -> None:
    def attend(x: Tensor) -> Tensor:
        q, v = x[:, :4], x[:, 4:]
        return F.scaled_dot_product_attention(q, v, v, enable_gqa=True)

    def mirror(x: SetTensor) -> SetTensor:
        v = x[:, 4:]
        return cat(v[:, :1], v[:, :1], v[:, 1:], v[:, 1:]).attend(2)

    agree_by_element([1, 6, 2, 3], attend, mirror, whole=False)


def test_a_bias_on_the_scores_is_no_feature() -> None:
    """Relative positions: an embedding is added to the scores as a mask."""

    def forward(m: Net, x: Tensor) -> Any:
        bias = m.bias(torch.arange(9).view(3, 3)).permute(2, 0, 1)[None]
        h = m.v(x).unsqueeze(1)
        return m.out(F.scaled_dot_product_attention(h, h, h, attn_mask=bias))

    net = Net(forward, v=nn.Linear(2, 3), bias=nn.Embedding(9, 1), out=nn.Linear(3, 1))

    def mirror(o: Oracle, x: SetTensor) -> None:
        o.embedding("bias", [3, 3], 9, 1)
        h = o.linear("v", x, 3)
        o.linear("out", h[:, None].attend(3), 1)

    agree_on(net, [3, 2], mirror)


def test_a_vision_transformer_with_a_class_token_and_patches() -> None:
    def forward(m: Net, x: Tensor) -> Any:
        patches = m.patches(x).flatten(2).transpose(1, 2)  # (batch, 4, WIDTH)
        token = m.token(torch.zeros(len(x), 1, dtype=torch.long))
        h = torch.cat([token, patches], dim=1) + m.places(torch.arange(5))
        q, k, v = m.qkv(m.norm(h)).chunk(3, dim=-1)
        h = h + F.scaled_dot_product_attention(q, k, v)
        return m.head(h[:, 0])

    net = Net(
        forward,
        patches=nn.Conv2d(1, WIDTH, 2, stride=2),
        token=nn.Embedding(1, WIDTH),
        places=nn.Embedding(5, WIDTH),
        norm=nn.LayerNorm(WIDTH),
        qkv=nn.Linear(WIDTH, 3 * WIDTH),
        head=nn.Linear(WIDTH, 2),
    )

    def mirror(o: Oracle, x: SetTensor) -> None:
        batch = x.shape[0]
        patches = o.conv("patches", x, WIDTH, (2, 2), stride=2).reshape(batch, WIDTH, 4).swap(1, 2)
        h = cat(o.embedding("token", [batch, 1], 1, WIDTH), patches)
        h = h + o.embedding("places", [5], 5, WIDTH)
        made = o.linear("qkv", o.norm("norm", h, -1), 3 * WIDTH)
        h = h + made[..., 2 * WIDTH :].attend(5)
        o.linear("head", h[:, 0], 2)

    agree_on(net, [1, 4, 4], mirror)


def test_attention_between_channels_by_einsum() -> None:
    def attend(x: Tensor) -> Tensor:
        q, k, v = x.unbind(1)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(-1)
        return torch.einsum("bhqk,bhkd->bqhd", scores, v)

    def mirror(x: SetTensor) -> SetTensor:
        return x[:, 2].attend(3).swap(1, 2)

    agree_by_element([2, 3, 2, 3, 2], attend, mirror, whole=False)


def test_rotary_positions_with_complex_numbers_and_with_halves() -> None:
    turn = torch.polar(torch.ones(3, 2), torch.outer(torch.arange(3.0), torch.tensor([1.0, 0.1])))

    def by_complex_numbers(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)

    def pairs(x: SetTensor) -> SetTensor:
        both = x.reshape(2, 3, 2, 2).union(-1, keep=True)
        return cat(both, both, axis=-1).reshape(2, 3, 4)

    agree_by_element([2, 3, 4], by_complex_numbers, pairs)

    def by_halves(x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=-1)
        return x * turn.real.repeat(1, 2) + torch.cat((-right, left), dim=-1) * 0.5

    def halves(x: SetTensor) -> SetTensor:
        return x + cat(x[..., 2:], x[..., :2], axis=-1)

    agree_by_element([2, 3, 4], by_halves, halves)


def test_shares_that_are_mixed_with_something_else_are_nodes_again() -> None:
    """A softmax that gates, or that a layer reads, is no attention."""

    def gated(x: Tensor) -> Tensor:
        return (x.softmax(-1) * x.flip(-1)) @ x.mT

    def mirror(x: SetTensor) -> SetTensor:
        return (x + x[..., ::-1]) @ x.swap(-2, -1)

    agree_by_element([2, 3, 2], gated, mirror, whole=False)
