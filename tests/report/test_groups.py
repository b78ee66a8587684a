"""Repetitions agree in all but the seed; only what may be compared stands beside each other; and
whatever lies in the folders is either counted, once, or listed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.report.runs import config, matrix, write_run
from uclearn.errors import DataError, SettingError
from uclearn.report.chart import color, dash, shape
from uclearn.report.groups import (
    MOST_AT_FIRST,
    Comparison,
    check_labels,
    collect,
    comparisons,
    relabelled,
    tasks_done,
)
from uclearn.storage.sealed import write_sealed


def read(folder: Path, *wanted: dict[str, Any]) -> list[Comparison]:
    """The comparisons made of runs with these configurations, the first the most accurate."""
    for number, one in enumerate(wanted):
        scores = matrix(one["tasks"], 0.95 - 0.02 * number, 0.01, one["seed"])
        write_run(folder / f"run-{number}", one, scores)
    return comparisons(collect([folder]).complete)


def test_seeds_of_one_configuration_are_one_group(tmp_path: Path) -> None:
    (comparison,) = read(tmp_path, config(seed=2), config(seed=0), config(seed=1))
    (group,) = comparison.groups
    assert group.seeds == [0, 1, 2]
    assert group.label == "UCL"


def test_two_values_of_beta_are_two_lines_named_by_it(tmp_path: Path) -> None:
    made = [config(seed=s, settings={"beta": b, "alpha": 1}) for b in (0.03, 0.3) for s in (0, 1)]
    (comparison,) = read(tmp_path, *made)
    assert {g.label: len(g.runs) for g in comparison.groups} == {
        "UCL, beta 0.03": 2,
        "UCL, beta 0.3": 2,
    }


def test_a_difference_anywhere_in_the_configuration_separates(tmp_path: Path) -> None:
    (comparison,) = read(tmp_path, config(epochs=20), config(seed=1, epochs=30))
    assert [group.label for group in comparison.groups] == [
        "UCL, 20 epochs",
        "UCL, 30 epochs",
    ]


def test_the_note_of_what_was_changed_does_not_separate(tmp_path: Path) -> None:
    """It repeats in words what the settings say, and may be worded differently."""
    one, other = config(seed=0) | {"changed": ["a=1"]}, config(seed=1) | {"changed": ["a=1.0"]}
    (comparison,) = read(tmp_path, one, other)
    assert len(comparison.groups) == 1


def test_scaled_runs_are_never_beside_full_ones(tmp_path: Path) -> None:
    full, scaled = read(tmp_path, config(seed=0), config(seed=1, scale=0.05))
    assert (full.mark, scaled.mark) == ("", "scaled to 5\xa0%")
    assert scaled.groups[0].label == "UCL (scaled to 5\xa0%)"


def test_runs_for_tuning_are_never_beside_those_on_test_data(tmp_path: Path) -> None:
    tuning = config(seed=1) | {"data": {"judge": "validation"}}
    full, marked = read(tmp_path, config(seed=0) | {"data": {"judge": "test"}}, tuning)
    assert (full.mark, marked.mark) == ("", "on validation data")


def test_other_benchmarks_and_numbers_of_tasks_are_comparisons_of_their_own(tmp_path: Path) -> None:
    found = read(tmp_path, config(), config(tasks=3), config(benchmark="split-mnist"))
    assert [comparison.name for comparison in found] == [
        "Permuted digits, 5 tasks",
        "Permuted digits, 3 tasks",
        "Split MNIST, 5 tasks",
    ]


def test_the_best_is_first_and_ucl_the_reference(tmp_path: Path) -> None:
    (comparison,) = read(tmp_path, config("ewc"), config("ucl"), config("finetuning"))
    assert [group.method for group in comparison.groups] == ["ewc", "ucl", "finetuning"]
    assert comparison.reference.method == "ucl"


def test_an_ablation_is_not_the_reference_and_has_its_own_place(tmp_path: Path) -> None:
    on = {"freeze": True, "inflate": True, "upper_freeze": True}
    (comparison,) = read(
        tmp_path, config(settings=on | {"freeze": False}), config(settings=on), config("ewc")
    )
    assert comparison.reference.label == "UCL"
    assert [group.label for group in comparison.compared] == ["UCL", "EWC"]
    assert comparison.groups[0].label == "UCL, no eq. (5)"


def test_without_ucl_the_best_is_the_reference(tmp_path: Path) -> None:
    (comparison,) = read(tmp_path, config("ewc"), config("si"))
    assert comparison.reference.method == "ewc"


def test_a_method_looks_the_same_in_every_comparison(tmp_path: Path) -> None:
    both = read(
        tmp_path,
        *(config(method) for method in ("si", "ucl", "ewc")),
        *(config(method, benchmark="split-mnist") for method in ("ewc", "finetuning", "ucl")),
    )
    styles = [{group.method: group.style for group in comparison.groups} for comparison in both]
    assert styles[0]["ewc"] == styles[1]["ewc"]
    assert styles[0]["ucl"] == styles[1]["ucl"] == 0


def test_settings_of_one_method_share_a_colour_and_look_different(tmp_path: Path) -> None:
    others = [config("ewc"), config("mine"), config("vcl+coreset"), config("lwf")]
    (comparison,) = read(tmp_path, *(config(settings={"beta": k}) for k in range(25)), *others)
    looks = [(color(g.style), shape(g.style), dash(g.style)) for g in comparison.groups]
    assert len(set(looks)) == 29
    assert {color(g.style) for g in comparison.groups if g.method == "ucl"} == {"@series-0"}
    characters = [(color(g.style), shape(g.style)[1], dash(g.style)) for g in comparison.groups]
    assert len(set(characters)) == 29


def test_a_dozen_is_shown_at_first_the_best_of_each_method_among_them(tmp_path: Path) -> None:
    many = [config(settings={"beta": k}) for k in range(13)]
    (comparison,) = read(tmp_path, *many, config("ewc"), config("si"))
    assert len(comparison.at_first) == MOST_AT_FIRST
    methods = [group.method for group in comparison.at_first]
    assert methods == ["ucl"] * 10 + ["ewc", "si"]
    (few,) = read(tmp_path / "few", *many[:12])
    assert few.at_first == few.compared


def test_labels_can_be_given(tmp_path: Path) -> None:
    found = read(tmp_path, config("ewc"), config("ucl"))
    (named,) = relabelled(found, {"UCL": "Ours"})
    assert [group.label for group in named.groups] == ["EWC", "Ours"]
    with pytest.raises(SettingError, match=r"no label 'UCLL'\. Did you mean 'UCL'"):
        check_labels(found, ["UCLL"])
    with pytest.raises(SettingError, match=r"`label` must tell apart .* got 'EWC' twice"):
        relabelled(found, {"UCL": "EWC"})


def test_what_all_share_is_said_once_and_the_papers_settings_are_known(tmp_path: Path) -> None:
    changed = config(preset="paper", settings={"beta": 1}) | {"changed": ["ucl.beta=1"]}
    papers = config(preset="paper", settings={"beta": 2}) | {"changed": ["plan.epochs=20"]}
    (comparison,) = read(tmp_path, changed, papers)
    said = "All with 20 epochs, 1 seed and the paper’s settings unless it says otherwise."
    assert comparison.shared == said
    assert [group.is_papers for group in comparison.groups] == [False, True]


def test_runs_are_found_at_any_depth_and_by_several_ways_once(tmp_path: Path) -> None:
    write_run(tmp_path / "a" / "b" / "c", config(), matrix(2, 0.9, 0.1, 0))
    found = collect([tmp_path, tmp_path / "a", tmp_path / "a" / "b" / "c"])
    assert len(found.complete) == 1
    assert not found.repeated


def test_an_incomplete_run_is_not_complete(tmp_path: Path) -> None:
    write_run(tmp_path, config(tasks=5), matrix(2, 0.9, 0.1, 0), complete=False)
    found = collect([tmp_path])
    assert not found.complete
    assert [tasks_done(run) for run in found.incomplete] == [2]


def test_a_copy_of_a_run_is_not_a_second_seed(tmp_path: Path) -> None:
    write_run(tmp_path / "one", config(), matrix(2, 0.9, 0.1, 0))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    found = collect([tmp_path])
    assert [run.folder.name for run in found.complete] == ["one"]
    assert [run.folder.name for run in found.repeated] == ["two"]


def test_a_damaged_run_is_listed_with_the_reason(tmp_path: Path) -> None:
    write_run(tmp_path / "good", config(), matrix(2, 0.9, 0.1, 0))
    (tmp_path / "bad").mkdir()
    write_sealed(tmp_path / "bad" / "summary.json", {"format": "uclearn.run", "schema": 99})
    found = collect([tmp_path])
    assert len(found.complete) == 1
    (bad,) = found.unreadable
    assert "newer uclearn" in bad[1]
    assert len(found) == 2


def test_no_run_at_all_is_an_error_that_says_what_a_run_is(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must hold at least one run, got .*config\.json"):
        collect([tmp_path])


def test_a_path_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be a folder"):
        collect([tmp_path / "nowhere"])
