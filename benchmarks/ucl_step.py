"""One training step of UCL, with `uclearn.Adam`, against one step of the same plain network with
torch's fused Adam: what a loop costs that knows nothing of this package."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.machine import multiplies_bfloat16
from benchmarks.timing import Bar, Case, best_times
from uclearn import UCL, Adam
from uclearn.gaussian import Sampling
from uclearn.methods.ucl import Hold
from uclearn.networks import cifar_network, mlp, run

AS_IT_COMES = 1.9
"""For UCL that holds outputs: a product of the weights' size is more than a pass over them."""


def plain_step(
    network: nn.Module, x: Tensor, y: Tensor, kind: type[torch.optim.Adam] = torch.optim.Adam
) -> Case:
    """The bare loop."""
    network.train()
    optimizer = kind(network.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(run(network, x), y).backward()
        optimizer.step()

    return step


def ucl_step(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    sampling: Sampling,
    closed_form: bool,
    hold: Hold = "weights",
) -> Case:
    """A step of a second task, so that all terms of the penalty are on."""
    method = UCL(network, x[:1], hold=hold, sampling=sampling, closed_form=closed_form)
    method.end_task(inputs=[x])
    optimizer = Adam(method.parameter_groups(lr=1e-3), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(run(method.model, x), y)
        if not closed_form:
            loss = loss + method.penalty(batch_size=len(x))
        loss.backward()
        method.move(optimizer, batch_size=len(x))

    return step


def under_bfloat16(step: Case) -> Case:
    """The same with products in bfloat16, as the trainer does it."""

    def half() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            step()

    return half


def measure() -> Iterator[Bar]:
    """The bars of the core."""
    torch.set_num_threads(2)
    x, y = torch.randn(256, 784), torch.randint(10, (256,))
    cases: dict[str, Case] = {"plain": plain_step(mlp(784, (400, 400), 10), x, y)}
    for sampling in ("weight", "local"):
        for way in ("own loop", "gradient only"):
            network = mlp(784, (400, 400), 10)
            cases[f"{sampling}, {way}"] = ucl_step(network, x, y, sampling, way != "own loop")
    network = mlp(784, (400, 400), 10)
    cases["as it comes"] = ucl_step(network, x, y, "local", True, "outputs")
    times = best_times(
        cases | {"with uclearn.Adam": plain_step(mlp(784, (400, 400), 10), x, y, Adam)}
    )
    ratio = times["with uclearn.Adam"] / times["plain"]
    yield Bar("MLP step, plain, with uclearn.Adam / with torch's", ratio, 1.0)
    for name, seconds in times.items():
        if name in cases and name != "plain":
            limit = 1.35 if "own loop" in name else 1.22 if "only" in name else AS_IT_COMES
            detail = f"{seconds * 1e3:.2f} ms against {times['plain'] * 1e3:.2f} ms"
            yield Bar(f"MLP step, UCL {name}", seconds / times["plain"], limit, detail)
    only = {name: case for name, case in cases.items() if name == "plain" or "only" in name}
    yield from _measure_bfloat16("MLP", only, limit=0.7, rounds=30)

    pictures = torch.randn(256, 3, 32, 32)
    networks = [cifar_network() for _ in range(3)]
    for network in networks:
        network.add_head(10)
    convolutions = {
        "plain": plain_step(networks[0], pictures, y),
        "weight": ucl_step(networks[1], pictures, y, "weight", True),
        "local": ucl_step(networks[2], pictures, y, "local", True),
    }
    times = best_times(convolutions, rounds=6, repeats=1)
    for sampling, limit in (("weight", 1.05), ("local", 1.15)):
        detail = f"{times[sampling] * 1e3:.0f} ms against {times['plain'] * 1e3:.0f} ms"
        ratio = times[sampling] / times["plain"]
        yield Bar(f"CIFAR network step, UCL {sampling}", ratio, limit, detail)
    yield from _measure_bfloat16("CIFAR network", convolutions, limit=0.5, rounds=6)


def _measure_bfloat16(
    network: str, cases: dict[str, Case], limit: float, rounds: int
) -> Iterator[Bar]:
    """Each step against itself in single precision; nothing where the processor only imitates
    bfloat16."""
    if not multiplies_bfloat16():
        return
    for name, case in cases.items():
        pair = {"float32": case, "bfloat16": under_bfloat16(case)}
        times = best_times(pair, rounds, repeats=1 if rounds < 10 else 5)
        whose = "plain" if name == "plain" else f"UCL {name.partition(',')[0]}"
        detail = f"{times['bfloat16'] * 1e3:.2f} ms against {times['float32'] * 1e3:.2f} ms"
        ratio = times["bfloat16"] / times["float32"]
        yield Bar(f"{network} step, {whose}, bfloat16 / float32", ratio, limit, detail)
