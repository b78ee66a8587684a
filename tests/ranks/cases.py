"""What is done alone and by two processes, to be compared: each case returns tensors by name.

Everything is in double precision, so that what should be equal is so to many digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.paper_ucl import paper_ucl
from tests.training.small import blobs, small_plan
from uclearn.methods.contract import Method
from uclearn.methods.registry import build
from uclearn.networks import mlp
from uclearn.ranks import present
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.training import learn

Found = dict[str, Tensor]

TASKS = 2
EXAMPLES = 76
BATCH = 15
"""The last batch of an epoch has one example: the second process has no share in it."""


def tasks(heads: bool) -> TaskSequence:
    """Blobs in double precision."""

    def double(task: int, count: int, seed: int) -> Data:
        data = blobs(task, count, seed)
        return Data(data.inputs.double(), data.targets, task=task)

    made = [
        Task(f"turn {i}", i, double(i, EXAMPLES, 0), double(i, 21, 2), double(i, 61, 1), classes=3)
        for i in range(TASKS)
    ]
    return TaskSequence("turning blobs", made, heads)


def method(name: str, heads: bool, settings: dict[str, dict[str, Any]]) -> Method:
    """A method around a 2-8-8 network."""
    network = mlp(2, (8, 8), None if heads else 3, seed=0).double()
    return build(name, network, torch.zeros(1, 2).double(), settings)


def learned(
    name: str, heads: bool = True, plan: dict[str, Any] | None = None, **part: Any
) -> Found:
    """A whole session: the state it ends with, and what was measured and recorded on the way."""
    settings = {name.partition("+")[0]: part} if part else {}
    made = method(name, heads, settings | MEMORIES.get(name, {}))
    told: list[float] = []

    def observe(event: str, details: dict[str, Any]) -> None:
        if event == "epoch":
            told.extend((details["loss"], details["validation_loss"], details["slower"]))

    chosen = small_plan(**{"batch_size": BATCH, "epochs": 4, "lr": 0.03, **(plan or {})})
    outcome = learn(made, tasks(heads), chosen, observer=observe)
    return {
        **{f"state.{key}": value for key, value in made.state_dict().items()},
        "matrix": torch.tensor(outcome.accuracy_matrix).nan_to_num(-1.0).double(),
        **({} if made.noise is None else {"stream": torch.tensor(made.noise.stream)}),
        **({"told": torch.tensor(told).double()} if present().is_first else {}),
    }


MEMORIES: dict[str, dict[str, dict[str, Any]]] = {
    "finetuning+replay": {"replay": {"size": 20}},
    "finetuning+coreset": {"coreset": {"size": 10, "refit_epochs": 2}},
}

SESSIONS: dict[str, Callable[[], Found]] = {
    "finetuning": lambda: learned("finetuning"),
    "finetuning, one head": lambda: learned("finetuning", heads=False),
    "clipped, with momentum": lambda: learned(
        "finetuning", plan={"optimizer": "sgd", "momentum": 0.9, "clip_norm": 0.2}
    ),
    "chosen by the penalised loss": lambda: learned(
        "lwf", plan={"select_by": "penalised", "lr": 0.3}
    ),
    "joint": lambda: learned("joint"),
    "ewc": lambda: learned("ewc"),
    "ewc, in closed form": lambda: learned("ewc", closed_form=True),
    "ewc, Fisher of groups of 20": lambda: learned("ewc", fisher_batch=20, strength=300.0),
    "ewc, one head, separate": lambda: learned("ewc", heads=False, merge="separate"),
    "si": lambda: learned("si"),
    "si, in closed form": lambda: learned("si", closed_form=True),
    "mas": lambda: learned("mas"),
    "mas, of batches": lambda: learned("mas", per_sample=False),
    "rwalk": lambda: learned("rwalk"),
    "lwf": lambda: learned("lwf"),
    "lwf, one head": lambda: learned("lwf", heads=False),
    "hat": lambda: learned("hat", tasks=TASKS),
    "replay": lambda: learned("finetuning+replay"),
    "coreset": lambda: learned("finetuning+coreset"),
}
"""Methods without noise: whatever the number of processes, they end the same."""


def own_half(batch: Tensor) -> Tensor:
    """This process's examples, as a distributed sampler deals them."""
    ranks = present()
    return batch[ranks.rank :: ranks.size]


