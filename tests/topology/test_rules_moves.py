"""Views, permutes, slices, concatenations and paddings move identities as they move data.

Every element is a node of its own, so a single element that goes astray is seen. NumPy does each
move a second time.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.topology.compare import agree_by_element
from tests.topology.oracle import SetTensor, cat, inputs, pad, stack


def everywhere(x: SetTensor, axes: Sequence[int], size: int | None = None) -> SetTensor:
    """Each place may hold what stands anywhere along these axes."""
    cells = x.cells
    for axis in axes:
        merged = SetTensor(cells).union(axis, keep=True).cells
        cells = np.repeat(merged, size or x.cells.shape[axis], axis=axis)
    return SetTensor(cells)


Move = tuple[Sequence[int], Callable[[Tensor], Tensor], Callable[[SetTensor], SetTensor]]

PLACES = torch.tensor([[2, 0], [1, 1]])
MASK = torch.tensor([[True, False, True], [False, False, True]])


def numpy(how: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """The oracle's move by a function of NumPy."""
    return lambda x: x.move(how, *arguments, **settings)


def shuffle(x: SetTensor) -> SetTensor:
    """Channels (4) become a square of 2 x 2 positions each."""
    batch, _, height, width = x.shape
    split = x.reshape(batch, -1, 2, 2, height, width).permute(0, 1, 4, 2, 5, 3)
    return split.reshape(batch, -1, 2 * height, 2 * width)


def patches(x: SetTensor) -> SetTensor:
    """What `unfold` cuts out: (batch, channels * 4, positions)."""
    batch, channels, height, width = x.shape
    columns = [
        x[:, :, i : i + 2, j : j + 2].reshape(batch, channels * 4)
        for i in range(height - 1)
        for j in range(width - 1)
    ]
    return stack(*columns, axis=2)


VIEWS: dict[str, Move] = {
    "view": ([2, 6], lambda x: x.view(3, 4), lambda x: x.reshape(3, 4)),
    "reshape": ([2, 6], lambda x: x.reshape(-1, 3), lambda x: x.reshape(-1, 3)),
    "reshape that copies": (
        [2, 3],
        lambda x: x.t().reshape(2, 3),
        lambda x: x.T.reshape(2, 3),
    ),
    "flatten": ([2, 3, 2], lambda x: x.flatten(1), lambda x: x.reshape(2, 6)),
    "flatten batch and time": (
        [2, 3, 2],
        lambda x: x.flatten(0, 1),
        lambda x: x.reshape(6, 2),
    ),
    "unflatten": ([2, 6], lambda x: x.unflatten(1, (3, 2)), lambda x: x.reshape(2, 3, 2)),
    "ravel": ([2, 3], torch.ravel, lambda x: x.reshape(-1)),
    "permute": (
        [2, 3, 4],
        lambda x: x.permute(2, 0, 1),
        lambda x: x.permute(2, 0, 1),
    ),
    "transpose": ([2, 3, 4], lambda x: x.transpose(0, -1), lambda x: x.swap(0, 2)),
    "T": ([2, 3], lambda x: x.T, lambda x: x.T),
    "mT": ([2, 3, 4], lambda x: x.mT, lambda x: x.swap(1, 2)),
    "movedim": ([2, 3, 4], lambda x: x.movedim(0, 2), lambda x: x.permute(1, 2, 0)),
    "swapaxes": ([2, 3], lambda x: x.swapaxes(0, 1), lambda x: x.T),
    "squeeze and unsqueeze": (
        [2, 1, 3],
        lambda x: x.squeeze(1).unsqueeze(0).squeeze(),
        lambda x: x.reshape(2, 3),
    ),
    "squeezed in place": (
        [2, 1, 3],
        lambda x: x.clone().squeeze_(1).unsqueeze_(0).transpose_(1, 2),
        lambda x: x.reshape(1, 2, 3).swap(1, 2),
    ),
    "expand": (
        [2, 1, 3],
        lambda x: x.expand(-1, 4, -1),
        numpy(np.broadcast_to, (2, 4, 3)),
    ),
    "expand_as": (
        [2, 1],
        lambda x: x.expand_as(torch.zeros(2, 3)),
        numpy(np.broadcast_to, (2, 3)),
    ),
    "expand then reshape": (
        [3, 2],
        lambda x: x[:, None].expand(3, 2, 2).reshape(3, 4).reshape(6, 2).t(),
        lambda x: x.move(lambda c: np.repeat(c[:, None], 2, axis=1).reshape(6, 2).T),
    ),
    "diagonal": ([3, 3], lambda x: x.diagonal(), numpy(np.diagonal)),
    "windows of unfold": (
        [2, 5],
        lambda x: x.unfold(1, 3, 2),
        lambda x: stack(x[:, 0:3], x[:, 2:5]),
    ),
    "as_strided": (
        [3, 4],
        lambda x: x.t().contiguous().as_strided((2, 2), (1, 5), 2),
        lambda x: x.move(lambda c: c.T.reshape(-1)[[[2, 7], [3, 8]]]),
    ),
    "views of views": (
        [2, 3, 4],
        lambda x: x[:, 1:].transpose(1, 2)[..., ::2, :].flatten(1)[:, 1:].view(2, 3).T[1:],
        lambda x: x[:, 1:].swap(1, 2)[..., ::2, :].reshape(2, 4)[:, 1:].T[1:],
    ),
    "another memory format": (
        [1, 2, 2, 2],
        lambda x: x.contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1).reshape(4, 2),
        lambda x: x.permute(0, 2, 3, 1).reshape(4, 2),
    ),
    "detached": ([2, 3], lambda x: x.detach().data.clone(), lambda x: x),
    "another type": (
        [2, 3],
        lambda x: x.double().to(torch.float16).type_as(x),
        lambda x: x,
    ),
    "through NumPy, memory shared": (
        [2, 3],
        lambda x: torch.from_numpy(x.detach().numpy()),
        lambda x: x,
    ),
}

