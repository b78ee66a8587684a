"""Adam by the library is torch's, whatever the groups, and so are its states."""

from __future__ import annotations

import copy
import inspect
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.native.alone import threads, torch_alone, with_library
from uclearn import Adam
from uclearn.native.calls import kernels

pytestmark = with_library

SHAPES = ((40, 30), (40,), (3, 2, 5, 5), (1,), (), (7,), (300, 200))
SETTINGS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "decay": {"weight_decay": 0.1},
    "betas": {"betas": (0.3, 0.6), "eps": 0.01},
    "no memory": {"betas": (0.0, 0.0)},
    "rate": {"lr": 0.3},
}
LEFT_TO_TORCH: dict[str, dict[str, Any]] = {
    "amsgrad": {"amsgrad": True},
    "maximize": {"maximize": True},
    "rate": {"lr": torch.tensor(0.01)},
}
if "decoupled_weight_decay" in inspect.signature(torch.optim.Adam).parameters:  # from 2.7 on
    LEFT_TO_TORCH["decoupled"] = {"decoupled_weight_decay": True, "weight_decay": 0.1}


def weights(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    chance = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=chance).to(dtype)) for shape in SHAPES]


def walk(optimizer: torch.optim.Optimizer, steps: int = 20, seed: int = 1) -> list[Tensor]:
    """Some steps; in each of them another parameter has no gradient."""
    chance = torch.Generator().manual_seed(seed)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number in range(steps):
        optimizer.zero_grad()
        for k, parameter in enumerate(parameters):
            gradient = torch.randn(parameter.shape, generator=chance).to(parameter.dtype)
            if number % 9 != k:
                parameter.grad = gradient
        optimizer.step()
    return [parameter.detach().clone() for parameter in parameters]


def grouped(parameters: list[nn.Parameter]) -> list[dict[str, Any]]:
    return [
        {"params": parameters[:2], "lr": 0.01},
        {"params": parameters[2:5], "weight_decay": 0.0},
        {"params": parameters[5:], "betas": (0.5, 0.9)},
    ]


def assert_close(found: list[Tensor], wanted: list[Tensor]) -> None:
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.fixture
def calls_of_library(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tensors each call moved."""
    counts: list[int] = []
    call: Callable[..., None] = kernels.adam

    def counting(rows: Any, gradients: Any, count: int, *others: Any) -> None:
        counts.append(count)
        call(rows, gradients, count, *others)

    monkeypatch.setattr(kernels, "adam", counting)
    return counts


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("groups", [False, True])
def test_a_walk_is_that_of_torch(name: str, groups: bool, calls_of_library: list[int]) -> None:
    outcomes = []
    for kind in (Adam, torch.optim.Adam):
        parameters = weights()
        given: Any = grouped(parameters) if groups else parameters
        outcomes.append(walk(kind(given, **{"lr": 0.02, **SETTINGS[name]})))
    assert_close(*outcomes)
    assert len(calls_of_library) == 20
    assert max(calls_of_library) == len(SHAPES)


def test_without_the_library_it_is_torchs_own(calls_of_library: list[int]) -> None:
    found = walk(Adam(grouped(weights()), weight_decay=0.1))
    calls_of_library.clear()
    with torch_alone():
        expected = walk(Adam(grouped(weights()), weight_decay=0.1))
    assert not calls_of_library
    assert_close(found, expected)


@pytest.mark.parametrize("name", LEFT_TO_TORCH)
def test_what_it_does_not_know_is_left_to_torch(name: str, calls_of_library: list[int]) -> None:
    found = walk(Adam(weights(), **LEFT_TO_TORCH[name]))
    assert not calls_of_library
    expected = walk(torch.optim.Adam(weights(), **LEFT_TO_TORCH[name]))
    assert all(map(torch.equal, found, expected))


def test_groups_of_both_kinds_go_together(calls_of_library: list[int]) -> None:
    outcomes = []
    for kind in (Adam, torch.optim.Adam):
        single, double, steep = weights(), weights(torch.float64), weights()
        groups: Any = [{"params": double}, {"params": single}, {"params": steep, "amsgrad": True}]
        optimizer = kind(groups, lr=0.02)
        outcomes.append(walk(optimizer))
        assert [len(group["params"]) for group in optimizer.param_groups] == [len(SHAPES)] * 3
    assert_close(*outcomes)
    assert set(calls_of_library) <= {len(SHAPES) - 1, len(SHAPES)}
    assert len(calls_of_library) == 20


@pytest.mark.parametrize("first", [Adam, torch.optim.Adam])
@pytest.mark.parametrize("fused", [None, True])
def test_states_go_from_torchs_to_ours_and_back(
    first: type[torch.optim.Adam], fused: bool | None
) -> None:
    """As checkpoints do: written by the one, read by the other, gone on with."""
    second = torch.optim.Adam if first is Adam else Adam
    ours = weights()
    begun = first(ours, lr=0.02, fused=fused)
    walk(begun)
    kept = io.BytesIO()
    torch.save(begun.state_dict(), kept)
    kept.seek(0)
    gone_on = second(ours, lr=0.5, fused=fused)
    gone_on.load_state_dict(torch.load(kept))
    assert gone_on.state_dict().keys() == begun.state_dict().keys()
    states = zip(
        gone_on.state_dict()["state"].values(), begun.state_dict()["state"].values(), strict=True
    )
    for mine, theirs in states:
        assert list(mine) == list(theirs) == ["step", "exp_avg", "exp_avg_sq"]
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
        assert mine["step"].dtype == theirs["step"].dtype
    found = walk(gone_on, seed=2)
    expected = weights()
    whole = torch.optim.Adam(expected, lr=0.02, fused=fused)
    walk(whole)
    assert_close(found, walk(whole, seed=2))


def test_states_that_are_exchanged_on_the_way_are_noticed(calls_of_library: list[int]) -> None:
    """Whatever is replaced between two steps: a rate, a parameter's numbers, a moment, all."""
    outcomes = []
    for kind in (Adam, torch.optim.Adam):
        parameters = weights()
        optimizer = kind(parameters, lr=0.02)
        walk(optimizer)
        optimizer.param_groups[0]["lr"] = 0.1
        walk(optimizer)
        parameters[0].data = parameters[0].data.clone() * 2
        parameters[6].data = parameters[6].data.T.contiguous().T
        walk(optimizer)
        parameters[6].data = parameters[6].data.contiguous()
        optimizer.state[parameters[1]]["exp_avg"] = torch.ones(40)
        walk(optimizer)
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(9))]})
        walk(optimizer)
        del optimizer.state[parameters[0]]
        optimizer.state[parameters[1]].clear()
        outcomes.append(walk(optimizer))
    assert_close(*outcomes)
    assert len(calls_of_library) > 100


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    outcomes = []
    for count in (1, 2, 3):
        with threads(count):
            outcomes.append(walk(Adam(weights(), weight_decay=0.1)))
    for others in outcomes[1:]:
        assert all(map(torch.equal, outcomes[0], others))