def own_loop(
    made: Method, forward: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, by_hand: bool
) -> None:
    """Ten steps of a user's own loop over equal shares, in the words of the documentation."""
    optimizer = torch.optim.SGD(made.parameter_groups(lr=0.1))
    for number in range(10):
        rows = slice(8 * (number % 4), 8 * (number % 4) + 8)
        inputs = own_half(x[rows])
        loss = F.cross_entropy(forward(inputs), own_half(y[rows]))
        loss = loss + made.penalty(batch_size=8, inputs=inputs)
        optimizer.zero_grad()
        loss.backward()
        if by_hand:
            weight = len(inputs) / 8
            present().average_gradients(made.model.parameters(), weight, loss.detach())
        made.adjust_gradients(batch_size=8)
        optimizer.step()
        made.end_step(batch_size=8)


def wrapped(model: nn.Module) -> nn.Module:
    """As it is, or in torch's DistributedDataParallel where there are several processes."""
    if present().size == 1:
        return model
    return nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)


def in_own_loop(name: str, heads: bool, by_hand: bool = False, **part: Any) -> Found:
    """Two tasks in a user's own loop, in torch's DDP or with gradients averaged by hand."""
    made = method(name, heads, {name: part} if part else {})
    for index in range(TASKS):
        data = blobs(index, 32, 0)
        x, y = data.inputs.double(), data.targets
        made.begin_task(Task(f"turn {index}", index, data, classes=3))
        network = made.model if by_hand else wrapped(made.model)

        def forward(inputs: Tensor, network: nn.Module = network, task: int = index) -> Tensor:
            output: Tensor = network(inputs, task=task) if heads else network(inputs)
            return output

        own_loop(made, forward, x, y, by_hand)
        own = own_half(x), own_half(y)
        losses = _losses(made, *own, index, heads)
        made.end_task(losses=losses, inputs=[own[0]])
    return dict(made.state_dict())


def _losses(
    made: Method, x: Tensor, y: Tensor, task: int, heads: bool
) -> Callable[[], list[Tensor]]:
    def compute() -> list[Tensor]:
        output = made.model(x, task=task) if heads else made.model(x)
        return [F.cross_entropy(output, y, reduction="none")]

    return compute


def normalised(**settings: Any) -> Found:
    """UCL's batch norms, gathered anew when a task ends."""
    net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).double()
    with torch.no_grad():
        generator = torch.Generator().manual_seed(3)
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    made = paper_ucl(net, torch.zeros(2, 2).double(), **settings)
    data = blobs(0, 700, 0)
    made.end_task(Task("turn 0", 0, Data(data.inputs.double(), data.targets), classes=3))
    return {k: v for k, v in made.state_dict().items() if "num_batches_tracked" not in k}


OWN_LOOPS: dict[str, Callable[[], Found]] = {
    # one draw of the weights for all examples, and the same one in both processes
    "ucl": lambda: in_own_loop("ucl", False, sampling="weight"),
    "ucl with heads": lambda: in_own_loop("ucl", True, sampling="weight"),
    "ucl in closed form": lambda: in_own_loop("ucl", True, sampling="weight", closed_form=True),
    "ewc": lambda: in_own_loop("ewc", True),
    "si": lambda: in_own_loop("si", True),
    "mas": lambda: in_own_loop("mas", True),
    "rwalk": lambda: in_own_loop("rwalk", False, closed_form=True),
    "lwf, averaged by hand": lambda: in_own_loop("lwf", True, by_hand=True),
    "batch norms": normalised,
    "batch norms per task": lambda: normalised(batch_norm="per-task"),
}
"""In a user's own loop, where each process hands in its own half of everything."""
