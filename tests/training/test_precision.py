"""What `precision="auto"` comes to, and that it stays what it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.small import small_method, small_plan, small_tasks
from uclearn.errors import SettingError
from uclearn.session import StoppedError
from uclearn.training import learn, precision

CPU = torch.device("cpu")


def pretend(monkeypatch: pytest.MonkeyPatch, ratio: float, announced: bool = True) -> None:
    """A processor that takes `ratio` of the time in bfloat16; infinite: it fails."""
    monkeypatch.setattr(precision, "_announced", lambda: announced)
    monkeypatch.setattr(precision, "_tried", lambda: ratio)


@pytest.mark.parametrize(
    ("announced", "ratio", "expected"),
    [
        (True, 0.5, "bfloat16"),
        (True, 1.8, "float32"),  # knows it, and is slower at it
        (True, float("inf"), "float32"),  # announces it, and fails
        (False, 0.5, "float32"),
    ],
)
def test_bfloat16_is_chosen_only_where_it_is_announced_and_faster(
    monkeypatch: pytest.MonkeyPatch, announced: bool, ratio: float, expected: str
) -> None:
    pretend(monkeypatch, ratio, announced)
    assert precision.best_on(CPU) == expected


@pytest.mark.parametrize(("capability", "expected"), [((7, 5), "float32"), ((8, 0), "bfloat16")])
def test_a_gpu_from_compute_capability_8_on_takes_bfloat16(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], expected: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert precision.best_on(torch.device("cuda")) == expected


def test_a_device_of_another_kind_takes_float32() -> None:
    assert precision.best_on(torch.device("mps")) == "float32"


@pytest.mark.slow
def test_the_trial_says_a_positive_ratio_and_survives_a_machine_that_does_not() -> None:
    assert precision._tried() > 0


def test_a_trial_that_dies_counts_as_endless(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "dies.py"
    script.write_text("import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    monkeypatch.setattr(precision, "__file__", str(script))
    assert precision._tried.__wrapped__() == float("inf")


def test_auto_learns_what_the_precision_that_it_comes_to_learns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for ratio, name in ((0.5, "bfloat16"), (2.0, "float32")):
        pretend(monkeypatch, ratio)
        states = []
        for asked in ("auto", name):
            method = small_method("ucl")
            outcome = learn(method, small_tasks(tasks=1), small_plan(precision=asked))
            assert outcome.precision == name
            states.append(method.state_dict())
        assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())


def stopped_session(folder: Path) -> None:
    """Begun under auto, stopped after a few steps."""
    saves = 0

    def interrupt(event: str, details: dict[str, Any]) -> None:
        nonlocal saves
        saves += event == "saved"
        if event == "saved" and saves == 4:
            raise StoppedError

    plan = small_plan(precision="auto", checkpoint_seconds=0.0)
    with pytest.raises(StoppedError):
        learn(small_method("ucl"), small_tasks(), plan, folder=folder, observer=interrupt)


def test_a_session_keeps_on_another_machine_what_it_began_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = small_plan(precision="auto", checkpoint_seconds=0.0)
    pretend(monkeypatch, 0.5)
    calm, resumed = small_method("ucl"), small_method("ucl")
    learn(calm, small_tasks(), plan)
    stopped_session(tmp_path)
    pretend(monkeypatch, 2.0)
    outcome = learn(resumed, small_tasks(), plan, folder=tmp_path)
    assert outcome.precision == "bfloat16"
    expected = calm.state_dict()
    assert all(torch.equal(expected[key], value) for key, value in resumed.state_dict().items())


def test_a_session_in_bfloat16_is_not_resumed_where_that_would_end_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, 0.5)
    stopped_session(tmp_path)
    pretend(monkeypatch, float("inf"))
    plan = small_plan(precision="auto")
    with pytest.raises(SettingError, match="products in bfloat16 fail here"):
        learn(small_method("ucl"), small_tasks(), plan, folder=tmp_path)
