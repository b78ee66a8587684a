"""A folder for a paper: what it holds is what the page shows, drawn without a browser."""

from __future__ import annotations

import csv
import re
import subprocess
from pathlib import Path
from shutil import which
from xml.etree.ElementTree import fromstring

import pytest

from tests.report.runs import config, matrix, write_comparison, write_run
from uclearn.errors import SettingError
from uclearn.report import write_report

PLACE = "permuted-digits-3"


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    write_comparison(folder / "runs", seeds=2, tasks=3)
    write_report([folder / "runs"], folder / "out")
    return folder / "out"


def test_every_figure_and_table_is_there(paper: Path) -> None:
    figures = {path.stem for path in (paper / "figures").glob("*.pdf")}
    assert figures == {path.stem for path in (paper / "figures").glob("*.svg")}
    wanted = ["average", "tasks", "matrix", "plane", "ablations", "uncertainty", "uncertainty-2"]
    assert figures == {f"{PLACE}-{name}" for name in [*wanted, "uncertainty-3"]}
    tables = {path.stem for path in (paper / "tables").glob("*.tex")}
    assert tables == {path.stem for path in (paper / "tables").glob("*.csv")}
    assert {f"{PLACE}-numbers", f"{PLACE}-cost", f"{PLACE}-cost-2", f"{PLACE}-matrix"} <= tables
    whole = (paper / "all.tex").read_text()
    assert all(f"figures/{name}.pdf" in whole for name in figures)
    assert all(f"tables/{name}}}" in whole for name in tables)


def test_a_table_says_what_the_page_says_with_plus_minus_as_half_the_interval(paper: Path) -> None:
    with (paper / "tables" / f"{PLACE}-numbers.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == ["Method", "Average accuracy", "± 95 %", "Points against reference", "Seeds"]
    assert [row[0] for row in rows][:3] == ["UCL", "UCL, no eq. (6)", "EWC"]
    assert re.fullmatch(r"\d\d\.\d %", rows[0][1])
    text = (paper / "tables" / f"{PLACE}-numbers.tex").read_text()
    assert r"Method & Average accuracy & $\pm$ 95 \% & Points against reference & Seeds \\" in text
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {4}
    assert text.count("{") == text.count("}")


def test_a_figure_has_a_line_for_each_method_and_its_names(paper: Path) -> None:
    svg = fromstring((paper / "figures" / f"{PLACE}-average.svg").read_text())
    words = [one.text for one in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"UCL", "EWC", "Fine-tuning", "tasks learned"} <= set(words)
    paths = list(svg.iter("{http://www.w3.org/2000/svg}path"))
    lines = [one for one in paths if (one.get("d") or "").count("L") == 2 and one.get("stroke")]
    assert len(lines) == 3  # three tasks, three methods
    assert {one.get("stroke") for one in lines} == {"#2853c4", "#c2540a", "#626c76"}


@pytest.mark.skipif(which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_takes_it(paper: Path) -> None:
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(words, cwd=paper, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (paper / "all.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("name", ["report.pdf", "report.docx"])
def test_another_ending_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "run", config(), matrix(2, 0.9, 0.1, 0))
    with pytest.raises(
        SettingError, match=r"`out` must end in \.html .*, got '.*report\."
    ) as error:
        write_report([tmp_path], tmp_path / name)
    assert ("print it" in str(error.value)) == name.endswith("pdf")
    assert not (tmp_path / name).exists()


def test_labels_are_as_given_everywhere(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", config(tasks=2), matrix(2, 0.9, 0.1, 0))
    write_run(tmp_path / "runs" / "b", config("ewc", tasks=2), matrix(2, 0.8, 0.1, 0))
    for name in ("out", "page.html", "tables.md"):
        write_report([tmp_path / "runs"], tmp_path / name, {"UCL": "Ours"})
    table = tmp_path / "out" / "tables" / "permuted-digits-2-numbers.csv"
    for path in (table, tmp_path / "page.html", tmp_path / "tables.md"):
        assert "Ours" in path.read_text()
    with pytest.raises(SettingError, match="There is no label 'ours'"):
        write_report([tmp_path / "runs"], tmp_path / "tables.md", {"ours": "Ours"})
