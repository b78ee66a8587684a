"""Torch's own random numbers, which dropout draws from: seeded, saved, taken up again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from uclearn.ranks import Ranks
from uclearn.tasks.data import generator


@contextmanager
def own_randomness(seed: int, device: torch.device, ranks: Ranks) -> Iterator[None]:
    """Within: draws follow from `seed`, other ones in each process; afterwards torch's generators
    are as they were."""
    if not ranks.is_first:
        seed = generator(seed, f"dropout of rank {ranks.rank}").initial_seed()
    devices = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices, device_type=_kind(device)):
        torch.manual_seed(seed)
        yield


def random_state(device: torch.device) -> Tensor:
    """(bytes,) where the generator of the CPU stands, then that of `device`."""
    state = torch.get_rng_state()
    if device.type != "cpu":
        own = torch.get_device_module(device.type).get_rng_state(device)
        state = torch.cat([state, own])
    return state


def set_random_state(saved: Tensor, device: torch.device, ranks: Ranks) -> None:
    """Go on where the generators stood.

    Args:
        saved: (bytes,), or (processes, bytes): `random_state` of each. A process that was not
            there keeps what it has.
        device: what this process learns on.
        ranks: which process this is.
    """
    states = saved if saved.dim() == 2 else saved[None]
    if ranks.rank >= len(states):
        return
    length = torch.get_rng_state().numel()
    here, there = states[ranks.rank, :length], states[ranks.rank, length:]
    torch.set_rng_state(here.clone())
    if device.type != "cpu" and len(there):
        torch.get_device_module(device.type).set_rng_state(there.clone(), device)


def _kind(device: torch.device) -> str:
    return "cuda" if device.type == "cpu" else device.type
