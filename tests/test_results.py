"""RESULTS.md and the README's table say what the committed runs say, and nothing else."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from statistics import fmean
from xml.etree.ElementTree import fromstring

import pytest

from benchmarks import architectures, pretrained, robust, sensors
from benchmarks.findings import nothing_tuned
from benchmarks.idle_nodes import PAGE as FINDINGS
from benchmarks.idle_nodes import RECORDS as IDLE_NODES
from benchmarks.idle_nodes import table as idle_table
from benchmarks.pages import filled
from benchmarks.results import (
    DOCUMENT,
    FIGURES,
    README,
    RECORDS,
    STAGES,
    acting,
    folders,
    recorded,
    shortlist,
    written,
)
from tests.report.runs import config, write_run
from uclearn.paper.settings import TUNED
from uclearn.report.groups import collect, comparisons
from uclearn.report.rewards import reference_ranges, stored_ranges
from uclearn.runs.config import Configuration, read_config
from uclearn.runs.resolve import resolve
from uclearn.storage.records import find_runs, read_summary

RULES = {
    "robust": robust,
    "pretrained": pretrained,
    "architectures": architectures,
    "sensors": sensors,
}


def test_every_folder_of_results_is_a_stage() -> None:
    assert {place.name for place in RECORDS.iterdir() if place.is_dir()} <= set(STAGES)


@pytest.mark.slow
def test_committed_files_are_what_the_command_makes_of_the_runs() -> None:
    made = written()
    for path, text in made.items():
        assert path.read_text() == text, f"{path.name}: `make results` writes it anew"
    assert {path for path in made if path.parent == FIGURES} == set(FIGURES.iterdir())


def test_figures_are_small_and_well_formed_and_suit_light_and_dark() -> None:
    found = sorted(FIGURES.glob("*.svg"))
    assert [path.stem for path in found] == [f"figure-{k}" for k in range(3, 10)]
    for path in found:
        text = path.read_text()
        assert len(text) < 60_000
        assert "prefers-color-scheme:dark" in text
        assert fromstring(text).tag.endswith("svg")
    assert "paper 94.5" in (FIGURES / "figure-3.svg").read_text()


@pytest.mark.slow
def test_the_readme_shows_one_line_of_each_benchmark() -> None:
    made, page = shortlist(recorded()), README.read_text()
    assert filled(page, {"results": made}) == page, "`make results` writes it anew"
    names = [line.split("|")[1] for line in made.splitlines()]
    assert len(names) == len(set(names)) > 8
    document = DOCUMENT.read_text()
    for line in made.splitlines()[2:]:
        assert line in document or "not run yet" in line


def test_of_a_benchmark_the_line_with_rivals_and_nothing_tuned_is_taken(tmp_path: Path) -> None:
    """UCL alone is the worst line, with however many epochs."""
    wanted = {"alone": ("ucl", "default", 50), "tuned": ("ucl ewc", "best", 40)}
    wanted |= {"short": ("ucl ewc", "default", 10), "long": ("ucl ewc", "default", 20)}
    stages = {}
    for name, (methods, preset, epochs) in wanted.items():
        for method in methods.split():
            asked = config(method, tasks=2, epochs=epochs, preset=preset)
            write_run(tmp_path / name / method, asked, [[0.9, 0.1], [0.8, 0.9]])
        stages[name] = comparisons(collect([tmp_path / name]).complete)
    for best in ("long", "short", "tuned", "alone"):
        line = shortlist(stages).splitlines()[2]
        assert line.split("|")[2].strip() == str(wanted[best][2])
        del stages[best]


def test_what_was_run_by_rule_stands_side_by_side_from_all_stages(tmp_path: Path) -> None:
    """Not what was tuned or made in another precision; of one length the one with most seeds."""
    by_rule = partial(config, tasks=2, epochs=7, preset="default")
    runs = {
        "few/ucl": by_rule("ucl"),
        "many/ucl-0": by_rule("ucl"),
        "many/ucl-1": by_rule("ucl", 1),
        "many/ewc": by_rule("ewc"),
        "many/si": by_rule("si", preset="best"),
        "many/mas": {**by_rule("mas"), "changed": ["plan.precision=float32"]},
    }
    for place, wanted in runs.items():
        rows = [[0.9, 0.1], [0.6, 0.9]] if "few" in place else [[0.9, 0.1], [0.8, 0.9]]
        write_run(tmp_path / place, wanted, rows)
    stages = {name: comparisons(collect([tmp_path / name]).complete) for name in ("few", "many")}
    assert nothing_tuned(stages).splitlines()[2:] == [
        "| Permuted digits | 7 | 85.0 ± 0.0 | 85.0 | – |"
    ]
    assert nothing_tuned(stages).startswith("|  | Epochs | UCL | EWC | UCL in the paper |")


def test_what_ucl_learns_and_keeps_is_reckoned_from_a_random_policy(tmp_path: Path) -> None:
    """By hand: UCL learns (60 - 20) / (100 - 20) and keeps (40 - 20) / (60 - 20) of the first task;
    in the second fine-tuning is no better than chance."""
    returns = {"ucl": [[60.0], [40.0, 0.0]], "finetuning": [[100.0], [20.0, -5.0]]}
    for method, earned in returns.items():
        source = next((RECORDS / "rl-four").glob(f"*/{method}-*/seed-0/summary.json"))
        summary = json.loads(source.read_text())
        summary["config"]["preset"] = "default"
        summary["extra"]["task_names"] = ["HopperBulletEnv-v0", "AntBulletEnv-v0"]
        summary["extra"]["rewards"] = {
            "task": [0, 1],
            "steps": [500_000, 1_000_000],
            "returns": earned,
            "random": [20.0, -2.0],
        }
        place = tmp_path / source.relative_to(RECORDS / "rl-four")
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps(summary))
    table = acting(tmp_path)
    assert "| UCL learns, of what fine-tuning learns, % | 50 | – |" in table
    assert "| UCL keeps, of what it learned, % | 50 | 100 |" in table
    assert "60 → 40" in table


def test_the_page_on_rules_shows_what_was_recorded() -> None:
    page = robust.PAGE.read_text()
    recorded = {name: json.loads(m.RECORDS.read_text()) for name, m in RULES.items()}
    assert filled(page, {name: m.table(recorded[name]) for name, m in RULES.items()}) == page
    known = {
        robust.Run(*(one[field] for field in robust.Run._fields)) for one in recorded["robust"]
    }
    assert known <= set(robust.runs())


def test_rewards_are_measured_by_the_returns_of_ewc_in_these_runs() -> None:
    assert stored_ranges() == reference_ranges(RECORDS)
    assert "HopperBulletEnv-v0" in stored_ranges()


@pytest.mark.parametrize("stage", [place.name for place in folders()])
def test_every_committed_run_is_whole_and_says_how_it_was_made(stage: str) -> None:
    runs = find_runs(RECORDS / stage)
    assert runs
    for folder in runs:
        summary = read_summary(folder)
        assert summary is not None, f"{folder} is not complete"
        assert str(summary.extra["command"]).startswith("uclearn ")
        assert summary.git_commit
        assert summary.versions["uclearn"]
        size = len((folder / "summary.json").read_bytes())
        assert size < 4_000 + 2_000 * len(summary.extra["task_names"]), "a few for each task"


@pytest.mark.parametrize(("name", "part"), TUNED)
def test_tuned_settings_are_the_best_of_the_recorded_grid(name: str, part: str) -> None:
    """Judged on validation data, by the mean over seeds, with the longest training looked at."""
    found: dict[int, dict[str, list[float]]] = {}
    for folder in find_runs(RECORDS / "grids" / name):
        summary = read_summary(folder)
        assert summary is not None
        if summary.config["method"] != part:
            continue
        assert summary.config["data"]["judge"] == "validation"
        assert summary.config["tasks"] == 3
        grid = found.setdefault(summary.config["plan"]["epochs"], {})
        grid.setdefault(choices(read_config(summary.config)), []).append(
            summary.average_accuracy or 0.0
        )
    longest = {tried: fmean(scores) for tried, scores in found[max(found)].items()}
    assert len(longest) > 2
    assert longest[choices(resolve(name, part, preset="best"))] == max(longest.values())


def choices(config: Configuration) -> str:
    """All that a grid may look for, alike for the same values."""
    chosen = config.model_dump(include={"settings", "network", "plan"})
    for key in ("epochs", "precision"):  # the grids were computed in float32, throughout
        chosen["plan"].pop(key)
    return json.dumps(chosen, sort_keys=True)


def test_what_is_said_of_the_results_is_in_the_results() -> None:
    """Every accuracy that the findings name stands in RESULTS.md, but for tables of their own."""
    words = re.sub(r"<!-- [a-z ]+ -->.*?<!-- end -->", "", FINDINGS.read_text(), flags=re.DOTALL)
    named = re.findall(r"\b\d\d\.\d\b", words)
    assert len(named) > 50
    assert not set(named) - set(re.findall(r"\b\d\d\.\d\b", DOCUMENT.read_text()))


def test_the_findings_show_what_was_measured_of_idle_nodes() -> None:
    found, page = json.loads(IDLE_NODES.read_text()), FINDINGS.read_text()
    assert filled(page, {"idle nodes": idle_table(found)}) == page
    assert found["after"] < found["before"] - 0.05
    for node in found["nodes"]:  # each alone brings back all that was lost
        assert abs(node["restored"] - found["before"]) < 0.005
        assert abs(node["cut"] - found["before"]) < 0.005
        assert node["activity_before"] < 0.01 < 1 < node["activity_after"]
        assert node["moved"] < 0.1
    assert found["awake"] < found["before"] - 0.05