PIECES: dict[str, Move] = {
    "slices": ([4, 5], lambda x: x[1:, ::2], lambda x: x[1:, ::2]),
    "one row": ([4, 5], lambda x: x[-1], lambda x: x[-1]),
    "a list of places": ([2, 5], lambda x: x[:, [4, 0, 0]], lambda x: x[:, [4, 0, 0]]),
    "a tensor of places": (
        [3, 2],
        lambda x: x[PLACES, 0],
        lambda x: x[PLACES.numpy(), 0],
    ),
    "a mask": ([2, 3], lambda x: x[MASK], lambda x: x[MASK.numpy()]),
    "a mask that depends on data": (
        [2, 3],
        lambda x: x[x * 0 == 0].view(3, 2),
        lambda x: everywhere(x, (0, 1)).reshape(3, 2),
    ),
    "places that depend on data": (
        [2, 3],
        lambda x: x[:, x[0].topk(2).indices],
        lambda x: everywhere(x, (1,))[:, :2],
    ),
    "gathered by the largest": (
        [2, 3],
        lambda x: x.gather(1, x.topk(2, dim=1).indices),
        lambda x: everywhere(x, (1,))[:, :2],
    ),
    "rows of the largest": (
        [3, 2],
        lambda x: x.index_select(0, x[:, 0].argmax(0, keepdim=True)),
        lambda x: everywhere(x, (0,))[:1],
    ),
    "put where the largest was": (
        [2, 3],
        lambda x: torch.zeros(2, 3).scatter(1, x.topk(2, dim=1).indices, x[:, :2]),
        lambda x: everywhere(x[:, :2], (1,), 3),
    ),
    "None and dots": ([2, 3], lambda x: x[..., None, 1:], lambda x: x[..., None, 1:]),
    "narrow and select": (
        [2, 5],
        lambda x: x.narrow(1, 1, 3).select(0, 1),
        lambda x: x[1, 1:4],
    ),
    "index_select": (
        [2, 3],
        lambda x: x.index_select(1, torch.tensor([2, 2, 0])),
        lambda x: x[:, [2, 2, 0]],
    ),
    "gather": (
        [2, 3],
        lambda x: x.gather(1, PLACES),
        lambda x: x.move(np.take_along_axis, PLACES.numpy(), axis=1),
    ),
    "take_along_dim": (
        [2, 3],
        lambda x: x.take_along_dim(PLACES, 1),
        lambda x: x.move(np.take_along_axis, PLACES.numpy(), axis=1),
    ),
    "take": (
        [2, 3],
        lambda x: x.take(torch.tensor([5, 0])),
        lambda x: x.reshape(-1)[[5, 0]],
    ),
    "masked_select": (
        [2, 3],
        lambda x: x.masked_select(MASK),
        lambda x: x[MASK.numpy()],
    ),
    "rows of a table that nodes have made": (
        [3, 2],
        lambda x: F.embedding(PLACES, x),
        lambda x: x[PLACES.numpy()],
    ),
    "chunk": (
        [2, 6],
        lambda x: torch.cat(x.chunk(3, 1)[::-1], 1),
        lambda x: x[:, [4, 5, 2, 3, 0, 1]],
    ),
    "split": (
        [2, 4],
        lambda x: torch.cat(x.split([1, 3], 1)[::-1], 1),
        lambda x: x[:, [1, 2, 3, 0]],
    ),
    "tensor_split": (
        [2, 4],
        lambda x: torch.cat(x.tensor_split(3, 1)[::-1], 1),
        lambda x: x[:, [3, 2, 0, 1]],
    ),
    "unbind and stack": (
        [2, 3],
        lambda x: torch.stack(x.unbind(1)[::-1], dim=1),
        lambda x: x[:, ::-1],
    ),
    "a row at a time": ([2, 3], lambda x: torch.stack(list(x)), lambda x: x),
}

