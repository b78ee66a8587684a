"""What the page says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.pages import Element, parse, section_of, specs
from tests.report.runs import config, matrix, write_run, write_study
from uclearn.measures.accuracy import mean
from uclearn.measures.statistics import estimate
from uclearn.report import MissingPlotlyError, write_report

DIGITS = "permuted-digits-5"
SCALED = "permuted-mnist-4-scaled-to-5"


def made(folder: Path) -> Element:
    write_report([folder], folder / "report.html")
    return parse((folder / "report.html").read_text(encoding="utf-8"))


def rows(table: Element) -> dict[str, list[str]]:
    """The cells of each row by its heading."""
    found = {}
    for row in table.all("tr"):
        cells = [child for child in row.children if isinstance(child, Element)]
        if cells[0].name == "th" and cells[0].attributes.get("scope") != "col":
            found[cells[0].text] = [cell.text for cell in cells[1:]]
    return found


def test_the_summary_says_in_plain_words_what_is_kept(page: Element) -> None:
    """From the matrices: task j of 5 keeps learns - forgets * (4 - j), on average 2 forgets less,
    0.97 - 0.06, 0.95 - 0.12 and 0.97 - 0.28."""
    summary = section_of(page, "summary").text
    assert "UCL keeps 91 %, EWC 83 %, fine-tuning 69 %." in summary
    assert "UCL is 8.0 points ahead of EWC: with 95 % confidence" in summary


def test_the_table_has_the_paper_ours_seeds_interval_and_paired_difference(page: Element) -> None:
    table = section_of(page, f"{DIGITS}-numbers").all("table")[0]
    assert [th.text for th in table.all("thead")[0].all("th")] == [
        "Method",
        "Paper",
        "Ours",
        "Seeds",
        "95 % interval",
        "Points against reference",
    ]
    found = rows(table)
    kept = [mean(matrix(5, 0.97, 0.03, seed)[-1]) or 0 for seed in range(3)]
    expected = estimate([100 * value for value in kept])
    assert expected is not None
    assert next(iter(found)) == "●UCL"
    assert found["●UCL"] == [
        "–",
        f"{expected.mean:.1f} %",
        "3",
        f"{expected.low:.1f} to {expected.high:.1f}",
        "reference",
    ]
    # the noise of a seed is the same for both, so the difference has none: 2 (0.06 - 0.03) + 0.02
    assert found["■EWC"][-1] == "−8.0 (−8.0 to −8.0)"


def test_each_row_has_the_command_that_made_it(page: Element) -> None:
    table = section_of(page, f"{DIGITS}-numbers").all("table")[0]
    commands = [code.text for code in table.all("code")]
    assert len(commands) == 6
    assert commands[0].startswith("uclearn run permuted-digits --method ucl --preset best")


def test_scaled_runs_are_marked_beside_the_papers_number(page: Element) -> None:
    section = section_of(page, f"{SCALED}-numbers")
    found = rows(section.all("table")[0])
    paper, ours, seeds, interval, _ = found["●UCL (scaled to 5 %)"]
    assert paper == "94.5 %"
    assert "scaled to 5 %" in ours
    assert "4 tasks instead of 10" in ours
    assert (seeds, interval) == ("1", "–")
    assert "scaled to 5 %" in section.all("caption")[0].text


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


def test_one_seed_shows_no_interval_and_no_band(page: Element) -> None:
    section = section_of(page, f"{SCALED}-average")
    (spec,) = specs(section)
    assert not any("fill" in trace for trace in spec["data"])
    assert all("one seed" in text for trace in spec["data"] for text in trace["text"])
    card = next(one for one in page.all("article") if "MNIST" in one.text)
    assert "±" not in card.text
    assert "with one seed: nothing says yet how much of that is chance" in card.text


def test_three_seeds_show_a_band_from_the_lowest_to_the_highest(page: Element) -> None:
    (spec,) = specs(section_of(page, f"{DIGITS}-average"))
    low, high, line = spec["data"][:3]
    assert high["fill"] == "tonexty"
    assert all(a <= m <= b for a, m, b in zip(low["y"], line["y"], high["y"], strict=True))
    assert low["y"] != high["y"]


def test_incomplete_runs_are_listed_and_in_no_figure(page: Element) -> None:
    runs = section_of(page, "runs")
    (table,) = [one for one in runs.all("table") if "not complete" in one.text]
    ((folder, cells),) = rows(table).items()
    assert folder.endswith("open")
    assert cells[1:4] == ["MAS", "0", "2 of 5 tasks done"]
    assert not any("MAS" in json.dumps(spec) for spec in specs(page))


def test_there_is_a_panel_for_each_task_and_one_for_the_average(page: Element) -> None:
    panels = section_of(page, f"{DIGITS}-tasks").all("div", "panel")
    titles = [panel.all("h4")[0].text for panel in panels]
    assert titles == ["Task 1", "Task 2", "Task 3", "Task 4", "Task 5", "Average so far"]


def test_a_panel_starts_where_its_task_was_learned(page: Element) -> None:
    third = specs(section_of(page, f"{DIGITS}-tasks"))[2]
    for trace in third["data"]:
        assert trace["y"][:2] == [None, None]
        assert None not in trace["y"][2:]


def test_every_method_has_its_matrix_on_one_scale(page: Element) -> None:
    maps = [spec["data"][0] for spec in specs(section_of(page, f"{DIGITS}-matrix"))]
    assert len(maps) == 6
    assert {(one["zmin"], one["zmax"]) for one in maps} == {(0.4, 1)}
    for one in maps:
        assert all(one["z"][i][j] is None for i in range(5) for j in range(i + 1, 5))


def test_the_ablations_stand_beside_ucl(page: Element) -> None:
    section = section_of(page, f"{DIGITS}-ablations")
    table = section.all("table")[0]
    assert list(rows(table)) == [
        "UCL",
        "UCL (without eq. (6))",
        "UCL (without upper freeze)",
        "UCL (without eq. (5))",
    ]
    assert rows(table)["UCL (without eq. (5))"][-1].startswith("−15.0 (")


def test_an_ablation_has_no_number_of_the_paper(tmp_path: Path) -> None:
    wanted = config(benchmark="permuted-mnist", settings={"freeze": False, "inflate": True})
    write_run(tmp_path / "run", wanted, matrix(5, 0.9, 0.01, 0))
    page = made(tmp_path)
    table = section_of(page, "permuted-mnist-5-numbers").all("table")[0]
    assert rows(table)["●UCL (without eq. (5))"][0] == "–"


def test_the_capacity_is_shown_with_a_forecast(page: Element) -> None:
    section = section_of(page, f"{DIGITS}-uncertainty")
    assert "of all nodes are certain after 5 tasks. At its present pace the network is" in (
        section.text
    )
    table = section.all("table")[0]
    assert list(rows(table)) == ["Layer 1 (0)", "Layer 2 (2)", "Layer 3 (4)", "Whole network"]


def test_histograms_hold_every_node_once(page: Element) -> None:
    """Each ridge stands on its task's line; its heights are shares, so they add up to one unit."""
    spec = specs(section_of(page, f"{DIGITS}-uncertainty"))[0]
    ridges = [trace for trace in spec["data"] if trace.get("fill") == "toself"]
    assert len(ridges) == 5
    sums = [sum(y - ridge["y"][0] for y in ridge["y"][1:-1:2]) for ridge in ridges]
    assert sums == pytest.approx([sums[0]] * 5)


def test_costs_are_compared_with_the_plain_network(page: Element) -> None:
    parameters, time = section_of(page, f"{DIGITS}-cost").all("table")
    assert rows(parameters)["●UCL"] == ["2,000", "2.00 ×", "–"]
    assert rows(time)["●UCL"][0] == "15.0 s"


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
    write_study(tmp_path / "runs", seeds=1, tasks=3)
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
    write_study(tmp_path, seeds=1, tasks=2)
    code = (
        "import sys; from pathlib import Path; from uclearn.report import write_report; "
        f"write_report([Path({str(tmp_path)!r})], Path({str(tmp_path / 'r.html')!r})); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
