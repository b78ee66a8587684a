"""UCL in two processes: the penalty is divided by the examples of both."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from tests.paper_ucl import paper_ucl
from uclearn import UCL

pytestmark = pytest.mark.torchrun

X = torch.randn(16, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(16) % 3
PROCESSES = 2


def in_the_second_task() -> UCL:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    method = paper_ucl(net, X[:1], beta=0.03, sampling="weight")  # one draw for all examples
    method.end_task()
    with torch.no_grad():
        for parameter in method.model.parameters():
            parameter.add_(0.1)
    return method


def gradients(method: UCL, model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    loss = F.cross_entropy(model(x), y) + method.penalty(batch_size=len(X))
    loss.backward()
    return {name: p.grad for name, p in method.model.named_parameters() if p.grad is not None}


def work(rank: int, folder: str) -> None:
    """One process: its half of the examples."""
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", meeting, rank=rank, world_size=PROCESSES)
    method = in_the_second_task()
    mine = slice(rank, None, PROCESSES)
    found = gradients(method, DistributedDataParallel(method.model), X[mine], Y[mine])
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_have_the_gradient_of_the_whole_batch(tmp_path: Path) -> None:
    spawn(work, args=(str(tmp_path),), nprocs=PROCESSES)
    method = in_the_second_task()
    expected = gradients(method, method.model, X, Y)
    assert len(expected) == 6  # weight, bias and rho of two layers
    for rank in range(PROCESSES):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient)