JOINS: dict[str, Move] = {
    "cat of slices": (
        [2, 4],
        lambda x: torch.cat([x[:, 2:], x[:, :2], torch.zeros(2, 1)], dim=-1),
        lambda x: cat(x[:, 2:], x[:, :2], inputs(2, 1)),
    ),
    "stack": ([2, 3], lambda x: torch.stack([x, x * 2], 2), lambda x: stack(x, x, axis=2)),
    "hstack": (
        [2, 3],
        lambda x: torch.hstack([x[:, :1], x]),
        lambda x: cat(x[:, :1], x),
    ),
    "vstack": ([2, 3], lambda x: torch.vstack([x, x[0]]), lambda x: cat(x, x[:1], axis=0)),
    "repeat": ([2, 3], lambda x: x.repeat(2, 1, 2), numpy(np.tile, (2, 1, 2))),
    "tile": ([2, 3], lambda x: x.tile(1, 2), numpy(np.tile, (1, 2))),
    "repeat_interleave": (
        [2, 3],
        lambda x: x.repeat_interleave(2, dim=1),
        numpy(np.repeat, 2, axis=1),
    ),
    "repeat_interleave by a tensor": (
        [2, 3],
        lambda x: x.repeat_interleave(torch.tensor([0, 2, 1]), dim=1),
        numpy(np.repeat, [0, 2, 1], axis=1),
    ),
    "flip": ([2, 3], lambda x: x.flip(0, 1), numpy(np.flip)),
    "roll": ([2, 5], lambda x: x.roll(2, 1), numpy(np.roll, 2, axis=1)),
    "rot90": ([2, 3], torch.rot90, numpy(np.rot90)),
    "pixel_shuffle": ([1, 8, 2, 1], lambda x: F.pixel_shuffle(x, 2), shuffle),
    "pixel_unshuffle": (
        [1, 2, 4, 2],
        lambda x: F.pixel_shuffle(F.pixel_unshuffle(x, 2), 2),
        lambda x: x,
    ),
    "channel_shuffle": (
        [1, 6, 2],
        lambda x: F.channel_shuffle(x, 2),
        lambda x: x[:, [0, 3, 1, 4, 2, 5]],
    ),
    "patches": ([1, 2, 3, 2], lambda x: F.unfold(x, 2), patches),
    "diag_embed": (
        [2, 2],
        torch.diag_embed,
        lambda x: stack(
            stack(x[:, 0], inputs(2)),
            stack(inputs(2), x[:, 1]),
        ),
    ),
    "zeros around": ([2, 3], lambda x: F.pad(x, (1, 2, 0, 1)), lambda x: pad(x, (0, 1), (1, 2))),
    "ones around": (
        [2, 3],
        lambda x: F.pad(x, (1, 0), value=1.0),
        lambda x: pad(x, (0, 0), (1, 0)),
    ),
    "cut off": ([2, 4], lambda x: F.pad(x, (-1, -2)), lambda x: x[:, 1:2]),
    "reflected": (
        [1, 2, 3],
        lambda x: F.pad(x, (2, 1), mode="reflect"),
        lambda x: x[..., [2, 1, 0, 1, 2, 1]],
    ),
    "replicated": (
        [1, 2, 3],
        lambda x: F.pad(x, (2, 1), mode="replicate"),
        lambda x: x[..., [0, 0, 0, 1, 2, 2]],
    ),
    "circular": (
        [1, 2, 3],
        lambda x: F.pad(x, (2, 1), mode="circular"),
        lambda x: x[..., [1, 2, 0, 1, 2, 0]],
    ),
    "nearest neighbours": (
        [1, 2, 2, 3],
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: x[:, :, [0, 0, 1, 1]][..., [0, 0, 1, 1, 2, 2]],
    ),
    "nearest neighbours, exactly": (
        [1, 2, 3],
        lambda x: F.interpolate(x, size=2, mode="nearest-exact"),
        lambda x: x[..., [0, 2]],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VIEWS, *PIECES, *JOINS])
def test_every_element_arrives_where_its_value_does(name: str) -> None:
    agree_by_element(*(VIEWS | PIECES | JOINS)[name])
