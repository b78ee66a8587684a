"""Every method ends where it ended in version 0.1.0: a few digits of what it learned.

The numbers in `methods.json` were written by `python -m tests.golden.test_methods` with version
0.1.0 (commit 25713d2, torch 2.13.0 for CPUs, one thread, x86-64). On one machine and one version of
torch a method gives the same bits every time; elsewhere sums are added in another order and draws
rounded differently. All is therefore learned in double precision and compared to four digits,
accuracies to two of 60 examples: enough to see any other order of draws, any other formula.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.paper_ucl import BY_HAND
from uclearn.methods.registry import METHODS, WRAPPERS, build, parts
from uclearn.networks import mlp
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.training import Plan, learn
from uclearn.training.metrics import average_accuracy

NUMBERS = Path(__file__).with_name("methods.json")
VCL = {"samples": 3, "prediction_samples": 4, "start_epochs": 2}
UCL = {**BY_HAND, "ratio": 0.5}
"""The paper's, as these numbers were taken."""
CASES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "finetuning": ("finetuning", {}),
    "joint": ("joint", {}),
    "ucl": ("ucl", {"ucl": UCL}),
    "ucl, weights drawn": ("ucl", {"ucl": {**UCL, "sampling": "weight"}}),
    "ucl, constant sigma": ("ucl", {"ucl": {**BY_HAND, "sigma": 0.06}}),
    "ucl, sigma by its share": ("ucl", {"ucl": {**UCL, "ratio": 0.25}}),
    "ucl, in closed form": ("ucl", {"ucl": {**UCL, "closed_form": True}}),
    "ewc": ("ewc", {"ewc": {"strength": 30.0}}),
    "ewc, separate": ("ewc", {"ewc": {"strength": 30.0, "merge": "separate"}}),
    "si": ("si", {"si": {"strength": 1.0}}),
    "mas": ("mas", {"mas": {"strength": 0.1}}),
    "rwalk": ("rwalk", {"rwalk": {"strength": 1.0}}),
    "lwf": ("lwf", {"lwf": {"strength": 1.0}}),
    "vcl": ("vcl", {"vcl": VCL}),
    "hat": ("hat", {"hat": {"tasks": 3}}),
    "vcl+coreset": ("vcl+coreset", {"vcl": VCL, "coreset": {"size": 6, "refit_epochs": 2}}),
    "ucl+replay": ("ucl+replay", {"ucl": UCL, "replay": {"size": 12}}),
    "ewc+replay": ("ewc+replay", {"ewc": {"strength": 30.0}, "replay": {"size": 12}}),
}


def blobs(task: int, count: int, seed: int) -> Data:
    """Three clouds in the plane, turned a little further for each task."""
    generator = torch.Generator().manual_seed(1000 * task + seed)
    labels = torch.arange(count) % 3
    angle = (labels * 2.1 + task * 0.9).double()
    centres = torch.stack([angle.cos(), angle.sin()], dim=1) * 2
    return Data(centres + 0.4 * torch.randn(count, 2, generator=generator), labels, task=task)


def learned(case: str) -> dict[str, float]:
    """Three tasks with heads of their own; what is left of them, and the size of the weights."""
    name, settings = CASES[case]
    tasks = [
        Task(f"turn {i}", i, blobs(i, 48, 0), None, blobs(i, 60, 1), classes=3) for i in range(3)
    ]
    network = mlp(2, (8, 8), None, seed=0).double()
    method = build(name, network, torch.zeros(1, 2).double(), settings)
    plan = Plan(epochs=4, batch_size=16, lr=0.01, patience=1, clip_norm=5.0)
    outcome = learn(method, TaskSequence("turning blobs", tasks, True), plan)
    weights = [p.detach() for p in method.model.parameters()]
    return {
        "average accuracy": average_accuracy(outcome.accuracy_matrix),
        "sum of weights": float(sum(w.sum() for w in weights)),
        "sum of squares": float(sum(w.square().sum() for w in weights)),
    }


@pytest.mark.parametrize("case", CASES)
def test_a_method_ends_where_it_did(case: str) -> None:
    wanted, found = json.loads(NUMBERS.read_text())[case], learned(case)
    assert found["average accuracy"] == pytest.approx(wanted["average accuracy"], abs=2.1 / 180)
    for key in ("sum of weights", "sum of squares"):
        assert found[key] == pytest.approx(wanted[key], rel=1e-4, abs=1e-4), key


def test_every_method_and_every_wrapper_is_among_them() -> None:
    assert {part for name, _ in CASES.values() for part in parts(name)} == {*METHODS, *WRAPPERS}


def test_the_numbers_tell_the_methods_apart() -> None:
    """No two end alike, so that one cannot take another's place unseen; but UCL's closed form is
    the same mathematics."""
    numbers = json.loads(NUMBERS.read_text())
    assert numbers.pop("ucl, in closed form") == pytest.approx(numbers["ucl"], rel=1e-6)
    assert len({round(found["sum of squares"], 3) for found in numbers.values()}) == len(CASES) - 1


if __name__ == "__main__":
    NUMBERS.write_text(json.dumps({case: learned(case) for case in CASES}, indent=1) + "\n")
