"""Tables in Markdown: every number in them is computed here a second way."""

from pathlib import Path

import pytest

from tests.report.runs import config, nodes, write_run
from uclearn.measures.accuracy import Table
from uclearn.report import write_report
from uclearn.report.claims import claims
from uclearn.report.collect import collect
from uclearn.report.groups import Study, studies
from uclearn.report.nodes import SHOWN
from uclearn.runs.nodes import node_digest

Rows = list[list[float | None]]


def two_tasks(first_kept: float) -> Rows:
    return [[0.95, 0.1], [first_kept, 0.90]]


def lines_of(folder: Path, out: Path) -> list[str]:
    write_report([folder], out)
    return out.read_text().splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def one_study(folder: Path) -> Study:
    (study,) = studies(collect([folder]).complete)
    return study


def test_a_row_has_the_mean_its_interval_and_the_paired_difference(tmp_path: Path) -> None:
    for seed, (ucl, plain) in enumerate([(0.80, 0.50), (0.90, 0.58)]):
        write_run(tmp_path / f"u{seed}", config("ucl", seed, tasks=2), two_tasks(ucl))
        write_run(tmp_path / f"f{seed}", config("finetuning", seed, tasks=2), two_tasks(plain))
    table = [cells(line) for line in lines_of(tmp_path, tmp_path / "r.md") if line[:2] == "| "]
    rows = {row[0]: row for row in table}
    assert table[0][:5] == ["Method", "Epochs", "Seeds", "Accuracy", "Points"]
    # (0.80 + 0.90)/2 = 0.85 and (0.90 + 0.90)/2 = 0.90; t(1) = 12.706, sd = 0.05/sqrt 2
    assert rows["UCL"][1:7] == ["20", "2", "**87.5 ± 31.8**", "reference", "92.5", "10.0"]
    # paired: -0.15 and -0.16, so -15.5 +- 12.706 * 0.5
    assert rows["Fine-tuning"][4] == "−15.5 (−21.9 to −9.1)"


def test_each_folder_is_a_section_that_begins_with_what_is_said_about_it(tmp_path: Path) -> None:
    for name in ("broad-look", "deep"):
        write_run(tmp_path / name / "run", config("ucl", tasks=2), two_tasks(0.9))
    (tmp_path / "deep" / "about.md").write_text("# Longer\n\nMore epochs.\n")
    write_report([tmp_path / "broad-look", tmp_path / "deep"], tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    assert text.index("## Broad look") < text.index("## Longer\n\nMore epochs.")


def test_several_sections_begin_with_all_of_them_at_a_glance(tmp_path: Path) -> None:
    for seed, kept in enumerate((0.80, 0.90)):
        wanted = config("ucl", seed, benchmark="split-notmnist", epochs=20)
        write_run(tmp_path / "few" / f"u{seed}", wanted, two_tasks(kept))
    other = config("ucl", 0, benchmark="split-notmnist", epochs=20, settings={"ucl": {"beta": 0.5}})
    write_run(tmp_path / "few" / "lucky", other, two_tasks(0.98))
    long = config("ucl", 0, benchmark="split-notmnist", epochs=100)
    write_run(tmp_path / "more" / "u", long, two_tasks(0.98))
    plain = config("finetuning", 0, benchmark="split-notmnist", epochs=100)
    write_run(tmp_path / "more" / "f", plain, two_tasks(0.50))
    write_report([tmp_path / "few", tmp_path / "more"], tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    overview = text[text.index("## At a glance") : text.index("## Few")]
    rows = [cells(line) for line in overview.splitlines() if line.startswith("| Split")]
    assert [row[1:3] for row in rows] == [["20", "87.5 ± 31.8"], ["100", "94.0"]]
    assert [row[5] for row in rows] == ["–", "70.0"]
    assert [row[-2:] for row in rows] == [["95.7\xa0%", "Few"], ["95.7\xa0%", "More"]]
    assert "Split notMNIST: initial σ 0.06 in all layers; measured on notMNIST large" in overview
    write_report([tmp_path / "few"], tmp_path / "one.md")
    assert "At a glance" not in (tmp_path / "one.md").read_text()


def verdicts(study: Study) -> dict[str, str]:
    return {claim.text: claim.verdict.strip("*") for claim in claims(study)}


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
    assert verdicts(one_study(tmp_path)) == {"UCL reaches the paper’s 94.5\xa0%.": verdict}


def test_a_search_for_settings_speaks_to_no_claim(tmp_path: Path) -> None:
    rows: Rows = [[0.99] * 10 for _ in range(10)]
    wanted = config("ucl", benchmark="permuted-mnist", tasks=10, epochs=100)
    write_run(tmp_path / "search", {**wanted, "data": {"judge": "validation"}}, rows)
    shown = lines_of(tmp_path / "search", tmp_path / "r.md")
    assert not any(line.startswith("- **") for line in shown)
    assert not any("94.5" in line for line in shown)
    write_run(tmp_path / "whole", wanted, rows)
    shown = lines_of(tmp_path / "whole", tmp_path / "r.md")
    assert any(line.startswith("- **Holds**: UCL reaches") for line in shown)


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
    assert verdicts(one_study(tmp_path))["UCL is ahead of EWC."] == verdict


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
    found = verdicts(one_study(tmp_path))
    assert len(found) == 2
    assert set(found.values()) == {verdict}


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    for name, old in ((None, 0.8), ("freeze", 0.1)):
        wanted = config("ucl", settings=switched(name), tasks=4)
        write_run(tmp_path / str(name), wanted, four_tasks(old, 0.8))
    assert set(verdicts(one_study(tmp_path)).values()) == {"Not decided"}


def test_the_digest_holds_the_quantiles_that_the_table_shows(tmp_path: Path) -> None:
    events = [{"event": "nodes", **event} for event in nodes(3, seed=0)]
    digest = node_digest(events)
    wanted = config("ucl", tasks=3)
    rows: Rows = [[0.9] * 3 for _ in range(3)]
    write_run(tmp_path, wanted, rows, extra={"nodes": digest})
    shown = " · ".join(f"{digest['2'][2][k]:.2f}" for k in SHOWN)
    (row,) = [line for line in lines_of(tmp_path, tmp_path / "r.md") if "| layer 2 |" in line]
    assert cells(row)[-1] == shown
    sigmas = sorted(events[2]["layers"]["2"]["sigma"])
    middle = (sigmas[19] + sigmas[20]) / 2 / events[2]["layers"]["2"]["sigma_init"]
    assert digest["2"][2][4] == pytest.approx(middle, rel=1e-3)


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
        verdicts(one_study(tmp_path))["Layer 2 does not change in one direction only."] == verdict
    )
