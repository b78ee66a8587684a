"""What the page says."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.pages import SCALED, Element, made, rows, section_of, specs
from tests.report.runs import config, matrix, nodes, write_comparison, write_run
from uclearn.report import MissingPlotlyError, write_report
from uclearn.report.groups import Collection, collect
from uclearn.report.page import page as made_page
from uclearn.report.page import plotly_javascript


def test_scaled_runs_are_marked_everywhere(page: Element) -> None:
    """Every heading of theirs, every name in every chart and table, the summary, the contents."""
    section = section_of(page, SCALED)
    for heading in (one for one in section if one.name in ("h2", "h3")):
        assert "scaled to 5 %" in heading.text, heading.text
    traces = [trace for spec in specs(section) for trace in spec["data"] if "meta" in trace]
    names = {trace["name"].replace("\xa0", " ") for trace in traces}
    assert names == {"UCL (scaled to 5 %)", "EWC (scaled to 5 %)"}
    for table in section.all("table"):
        for name in rows(table):
            assert "scaled" in name or "UCL" not in name, name
    card = next(one for one in page.all("article") if "MNIST" in one.text)
    assert "UCL (scaled to 5 %) keeps" in card.text
    links = [one for one in page.all("nav")[0].all("a") if one.attributes["href"] == f"#{SCALED}"]
    assert [link.text for link in links] == ["Permuted MNIST, 4 tasks (scaled to 5 %)"]


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    wanted = config(evil, benchmark=evil, settings={evil: evil})
    write_run(tmp_path / "run", wanted, matrix(2, 0.9, 0.1, 0), extra={"command": evil})
    page = made(tmp_path)
    assert not page.all("img")
    scripts = [one for one in page.all("script") if "type" not in one.attributes]
    assert len(scripts) == 2  # the library and the page's own
    assert any(evil in code.text for code in page.all("code"))


def test_without_a_complete_run_the_page_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "run", config(), matrix(2, 0.9, 0.1, 0), complete=False)
    page = made(tmp_path)
    assert "No run is complete yet" in section_of(page, "summary").text
    assert "2 of 5 tasks done" in page.text


def test_a_single_task_and_unmeasured_accuracies_are_no_obstacle(tmp_path: Path) -> None:
    write_run(tmp_path / "one", config(tasks=1), [[0.9]])
    write_run(tmp_path / "gaps", config(tasks=2), [[0.9, None], [None, None]])
    page = made(tmp_path)
    assert "UCL reaches 90 %." in page.text
    assert "These runs hold no accuracies." in page.text


def test_configurations_of_other_programs_are_shown_too(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"note": "my own loop"}, matrix(2, 0.9, 0.1, 0))
    assert "Unnamed benchmark, 2 tasks" in made(tmp_path).text


def test_the_same_runs_make_the_same_page(tmp_path: Path) -> None:
    write_comparison(tmp_path / "runs", seeds=1, tasks=3)
    for name in ("a", "b"):
        write_report([tmp_path / "runs"], tmp_path / "new" / f"{name}.html")
    both = [(tmp_path / "new" / f"{name}.html").read_bytes() for name in ("a", "b")]
    assert both[0] == both[1]


def test_without_plotly_the_error_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingPlotlyError, match=r"pip install 'uclearn\[report\]'"):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_report_needs_no_torch(tmp_path: Path) -> None:
    write_comparison(tmp_path, seeds=1, tasks=2)
    code = (
        "import sys; from pathlib import Path; from uclearn.report import write_report; "
        f"write_report([Path({str(tmp_path)!r})], Path({str(tmp_path / 'r.html')!r})); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.slow
def test_the_page_of_five_hundred_runs_is_light(tmp_path: Path) -> None:
    """All of different settings, which is the most that five hundred runs can weigh; a dozen of
    UCL's with all their nodes."""
    write_run(
        tmp_path / "run", config(tasks=10), matrix(10, 0.9, 0.01, 0), node_events=nodes(10, 0)
    )
    (one,) = collect([tmp_path]).complete
    assert one.summary is not None
    runs = []
    for k in range(500):
        wanted = config(("ucl", "ewc", "si", "mas")[k % 4], settings={"beta": k}, tasks=10)
        scores = matrix(10, 0.9, 0.0001 * k, k)
        summary = replace(one.summary, config=wanted, accuracy_matrix=scores)
        events = one.events if k % 4 == 0 else ()
        runs.append(replace(one, config=wanted, summary=summary, events=events))
    text = made_page(Collection(runs, [], [], []), plotly_javascript())
    assert len(text.encode()) < 15e6
    assert text.count('aria-pressed="true" data-group') == 12


def test_the_summary_says_in_plain_words_what_is_kept(page: Element) -> None:
    """From the matrices: task j of 5 keeps learns - forgets * (4 - j), on average 2 forgets less,
    0.97 - 0.06, 0.95 - 0.12 and 0.97 - 0.28."""
    summary = section_of(page, "summary").text
    assert "UCL keeps 91 %, EWC 83 %, fine-tuning 69 %." in summary
    assert "UCL is 8.0 points ahead of EWC: with 95 % confidence" in summary
