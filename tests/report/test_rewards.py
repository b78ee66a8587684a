"""Rewards on a common scale, in the page and in Markdown: against numbers worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.report.pages import parse, specs
from tests.report.runs import config, write_run
from uclearn.report import write_report
from uclearn.report.claims import reward_claims
from uclearn.report.groups import Comparison, collect, comparisons
from uclearn.report.rewards import (
    Rewards,
    cumulative_by_seed,
    final_rewards,
    ranges,
    rewards_headline,
    yardstick,
    yardstick_of,
)
from uclearn.report.sections.tables import rebuilt


def earned(returns: list[list[float]], seed: int = 0) -> Rewards:
    task = [len(now) - 1 for now in returns]
    return Rewards(seed, ["a", "b"], task, list(range(10, 10 * len(task) + 10, 10)), returns)


EWC = [[0.0], [10.0], [8.0, -2.0], [4.0, 2.0]]
"""Task a ranges over 0 to 10, task b over -2 to 2."""
UCL = [[5.0], [10.0], [10.0, 0.0], [9.0, 1.0]]


def write(folder: Path, method: str, returns: list[list[float]], seed: int = 0) -> None:
    found = earned(returns)
    rewards = {"task": found.task, "steps": found.steps, "returns": returns}
    wanted: dict[str, Any] = {**config(method, seed, benchmark="paper-4"), "kind": "rl"}
    extra = {"rewards": rewards, "task_names": found.names}
    write_run(folder / f"{method}{seed}", wanted, [], extra=extra)


def comparison_of(folder: Path) -> Comparison:
    (comparison,) = comparisons(collect([folder]).complete)
    return comparison


def test_the_sum_is_that_of_the_normalised_rewards() -> None:
    by_ewc = ranges([earned(EWC)])
    # (9 - 0)/10 + (1 + 2)/4 = 0.9 + 0.75
    assert cumulative_by_seed([earned(UCL)], by_ewc)[0] == pytest.approx([0.5, 1.0, 1.5, 1.65])


def test_the_yardstick_is_ewc_then_what_is_stored_then_all_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = {"ucl": [earned(UCL)], "ewc": [earned(EWC)]}
    assert yardstick(runs).ranges == [(0.0, 10.0), (-2.0, 2.0)]
    del runs["ewc"]
    assert yardstick(runs).ranges == [(5.0, 10.0), (0.0, 1.0)]
    assert "any of these runs" in yardstick(runs).words
    kept = {"a": (0.0, 100.0), "b": (0.0, 50.0)}
    monkeypatch.setattr("uclearn.report.rewards.stored_ranges", lambda: kept)
    assert yardstick(runs).ranges == [(0.0, 100.0), (0.0, 50.0)]


def test_a_comparison_says_what_each_method_earned(tmp_path: Path) -> None:
    for seed in range(2):
        write(tmp_path, "ucl", UCL, seed)
        write(tmp_path, "ewc", EWC, seed)
    comparison = comparison_of(tmp_path)
    assert comparison.name == "Reinforcement learning, paper-4, 2 tasks"
    assert yardstick_of(comparison).ranges == [(0.0, 10.0), (-2.0, 2.0)]
    found = {group.method: estimate for group, estimate in final_rewards(comparison)}
    assert found["ucl"] is not None
    assert found["ucl"].mean == pytest.approx(1.65)
    assert found["ewc"] is not None
    assert found["ewc"].mean == pytest.approx(0.4 + 1.0)
    assert "UCL 1.65" in rewards_headline(comparison)


def test_the_page_and_the_tables_hold_the_numbers(tmp_path: Path) -> None:
    write(tmp_path, "ucl", UCL)
    write(tmp_path, "ewc", EWC)
    for name in ("page.html", "tables.md"):
        write_report([tmp_path], tmp_path / name)
        text = (tmp_path / name).read_text()
        assert "1.65" in text
        assert "1.40" in text


def test_a_band_spans_the_seeds(tmp_path: Path) -> None:
    write(tmp_path, "ucl", UCL, 0)
    write(tmp_path, "ucl", EWC, 1)
    write(tmp_path, "ewc", EWC)
    page = tmp_path / "page.html"
    write_report([tmp_path], page)
    first, second, plain = specs(parse(page.read_text()))[:3]
    low, high, line = (trace["y"] for trace in first["data"] if trace["meta"] == 0)
    assert low == pytest.approx([0.0, 1.0, 0.8, 1.4])
    assert high == pytest.approx([0.5, 1.0, 1.5, 1.65])
    assert line == pytest.approx([0.25, 1.0, 1.15, 1.525])
    for spec in (first, second, plain):  # the sum, and a panel for each task
        assert [trace["meta"] for trace in spec["data"]] == [0, 0, 0, 1]  # EWC has one seed


@pytest.mark.parametrize(
    ("last", "verdict"), [((90.0, 91.0), "Holds"), ((1.0, 2.0), "Does not hold")]
)
def test_who_keeps_the_first_task_is_claimed_beyond_chance_only(
    tmp_path: Path, last: tuple[float, float], verdict: str
) -> None:
    for seed in range(2):
        write(tmp_path, "ewc", [[100.0], [last[seed], 5.0]], seed)
        write(tmp_path, "finetuning", [[100.0], [50.0 + seed / 2, 5.0]], seed)
    (claim,) = reward_claims(comparison_of(tmp_path))
    assert claim.text == "EWC keeps more of the first task’s reward than fine-tuning."
    assert claim.verdict == f"**{verdict}**"
    assert f"returns at the end: {sum(last) / 2:.0f} and 50" in claim.evidence
    write(tmp_path, "ewc", [[100.0], [50.0, 5.0]], 2)
    write(tmp_path, "finetuning", [[100.0], [50.0, 5.0]], 2)
    assert reward_claims(comparison_of(tmp_path))[0].verdict == "**Not decided**"


def test_a_share_of_a_debt_is_no_share(tmp_path: Path) -> None:
    write(tmp_path, "ewc", [[-100.0], [-50.0, 5.0]])
    write(tmp_path, "finetuning", [[-100.0], [-50.0, 5.0]])
    assert reward_claims(comparison_of(tmp_path)) == []


def test_boundaries_are_where_a_task_was_left() -> None:
    assert earned(EWC).boundaries() == [20, 40]


def test_a_task_on_which_the_reference_never_moved_counts_nothing() -> None:
    still = ranges([earned([[1.0], [1.0, 5.0]])])
    (course,) = cumulative_by_seed([earned([[3.0], [3.0, 9.0]])], still).values()
    assert course == [0.0, 0.0]
    assert not any(math.isnan(value) for value in course)


def test_the_command_of_such_a_run_is_of_its_kind() -> None:
    wanted = {"kind": "rl", "benchmark": "paper-4", "method": "ewc", "changed": []}
    assert rebuilt(wanted, [0]).startswith("uclearn rl run paper-4 --method ewc --seeds 1")
