"""What two processes find together, written down by each of them.

torchrun --nproc-per-node=2 -m tests.ranks.harness FOLDER
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.ranks.cases import OWN_LOOPS, SESSIONS, Found, learned, method, tasks, wrapped
from tests.training.small import small_plan
from uclearn.errors import UclearnError
from uclearn.methods.contract import Method, Step
from uclearn.methods.losses import cross_entropy
from uclearn.networks import mlp
from uclearn.ranks import Ranks, together
from uclearn.session import own_randomness
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.training import StoppedError, learn
from uclearn.training.loop import train_step


def in_step(name: str, ranks: Ranks) -> dict[str, Any]:
    """Ten steps with noise, nothing but gradients exchanged: are the weights the same, bit for bit,
    and is the noise not?"""
    made = method(name, True, {name: {"closed_form": True}})
    assert made.noise is not None
    made.noise.stream = ranks.rank
    task = made.begin_task(tasks(True)[0])
    optimizer = torch.optim.Adam(made.parameter_groups(lr=0.01))
    batch = task.train.batch(torch.arange(ranks.rank, 30, ranks.size))
    for _ in range(10):
        step = Step(0, batch.inputs, 30, 0.5, len(task.train))
        train_step(made, batch, step, cross_entropy, optimizer, ranks=ranks)
    outputs = made.model(torch.ones(4, 2).double(), task=0).detach()
    return {
        "same weights": same([p.detach() for p in made.parameters()], ranks),
        "same noise": same([outputs], ranks),
        "same draws so far": same([torch.tensor(made.noise.state)], ranks),
    }


def in_ddp(ranks: Ranks) -> dict[str, Any]:
    """UCL in torch's own DistributedDataParallel, with a stream of noise for each process."""
    made = method("ucl", True, {})
    assert made.noise is not None
    made.noise.stream = ranks.rank
    seen = []
    for task in tasks(True):
        made.begin_task(task)
        network = wrapped(made.model)
        optimizer = torch.optim.Adam(made.parameter_groups(lr=0.01))
        batch = task.train.batch(torch.arange(ranks.rank, 30, ranks.size))
        for _ in range(10):
            output = network(batch.inputs, task=task.index)
            seen.append(output.detach()[:1].clone())
            loss = cross_entropy(output, batch.targets).mean() + made.penalty(batch_size=30)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        made.end_task()
    return {
        "same state": same([v for k, v in made.state_dict().items()], ranks),
        "same outputs": same(seen, ranks),
    }


def same(tensors: list[Tensor], ranks: Ranks) -> bool:
    """Whether all of them are, bit for bit, what they are in every other process."""
    gathered = [ranks.gather(tensor.contiguous()) for tensor in tensors]
    return all(torch.equal(each, each[:1].expand_as(each)) for each in gathered)


def refitted(ranks: Ranks) -> dict[str, Any]:
    """The copy that a coreset is learned by last of all, with noise: is it one and the same?"""
    made = method("vcl+coreset", False, {"coreset": {"size": 10, "refit_epochs": 2}})
    learn(made, tasks(False), small_plan())
    with made.inference(0) as network:
        weights = [p.detach() for p in network.parameters()]
    own = [p.detach() for p in made.parameters()]
    return {"same copy": same(weights, ranks), "refitted": not torch.equal(weights[0], own[0])}


def stopped(folder: Path, ranks: Ranks) -> dict[str, Any]:
    """One process is interrupted: both stop after that step, and both go on from there."""
    calls = 0

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 8 and ranks.rank == 1:
            signal.raise_signal(signal.SIGINT)
        return cross_entropy(outputs, targets)

    message = ""
    try:
        learn(
            method("ewc", True, {"ewc": {"strength": 30.0}}),
            tasks(True),
            small_plan(),
            loss=loss,
            folder=folder,
        )
    except StoppedError as error:
        message = str(error)
    stopped_at, calls = calls, 100
    made = method("ewc", True, {"ewc": {"strength": 30.0}})
    learn(made, tasks(True), small_plan(), loss=loss, folder=folder)
    _keep(dict(made.state_dict()), folder / f"resumed {ranks.rank}.safetensors")
    return {"message": message, "stopped at": stopped_at}


class Counting(Ranks):
    """Ranks that write down how many numbers each message had."""

    messages: ClassVar[list[int]] = []

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        given = list(tensors)
        self.messages.extend(tensor.numel() for tensor in given)
        super().sum_(given)


def sent(ranks: Ranks) -> dict[str, Any]:
    """A step of the second of two tasks with heads: does the first one's head travel?"""
    made = method("finetuning", True, {})
    task = [made.begin_task(task) for task in tasks(True)][-1]
    batch = task.train.batch(torch.arange(ranks.rank, 30, ranks.size))
    step = Step(1, batch.inputs, 30, 0.5, len(task.train))
    counting = Counting(ranks.rank, ranks.size)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.01)
    train_step(made, batch, step, cross_entropy, optimizer, ranks=counting)
    used = sum(p.numel() for p in made.parameters() if p.grad is not None)
    return {
        "messages": counting.messages,
        "parameters": len(list(made.parameters())),
        "numbers": sum(p.numel() for p in made.parameters()),
        "used": used,
    }


def dropout(ranks: Ranks) -> dict[str, Any]:
    """Torch's own generator, seeded alike: what each process draws from it."""
    with own_randomness(7, torch.device("cpu"), ranks):
        drawn = torch.rand(3)
    return {"drawn": drawn.tolist()}


def refusals(ranks: Ranks) -> dict[str, str]:
    """What is refused, in the words that each process hears."""
    good = tasks(False)
    told = {}

    def hear(what: str, made: Method, sequence: TaskSequence) -> None:
        try:
            learn(made, sequence, small_plan())
        except UclearnError as error:
            told[what] = str(error)

    hear("different weights", Method(mlp(2, (4,), 3, seed=ranks.rank).double()), good)
    batch = good[0].train.batch(torch.arange(40))
    batch.inputs[0] = torch.inf  # one example, which only one of the processes sees
    hear("not finite", Method(mlp(2, (4,), 3).double()), _only(Data(batch.inputs, batch.targets)))
    return told


def _only(data: Data) -> TaskSequence:
    return TaskSequence("broken", [Task("broken", 0, data, None, data, classes=3)], False)


def main(folder: Path) -> None:
    """Everything, one after the other."""
    torch.set_num_threads(1)
    with together() as ranks:
        for room, cases in (("session", SESSIONS), ("own loop", OWN_LOOPS)):
            for name, case in cases.items():
                _keep(case(), folder / f"{room} {name} {ranks.rank}.safetensors")
        told = {
            "ranks": [ranks.rank, ranks.size],
            "ucl": in_step("ucl", ranks),
            "vcl": in_step("vcl", ranks),
            "ddp": in_ddp(ranks),
            "dropout": dropout(ranks),
            "sent": sent(ranks),
            "refitted": refitted(ranks),
            "stopped": stopped(folder / "stopped", ranks),
            "refused": refusals(ranks),
        }
        for name in ("ucl", "vcl"):
            _keep(learned(name), folder / f"noisy {name} {ranks.rank}.safetensors")
        (folder / f"told {ranks.rank}.json").write_text(json.dumps(told))


def _keep(found: Found, path: Path) -> None:
    save_file({key: value.detach().contiguous().clone() for key, value in found.items()}, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
