"""One seed, many independent streams of random numbers."""

from __future__ import annotations

from hashlib import blake2b

import torch


def generator(seed: int, purpose: str) -> torch.Generator:
    """The stream of `seed` for `purpose`: always the same, and unrelated to every other purpose's.

    >>> first, again = generator(0, "permutations"), generator(0, "permutations")
    >>> bool(torch.rand((), generator=first) == torch.rand((), generator=again))
    True
    """
    digest = blake2b(f"{purpose}:{seed}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
