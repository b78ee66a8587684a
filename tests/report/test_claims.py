"""What the paper says is held against runs made so that it is true, false or undecided."""

from pathlib import Path

import pytest

from tests.report.runs import config, write_run
from uclearn.measures.accuracy import Table
from uclearn.report.claims import claims
from uclearn.report.groups import Comparison, collect, comparisons

Rows = list[list[float | None]]


def one_comparison(folder: Path) -> Comparison:
    (comparison,) = comparisons(collect([folder]).complete)
    return comparison


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {claim.text: claim.verdict.strip("*") for claim in claims(comparison)}


@pytest.mark.parametrize(
    ("accuracy", "epochs", "verdict"),
    [(0.95, 5, "Holds"), (0.94, 100, "Does not hold"), (0.94, 5, "Not decided")],
)
def test_the_papers_number_is_reached_or_not(
    tmp_path: Path, accuracy: float, epochs: int, verdict: str
) -> None:
    rows: Rows = [[accuracy] * 10 for _ in range(10)]
    wanted = config("ucl", benchmark="permuted-mnist", tasks=10, epochs=epochs)
    write_run(tmp_path, wanted, rows)
    assert verdicts(one_comparison(tmp_path)) == {"UCL reaches the paper’s 94.5\xa0%": verdict}


@pytest.mark.parametrize(
    ("ewc", "verdict"),
    [([0.5, 0.51], "Holds"), ([0.99, 0.98], "Does not hold"), ([0.5, 0.99], "Not decided")],
)
def test_an_order_is_claimed_only_beyond_chance(
    tmp_path: Path, ewc: list[float], verdict: str
) -> None:
    for seed, rival in enumerate(ewc):
        for method, value in (("ucl", 0.8 + 0.01 * seed), ("ewc", rival)):
            wanted = config(method, seed, benchmark="permuted-mnist", tasks=1)
            write_run(tmp_path / f"{method}{seed}", wanted, [[value]])
    assert verdicts(one_comparison(tmp_path))["UCL is ahead of EWC"] == verdict


def switched(name: str | None) -> dict[str, bool]:
    every = {"upper_freeze": True, "freeze": True, "inflate": True}
    return every if name is None else {**every, name: False}


def four_tasks(old: float, learned_late: float) -> Rows:
    rows: Rows = [[0.9, None, None, None], [0.9, 0.9, None, None]]
    rows.append([0.9, 0.9, learned_late, None])
    rows.append([old, old, learned_late, learned_late])
    return rows


@pytest.mark.parametrize(
    ("sign", "tremble", "verdict"),
    [(1, 0.01, "Holds"), (-1, 0.01, "Does not hold"), (1, 0.2, "Not decided")],
)
def test_the_ablations_show_what_the_paper_says_or_not(
    tmp_path: Path, sign: int, tremble: float, verdict: str
) -> None:
    for seed, chance in enumerate((-tremble, 0.0, tremble)):
        outcomes: dict[str | None, Table] = {
            None: four_tasks(0.6, 0.6),
            "freeze": four_tasks(0.6 - sign * (0.1 + chance), 0.6),
            "inflate": four_tasks(0.6 + sign * (0.1 + chance), 0.6 - sign * (0.1 + chance)),
        }
        for name, rows in outcomes.items():
            wanted = config("ucl", seed, settings=switched(name), tasks=4)
            write_run(tmp_path / f"{name}{seed}", wanted, rows)
    found = verdicts(one_comparison(tmp_path))
    assert len(found) == 2
    assert set(found.values()) == {verdict}


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    for name, old in ((None, 0.8), ("freeze", 0.1)):
        wanted = config("ucl", settings=switched(name), tasks=4)
        write_run(tmp_path / str(name), wanted, four_tasks(old, 0.8))
    assert set(verdicts(one_comparison(tmp_path)).values()) == {"Not decided"}


@pytest.mark.parametrize(
    ("medians", "verdict"),
    [
        ([0.9, 0.8, 0.7], "Does not hold"),
        ([0.9, 0.8, 0.805], "Does not hold"),  # a tremble
        ([1.2, 1.1, 1.0], "Holds"),  # up from 1, then down
        ([0.9, 0.8, 0.9], "Holds"),
    ],
)
def test_a_layer_that_turns_back_is_told_from_one_that_trembles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, medians: list[float], verdict: str
) -> None:
    write_run(tmp_path, config("ucl", tasks=3), [[0.9] * 3 for _ in range(3)])
    course = [(0.5, median, 1.5) for median in medians]
    found = {"1": course, "2": course, "3": course}
    monkeypatch.setattr("uclearn.report.claims.spreads", lambda _: found)
    assert (
        verdicts(one_comparison(tmp_path))["Layer 2 does not change in one direction only"]
        == verdict
    )
