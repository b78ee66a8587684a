"""Tables in Markdown: every number in them is computed here a second way."""

from pathlib import Path

import pytest

from tests.report.runs import config, nodes, write_run
from uclearn.report import write_report
from uclearn.report.claims import SHOWN
from uclearn.training.nodes import node_digest

Rows = list[list[float | None]]


def two_tasks(first_kept: float) -> Rows:
    return [[0.95, 0.1], [first_kept, 0.90]]


def lines_of(folder: Path, out: Path) -> list[str]:
    write_report([folder], out)
    return out.read_text().splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_row_has_the_mean_its_interval_and_the_paired_difference(tmp_path: Path) -> None:
    for seed, (ucl, plain) in enumerate([(0.80, 0.50), (0.90, 0.58)]):
        write_run(tmp_path / f"u{seed}", config("ucl", seed, tasks=2), two_tasks(ucl))
        write_run(tmp_path / f"f{seed}", config("finetuning", seed, tasks=2), two_tasks(plain))
    lines = lines_of(tmp_path, tmp_path / "r.md")
    assert "All with 20 epochs and 2 seeds." in lines  # and no columns for what is the same
    table = [cells(line) for line in lines if line[:2] == "| "]
    rows = {row[0]: row for row in table}
    assert table[0][:3] == ["Method", "Accuracy", "Points"]
    # (0.80 + 0.90)/2 = 0.85 and (0.90 + 0.90)/2 = 0.90; t(1) = 12.706, sd = 0.05/sqrt 2
    assert rows["UCL"][1:5] == ["**87.5 ± 31.8**", "reference", "92.5", "10.0"]
    # paired: -0.15 and -0.16, so -15.5 +- 12.706 * 0.5
    assert rows["Fine-tuning"][2] == "−15.5 (−21.9 to −9.1)"


def test_each_folder_is_a_section_that_begins_with_what_is_said_about_it(tmp_path: Path) -> None:
    for name in ("broad-look", "deep"):
        write_run(tmp_path / name / "run", config("ucl", tasks=2), two_tasks(0.9))
    (tmp_path / "deep" / "about.md").write_text("# Longer\n\nMore epochs.\n")
    write_report([tmp_path / "broad-look", tmp_path / "deep"], tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    assert text.index("## Broad look") < text.index("## Longer\n\nMore epochs.")


def test_a_folder_called_like_a_stage_says_what_the_stage_asks(tmp_path: Path) -> None:
    write_run(tmp_path / "longer" / "run", config("ucl", tasks=2), two_tasks(0.9))
    write_report([tmp_path / "longer"], tmp_path / "r.md")
    assert "## Does more training help?\n\n5, 20 and 100 epochs" in (tmp_path / "r.md").read_text()


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


def test_a_search_for_settings_speaks_to_no_claim(tmp_path: Path) -> None:
    rows: Rows = [[0.99] * 10 for _ in range(10)]
    wanted = config("ucl", benchmark="permuted-mnist", tasks=10, epochs=100)
    write_run(tmp_path / "search", {**wanted, "data": {"judge": "validation"}}, rows)
    shown = lines_of(tmp_path / "search", tmp_path / "r.md")
    assert not any("The paper says" in line for line in shown)
    assert not any("94.5" in line for line in shown)
    write_run(tmp_path / "whole", wanted, rows)
    shown = lines_of(tmp_path / "whole", tmp_path / "r.md")
    assert any(
        line.startswith("| UCL reaches the paper’s 94.5\xa0% | **Holds** | +4.5 |")
        for line in shown
    )


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


def test_a_single_task_has_one_column_of_uncertainties(tmp_path: Path) -> None:
    digest = node_digest([{"event": "nodes", **event} for event in nodes(1, seed=0)])
    write_run(tmp_path, config("ucl", tasks=1), [[0.9]], extra={"nodes": digest})
    (head,) = [line for line in lines_of(tmp_path, tmp_path / "r.md") if "initial σ" in line]
    assert cells(head)[1:] == ["after task 1"]
