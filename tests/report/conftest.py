"""A page made once for all tests that only look at it."""

from pathlib import Path

import pytest

from tests.report.pages import Element, parse
from tests.report.runs import config, matrix, nodes, write_comparison, write_run
from uclearn.report import write_report


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods and three ablations with three seeds each; scaled runs of the paper's
    benchmark with one seed; an incomplete run."""
    folder = tmp_path_factory.mktemp("runs")
    write_comparison(folder / "digits")
    for method in ("ucl", "ewc"):
        wanted = config(method, benchmark="permuted-mnist", preset="paper", scale=0.05, tasks=4)
        write_run(
            folder / "scaled" / method,
            wanted,
            matrix(4, 0.9, 0.05 if method == "ucl" else 0.1, 0),
            node_events=nodes(4, seed=0) if method == "ucl" else (),
        )
    write_run(folder / "open", config("mas", tasks=5), matrix(2, 0.9, 0.1, 0), complete=False)
    out = folder / "report.html"
    write_report([folder], out)
    return out


@pytest.fixture(scope="session")
def page(report: Path) -> Element:
    """The same, parsed."""
    return parse(report.read_text(encoding="utf-8"))
