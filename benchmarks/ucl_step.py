"""One training step of UCL against one step of the same plain network with the same fused Adam."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.timing import Bar, Case, best_times
from uclearn import UCL
from uclearn.gaussian import Sampling
from uclearn.networks import cifar_network, mlp, run


def plain_step(network: nn.Module, x: Tensor, y: Tensor) -> Case:
    """The bare loop."""
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(run(network, x), y).backward()
        optimizer.step()

    return step


def ucl_step(
    network: nn.Module, x: Tensor, y: Tensor, sampling: Sampling, closed_form: bool
) -> Case:
    """A step of a second task, so that all terms of the penalty are on."""
    method = UCL(network, x[:1], beta=0.03, sampling=sampling, closed_form=closed_form)
    method.end_task()
    optimizer = torch.optim.Adam(method.parameter_groups(lr=1e-3), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(run(method.model, x), y)
        if not closed_form:
            loss = loss + method.penalty(batch_size=len(x))
        loss.backward()
        method.adjust_gradients(batch_size=len(x))
        optimizer.step()

    return step


def measure() -> Iterator[Bar]:
    """The bars of the core."""
    torch.set_num_threads(2)
    x, y = torch.randn(256, 784), torch.randint(10, (256,))
    cases: dict[str, Case] = {"plain": plain_step(mlp(784, (400, 400), 10), x, y)}
    for sampling in ("weight", "local"):
        for way in ("own loop", "gradient only"):
            network = mlp(784, (400, 400), 10)
            cases[f"{sampling}, {way}"] = ucl_step(network, x, y, sampling, way != "own loop")
    times = best_times(cases)
    for name, seconds in times.items():
        if name != "plain":
            limit = 1.45 if "own loop" in name else 1.30
            detail = f"{seconds * 1e3:.2f} ms against {times['plain'] * 1e3:.2f} ms"
            yield Bar(f"MLP step, UCL {name}", seconds / times["plain"], limit, detail)
    yield from _measure_cifar()


def _measure_cifar() -> Iterator[Bar]:
    x, y = torch.randn(256, 3, 32, 32), torch.randint(10, (256,))
    networks = [cifar_network() for _ in range(3)]
    for network in networks:
        network.add_head(10)
    times = best_times(
        {
            "plain": plain_step(networks[0], x, y),
            "weight": ucl_step(networks[1], x, y, "weight", True),
            "local": ucl_step(networks[2], x, y, "local", True),
        },
        rounds=6,
        repeats=1,
    )
    for sampling, limit in (("weight", 1.08), ("local", 1.25)):
        detail = f"{times[sampling] * 1e3:.0f} ms against {times['plain'] * 1e3:.0f} ms"
        ratio = times[sampling] / times["plain"]
        yield Bar(f"CIFAR network step, UCL {sampling}", ratio, limit, detail)
