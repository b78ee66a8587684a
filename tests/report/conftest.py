"""Pages made once for all tests that only look at them, and the browser that they look with."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from tests.report import browser
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


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """The browser, for tests that load a page themselves."""
    with browser.browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of seventeen groups: a search over two settings of UCL, EWC, and fine-tuning."""
    folder = tmp_path_factory.mktemp("large")
    for beta in range(5):
        for alpha in range(3):
            wanted = config(settings={"beta": beta, "alpha": alpha}, tasks=3)
            write_run(folder / f"{beta}-{alpha}", wanted, matrix(3, 0.95 - 0.01 * beta, 0.01, 0))
    for method, learns in (("ewc", 0.9), ("finetuning", 0.5)):
        write_run(folder / method, config(method, tasks=3), matrix(3, learns, 0.1, 0))
    out = folder / "report.html"
    write_report([folder], out)
    return out
