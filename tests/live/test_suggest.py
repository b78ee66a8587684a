"""The best of what was tried is suggested, within the budget, with an honest word on how sure."""

from __future__ import annotations

import math

import pytest

from tests.live.months import month
from uclearn.errors import SettingError
from uclearn.live import suggest as module
from uclearn.live.suggest import Tried, _judged, suggest
from uclearn.networks import mlp
from uclearn.tasks.benchmarks import load_tasks
from uclearn.training import Plan

PLAN = Plan(epochs=8, batch_size=16, lr=0.02)


@pytest.mark.slow
def test_a_strength_that_keeps_old_tasks_is_found() -> None:
    tasks = [task.train for task in load_tasks("permuted-digits", 0, tasks=2)]
    found = suggest(
        mlp(64, (30,), 10),
        tasks,
        "ewc",
        choices={"strength": [0.0, 30.0]},
        runs=5,
        plan=Plan(epochs=4, batch_size=64, lr=0.01),
    )
    assert found.settings == {"strength": 30.0}
    assert found.score > found.without + 0.05
    assert found.margin > 0.05
    assert found.sure > 0.8
    assert found.runs == 5
    assert "strength=30.0: score" in str(found)
    assert "5 runs, 2 candidates." in str(found)


def scripted(monkeypatch: pytest.MonkeyPatch, score: object) -> list[tuple[float, int]]:
    """Candidates score as told; what ran is noted."""
    ran: list[tuple[float, int]] = []

    def told(self: object, candidate: dict[str, float], repeat: int) -> float:
        if candidate:
            ran.append((candidate["beta"], repeat))
        return float(score(candidate.get("beta", 0.0), repeat))  # type: ignore[operator]

    monkeypatch.setattr(module._Runs, "score", told)
    return ran


def test_the_budget_is_kept_and_the_good_ones_are_looked_at_more_closely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    betas = [float(k) for k in range(12)]
    ran = scripted(monkeypatch, lambda beta, repeat: -abs(beta - 7.2) + 0.01 * repeat)
    found = suggest(mlp(4, (4,), 2), [month(0), month(1)], choices={"beta": betas}, runs=24)
    assert found.settings == {"beta": 7.0}
    assert found.runner_up == {"beta": 8.0}
    assert found.runs <= 24
    assert [sum(repeat == r for _, repeat in ran) for r in range(4)] == [12, 6, 3, 2]
    assert {beta for beta, repeat in ran if repeat == 1} == {5.0, 6.0, 7.0, 8.0, 9.0, 10.0}
    assert found.margin == pytest.approx(0.6)
    assert found.sure == 1.0
    assert found.edges == ()


def test_two_that_are_alike_are_not_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, lambda beta, repeat: 0.5 + 0.1 * (-1) ** (repeat + round(beta)))
    found = suggest(mlp(4, (4,), 2), [month(0), month(1)], choices={"beta": [1, 2]}, runs=9)
    assert found.margin == pytest.approx(0.0)
    assert found.sure == pytest.approx(0.5)


def test_more_candidates_than_runs_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = scripted(monkeypatch, lambda beta, repeat: beta)
    betas = [float(k) for k in range(100)]
    found = suggest(mlp(4, (4,), 2), [month(0), month(1)], choices={"beta": betas}, runs=9)
    assert len(found.tried) == 4
    assert len(ran) == 8
    assert found.edges == ("beta",)
    assert "At the edge of what was tried: beta." in str(found)


def test_one_repeat_makes_nobody_sure() -> None:
    found = _judged([Tried({"beta": 1}, (0.9,)), Tried({"beta": 2}, (0.1,))], 0.0, 2)
    assert found.sure == 0.5
    assert math.isinf(found.margin_error)


def test_what_cannot_be_suggested_says_so() -> None:
    with pytest.raises(
        SettingError, match="`tasks` must hold the data of at least two tasks, got 1"
    ):
        suggest(mlp(4, (4,), 2), [month(0)])
    with pytest.raises(SettingError, match="`runs` must be at least 3, got 2"):
        suggest(mlp(4, (4,), 2), [month(0), month(1)], runs=2)
    with pytest.raises(SettingError, match="`choices` must say what to try for hat"):
        suggest(mlp(4, (4,), 2), [month(0), month(1)], "hat")
    with pytest.raises(SettingError, match="`choices` must hold at least two candidates"):
        suggest(mlp(4, (4,), 2), [month(0), month(1)], choices={"beta": [1.0]})


def test_numbers_are_judged_by_their_loss() -> None:
    tasks = [(x, 2 * x[:, :1]) for x in (month(0)[0], month(2)[0])]
    found = suggest(
        mlp(4, (16,), 1), tasks, "ewc", choices={"strength": [1.0, 1e6]}, runs=5, plan=PLAN
    )
    assert found.settings == {"strength": 1.0}
    assert found.score < 0
