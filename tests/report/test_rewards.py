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
    alone_of,
    cumulative_by_seed,
    final_rewards,
    papers_of,
    papers_yardstick,
    ranges,
    rewards_headline,
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


def comparison_of(folder: Path, benchmark: str | None = None) -> Comparison:
    found = comparisons(collect([folder]).complete)
    if benchmark is not None:
        found = [one for one in found if one.benchmark == f"rl {benchmark}"]
    (comparison,) = found
    return comparison


def test_the_sum_is_that_of_the_normalised_rewards() -> None:
    by_ewc = ranges([earned(EWC)])
    # (9 - 0)/10 + (1 + 2)/4 = 0.9 + 0.75
    assert cumulative_by_seed([earned(UCL)], by_ewc)[0] == pytest.approx([0.5, 1.0, 1.5, 1.65])


def test_the_yardstick_is_ewc_then_what_is_stored_then_all_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = {"ucl": [earned(UCL)], "ewc": [earned(EWC)]}
    assert papers_yardstick(runs).ranges == [(0.0, 10.0), (-2.0, 2.0)]
    del runs["ewc"]
    assert papers_yardstick(runs).ranges == [(5.0, 10.0), (0.0, 1.0)]
    assert "any of these runs" in papers_yardstick(runs).words
    kept = {"a": (0.0, 100.0), "b": (0.0, 50.0)}
    monkeypatch.setattr("uclearn.report.rewards.stored_ranges", lambda: kept)
    assert papers_yardstick(runs).ranges == [(0.0, 100.0), (0.0, 50.0)]


def test_a_comparison_says_what_each_method_earned(tmp_path: Path) -> None:
    for seed in range(2):
        write(tmp_path, "ucl", UCL, seed)
        write(tmp_path, "ewc", EWC, seed)
    comparison = comparison_of(tmp_path)
    assert comparison.name == "Reinforcement learning, four of the paper’s robots, 2 tasks"
    assert papers_of(comparison).ranges == [(0.0, 10.0), (-2.0, 2.0)]
    found = {
        group.method: estimate
        for group, estimate in final_rewards(comparison, papers_of(comparison))
    }
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


def write_alone(folder: Path, name: str, random: float, returns: list[float], seed: int) -> None:
    wanted: dict[str, Any] = {**config("finetuning", seed, benchmark=name), "kind": "rl"}
    steps = list(range(10, 10 * len(returns) + 10, 10))
    rewards = {"task": [0] * len(returns), "steps": steps, "random": [random]}
    extra = {"rewards": {**rewards, "returns": [[r] for r in returns]}, "task_names": [name]}
    write_run(folder / f"alone-{name}-{seed}", wanted, [], extra=extra)


def test_a_random_policy_is_0_and_the_best_fresh_network_1(tmp_path: Path) -> None:
    write(tmp_path, "ucl", UCL)
    write(tmp_path, "ewc", EWC)
    write_alone(tmp_path, "a", 1.0, [4.0, 11.0, 9.0], 0)
    assert alone_of(comparison_of(tmp_path, "paper-4")) is None  # task b is missing
    write_alone(tmp_path, "a", 3.0, [6.0], 1)
    write_alone(tmp_path, "b", -4.0, [1.0, 0.0], 0)
    comparison = comparison_of(tmp_path)  # what it is measured by is no comparison of its own
    scale = alone_of(comparison)
    assert scale is not None
    assert scale.ranges == [(2.0, 11.0), (-4.0, 1.0)]
    found = {group.method: estimate for group, estimate in final_rewards(comparison, scale)}
    assert found["ucl"] is not None
    assert found["ucl"].mean == pytest.approx((9 - 2) / 9 + (1 + 4) / 5)
    assert "a fresh network alone has 1 per task, summed: UCL 1.78" in rewards_headline(comparison)
    for name in ("page.html", "tables.md"):
        write_report([tmp_path], tmp_path / name)
        text = (tmp_path / name).read_text()
        assert all(words in text for words in ("1.78", "1.65", "Random policy", "the paper’s way"))
    line = next(
        line for line in (tmp_path / "tables.md").read_text().splitlines() if "| UCL" in line
    )
    assert line.startswith("| UCL | 1 | 10 → 9 | 1 → 1 | 1.78 | 1.65 |")  # raw returns first


def test_who_learns_new_tasks_is_measured_by_fresh_networks(tmp_path: Path) -> None:
    for seed in range(2):
        write(tmp_path, "ucl", [[-5.0], [-5.0, 8.0 + seed]], seed)
        write(tmp_path, "finetuning", [[-5.0], [-6.0, 4.0 + seed]], seed)
    assert reward_claims(comparison_of(tmp_path)) == []  # a share of a debt is none, and no scale
    write_alone(tmp_path, "a", -9.0, [0.0], 0)
    write_alone(tmp_path, "b", 0.0, [10.0], 0)
    (claim,) = reward_claims(comparison_of(tmp_path))
    assert claim.text == "UCL learns new tasks as well as fine-tuning"
    assert claim.verdict == "**Holds**"
    assert claim.difference == "+40.0 (+40.0 to +40.0)"
    assert claim.evidence.startswith("UCL: 0.85 and 0.45 of what a fresh network reaches alone")


def test_other_circumstances_are_no_measure(tmp_path: Path) -> None:
    write(tmp_path, "ucl", UCL)
    for name in ("a", "b"):
        write_alone(tmp_path, name, 0.0, [1.0], 0)
    for place in tmp_path.glob("alone-*/*.json"):
        text = place.read_text().replace('"batch_size": 64', '"batch_size": 32')
        place.write_text(text)
    assert alone_of(comparison_of(tmp_path, "paper-4")) is None


def test_a_task_that_nobody_learns_alone_is_named_and_counts_nothing(tmp_path: Path) -> None:
    write(tmp_path, "ucl", UCL)
    write_alone(tmp_path, "a", 1.0, [11.0], 0)
    write_alone(tmp_path, "b", 2.0, [1.0], 0)
    comparison = comparison_of(tmp_path)
    scale = alone_of(comparison)
    assert scale is not None
    assert scale.words.endswith("did no better than chance: b.")
    ((_, found),) = final_rewards(comparison, scale)
    assert found is not None
    assert found.mean == pytest.approx((9 - 1) / 10)


def test_a_band_spans_the_seeds(tmp_path: Path) -> None:
    write(tmp_path, "ucl", UCL, 0)
    write(tmp_path, "ucl", EWC, 1)
    write(tmp_path, "ewc", EWC)
    page = tmp_path / "page.html"
    write_report([tmp_path], page)
    first, second, total = specs(parse(page.read_text()))[:3]
    low, high, line = (trace["y"] for trace in first["data"] if trace["meta"] == 0)
    assert low == [0.0, 10.0, 8.0, 4.0]  # in the task's own units
    assert high == [5.0, 10.0, 10.0, 9.0]
    assert line == [2.5, 10.0, 9.0, 6.5]
    low, high, line = (trace["y"] for trace in total["data"] if trace["meta"] == 0)
    assert low == pytest.approx([0.0, 1.0, 0.8, 1.4])
    assert high == pytest.approx([0.5, 1.0, 1.5, 1.65])
    assert line == pytest.approx([0.25, 1.0, 1.15, 1.525])
    for spec in (first, second, total):  # a panel for each task, and the sum
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
    assert claim.text == "EWC keeps more of the first task’s reward than fine-tuning"
    assert claim.verdict == f"**{verdict}**"
    assert f"(returns at the end: {sum(last) / 2:.0f} and 50)" in claim.evidence
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
