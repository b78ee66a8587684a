"""Turned and shifted copies of pictures, made when a batch asks for them.

Twenty copies of every Omniglot drawing would be half a gigabyte of bytes. Instead, what is stored
is a recipe per copy, four numbers, and the batch is drawn from the one array of pictures. The
recipes are fixed by the seed, so a copy looks the same every time it is met.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import radians

import torch
from torch import Tensor
from torch.nn import functional as F

from uclearn.errors import SettingError
from uclearn.tasks.seeds import generator


@dataclass(frozen=True)
class Jitter:
    """How far copies stray: `copies` of each picture beside the picture itself, each turned by up
    to `degrees` and shifted by up to `pixels` along both axes, evenly distributed.

    The paper gives only the number of copies; 15 degrees and 2 of 28 pixels keep the characters
    whole and apart.
    """

    copies: int = 20
    degrees: float = 15.0
    pixels: float = 2.0

    def __post_init__(self) -> None:
        for name in ("copies", "degrees", "pixels"):
            if getattr(self, name) < 0:
                raise SettingError(f"`{name}` must not be negative, got {getattr(self, name)}.")


def recipes(pictures: int, jitter: Jitter, seed: int) -> Tensor:
    """(pictures, 1 + copies, 4) float: picture number, angle in radians, shift right, shift down.

    The first recipe of each picture leaves it as it is.
    """
    stream = generator(seed, "augmentation")
    spread = torch.tensor([radians(jitter.degrees), jitter.pixels, jitter.pixels])
    table = torch.zeros(pictures, 1 + jitter.copies, 4)
    table[:, :, 0] = torch.arange(pictures)[:, None]  # exact up to 16 million pictures
    drawn = torch.rand(pictures, jitter.copies, 3, generator=stream) * 2 - 1
    table[:, 1:, 1:] = drawn * spread
    return table


@dataclass(frozen=True, eq=False)
class Warp:
    """Recipes (batch, 4) -> pictures (batch, height, width), floats in the range of the bytes.

    Bilinear; what comes in from outside is 0.
    """

    pictures: Tensor  # (pictures, height, width) uint8

    def __call__(self, batch: Tensor) -> Tensor:
        """The pictures that the recipes describe."""
        picked = self.pictures.index_select(0, batch[:, 0].long().to(self.pictures.device))
        images = picked.to(batch.dtype).unsqueeze(1)  # (batch, 1, height, width)
        height, width = images.shape[-2:]
        cosine, sine = batch[:, 1].cos(), batch[:, 1].sin()
        right, down = batch[:, 2] * 2 / width, batch[:, 3] * 2 / height  # the grid is 2 wide
        # affine_grid asks where each output pixel comes from: shifted back, then turned back.
        top = torch.stack([cosine, sine, -cosine * right - sine * down], 1)
        bottom = torch.stack([-sine, cosine, sine * right - cosine * down], 1)
        grid = F.affine_grid(torch.stack([top, bottom], 1), list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, align_corners=False).squeeze(1)