def test_hooks_are_called_once_and_closures_before_the_step() -> None:
    torch.optim.Adam(weights())  # from now on torch's own step calls hooks, too
    single, double = weights(), weights(torch.float64)
    optimizer = Adam([{"params": single}, {"params": double}])
    heard: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: heard.append("before"))
    optimizer.register_step_post_hook(lambda *_: heard.append("after"))

    def closure() -> Tensor:
        heard.append("closure")
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = sum(((p - 1).square().sum() for p in (*single, *double)), torch.tensor(0.0))
        loss.backward()
        return loss

    before = closure().item()
    heard.clear()
    for _ in range(3):
        last = optimizer.step(closure)
    assert heard == ["before", "closure", "after"] * 3
    assert last.item() < before


def test_a_scaler_skips_what_is_not_finite() -> None:
    """With torch's own fused step: ours knows no scale."""
    outcomes = []
    for kind in (Adam, torch.optim.Adam):
        parameters = weights()
        optimizer = kind(parameters, lr=0.02, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for worst in (1.0, torch.inf, 2.0):
            optimizer.zero_grad()
            for parameter in parameters:
                parameter.grad = torch.full_like(parameter, 8 * worst)
            scaler.scale(torch.tensor(0.0))
            scaler.step(optimizer)
            scaler.update()
        outcomes.append([parameter.detach() for parameter in parameters])
    assert_close(*outcomes)
    assert all(bool(each.isfinite().all()) for each in outcomes[0])


def test_autograd_notices_that_weights_have_moved() -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = Adam([weight])
    loss = (weight * weight).sum()
    weight.grad = torch.ones(3)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_sparse_gradient_is_refused_as_torch_refuses_it() -> None:
    words = nn.Embedding(5, 3, sparse=True)
    optimizer = Adam(words.parameters())
    words(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        optimizer.step()


def test_schedulers_are_followed() -> None:
    outcomes = []
    for kind in (Adam, torch.optim.Adam):
        optimizer = kind(weights(), lr=0.02)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for _ in range(4):
            found = walk(optimizer, steps=2)
            scheduler.step()
        outcomes.append(found)
    assert_close(*outcomes)


@pytest.mark.slow
def test_a_short_run_does_not_load_torchs_compiler(tmp_path: Path) -> None:
    """Which takes longer than the run: methods, optimiser and checkpoints do without."""
    script = """
import sys
from uclearn.cli.app import main
try:
    main()
finally:
    assert "torch" in sys.modules
    print("loaded" if "torch._dynamo" in sys.modules else "not loaded")
"""
    words = ["run", "split-digits", "--tasks", "2", "--epochs", "1", "--set", "network.hidden=[8]"]
    command = [sys.executable, "-c", script, *words, "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "not loaded"
