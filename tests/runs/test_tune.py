"""Tuning with a real Optuna, a real SQLite file, and a real death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runs.small import SMALL
from uclearn.errors import SettingError
from uclearn.methods.facts import Range
from uclearn.runs import trials as one_trial
from uclearn.runs.config import Configuration
from uclearn.runs.resolve import preset_text, read_file, resolve
from uclearn.runs.sweep import Choice
from uclearn.runs.together import tune_together
from uclearn.runs.tune import SAMPLERS, Maker, Tuning, tune
from uclearn.session import StoppedError
from uclearn.storage.records import find_runs, read_run, read_summary

WIDE = {"ewc.strength": Range(1.0, 1e5, log=True)}


def tuning(space: Any = WIDE, tasks: int = 2, **settings: Any) -> Tuning:
    own = {key.replace("__", "."): value for key, value in settings.items()}
    base = {key: value for key, value in SMALL.items() if key != "tasks"}
    return Tuning("split-digits", "ewc", space, tasks=tasks, overrides={**base, **own})


@pytest.mark.slow
def test_trials_are_runs_on_the_first_tasks_judged_by_validation_data(tmp_path: Path) -> None:
    tried = tune(tuning(), Maker(tmp_path), 3, prune=False)
    assert [each.state for each in tried] == ["complete"] * 3
    folders = find_runs(tmp_path)
    assert len(folders) == 3
    accuracies = {}
    for folder in folders:
        config = read_run(folder).config
        assert config["tasks"] == 2
        assert config["data"]["judge"] == "validation"
        summary = read_summary(folder)
        assert summary is not None
        accuracies[config["settings"]["ewc"]["strength"]] = summary.average_accuracy
    assert {each.values["ewc.strength"]: each.accuracy for each in tried} == accuracies
    assert [each.accuracy for each in tried] == sorted(
        (each.accuracy for each in tried), key=lambda a: -(a or 0)
    )


@pytest.mark.slow
def test_the_same_call_makes_only_what_is_missing_and_the_same_trials(tmp_path: Path) -> None:
    whole = tune(tuning(), Maker(tmp_path / "whole"), 7)
    begun: list[str] = []

    def watch(config: Configuration, event: str, details: dict[str, Any]) -> None:
        begun.extend([config.folder_name()] if event == "run_begins" else [])

    for trials in (3, 7, 7):
        parts = tune(tuning(), Maker(tmp_path / "parts", observer=watch), trials)
    assert parts == whole
    assert len(begun) == len(set(begun)) == 7


def test_another_space_is_another_study(tmp_path: Path) -> None:
    narrow = {"ewc.strength": Range(1.0, 2.0)}
    tune(tuning(), Maker(tmp_path), 1)
    (alone,) = tune(tuning(narrow), Maker(tmp_path), 1)
    assert 1.0 <= alone.values["ewc.strength"] <= 2.0


@pytest.mark.slow
def test_a_hopeless_trial_is_stopped_after_its_second_task(tmp_path: Path) -> None:
    space = {"plan.lr": Choice((0.01, 0.02, 0.03, 0.04, 1e-9))}  # the last learns nothing at all
    tried = tune(tuning(space, tasks=3), Maker(tmp_path), 5, sampler="grid")
    assert [each.state for each in tried] == ["complete"] * 4 + ["pruned"]
    hopeless = tried[-1]
    assert hopeless.values == {"plan.lr": 1e-9}
    config = tuning(space, tasks=3).candidate(hopeless.values).configs[0]
    folder = tmp_path / config.folder_name()
    assert read_summary(folder) is None
    events = [event for event in read_run(folder).events if event["event"] == "evaluation"]
    assert [event["task"] for event in events] == [0, 1]
    seen = events[1]["scores"]
    assert hopeless.accuracy == pytest.approx((seen[0] + seen[1]) / 2)
    patient = tune(tuning(space, tasks=3), Maker(tmp_path / "all"), 5, sampler="grid", prune=False)
    assert [each.state for each in patient] == ["complete"] * 5


@pytest.mark.slow
def test_a_trial_stopped_by_the_user_goes_on_with_the_next_call(tmp_path: Path) -> None:
    def stop(config: Configuration, event: str, details: dict[str, Any]) -> None:
        if event == "evaluation" and details["task"] == 1:
            raise StoppedError("enough for today")

    def watch(config: Configuration, event: str, details: dict[str, Any]) -> None:
        told.append(event)

    told: list[str] = []
    with pytest.raises(StoppedError, match="enough for today"):
        tune(tuning(tasks=3), Maker(tmp_path / "parts", observer=stop, checkpoint_seconds=0), 2)
    parts = tune(tuning(tasks=3), Maker(tmp_path / "parts", observer=watch), 2)
    whole = tune(tuning(tasks=3), Maker(tmp_path / "whole"), 2)
    assert [each[1:] for each in parts] == [each[1:] for each in whole]  # but for their numbers
    assert told.count("resumed") == 1
    assert told.count("evaluation") == 2 + 3


def test_a_trial_that_was_begun_is_ended_whatever_the_sampler_would_choose_now(
    tmp_path: Path,
) -> None:
    def stop(config: Configuration, event: str, details: dict[str, Any]) -> None:
        if event == "evaluation":
            raise StoppedError("enough for today")

    with pytest.raises(StoppedError):
        tune(tuning(), Maker(tmp_path, observer=stop), 2, sampler="grid")
    tried = tune(tuning(), Maker(tmp_path), 3, sampler="random")
    assert {1.0, 1e5} < {each.values["ewc.strength"] for each in tried}  # both ends of the grid
    assert len(find_runs(tmp_path)) == len(tried) == 3


def command(folder: Path, epochs: int) -> list[str]:
    words = ["tune", "split-digits", "--method", "ewc", "--trials", "2", "--tasks", "2"]
    words += ["--epochs", str(epochs), "--set", "network.hidden=[8]", "--sampler", "random"]
    words += ["--out", str(folder), "--checkpoint-seconds", "0", "--json"]
    return [sys.executable, "-m", "uclearn", *words]


@pytest.mark.slow
def test_killed_in_the_middle_of_a_trial_it_repeats_that_trial_from_its_checkpoint(
    tmp_path: Path,
) -> None:
    process = subprocess.Popen(command(tmp_path, 30), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if '"event": "evaluation"' in line:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (begun,) = find_runs(tmp_path)
    assert read_summary(begun) is None
    again = subprocess.run(command(tmp_path, 30), capture_output=True, text=True, check=True)
    assert again.stdout.count('"event": "resumed"') == 1
    assert again.stdout.count('"event": "trial"') == 2
    assert len(find_runs(tmp_path)) == 2
    assert read_summary(begun) is not None
    found = tmp_path / "split-digits-ewc.toml"
    assert resolve_file(found).plan.model_dump()["epochs"] == 30


@pytest.mark.slow
def test_two_at_once_share_a_study_from_its_first_moment(tmp_path: Path) -> None:
    words = [*command(tmp_path, 6), "--trials", "5"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=600)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum(text.count('"event": "run_begins"') for text in said) == 5
    assert len(find_runs(tmp_path)) == 5


def resolve_file(path: Path) -> Any:
    settings = read_file(path)
    benchmark, method, preset = (settings.pop(key) for key in ("benchmark", "method", "preset"))
    return resolve(benchmark, method, preset=preset, overrides=settings)


def test_what_is_found_is_a_file_that_gives_the_same_settings_on_all_tasks(tmp_path: Path) -> None:
    values = {"ucl.beta": 1e-05, "ucl.sigma": None, "ucl.sampling": "weight", "plan.patience": None}
    path = tmp_path / "found.toml"
    path.write_text(
        preset_text("permuted-digits", "ucl", "best", {**SMALL, **values}, ["a remark"])
    )
    assert resolve_file(path) == resolve(
        "permuted-digits", "ucl", preset="best", overrides={**SMALL, **values}
    )


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_keeps_to_the_space(sampler: str, tmp_path: Path) -> None:
    space = {"ewc.strength": Range(3.0, 5.0), "plan.epochs": Range(1, 2)}
    tried = tune(tuning(space, tasks=1), Maker(tmp_path), 4, sampler=sampler)
    assert [each.state for each in tried] == ["complete"] * 4
    assert all(3.0 <= each.values["ewc.strength"] <= 5.0 for each in tried)
    assert {each.values["plan.epochs"] for each in tried} <= {1, 2}
    if sampler == "grid":
        points = {tuple(each.values.values()) for each in tried}
        assert points == {(3.0, 1), (3.0, 2), (5.0, 1), (5.0, 2)}


def test_values_that_do_not_go_together_fail_their_trial_alone(tmp_path: Path) -> None:
    space = {"ewc.strength": Choice((-1.0, 1.0))}
    good, bad = tune(tuning(space, tasks=1), Maker(tmp_path), 2, sampler="grid")
    assert (good.state, bad.state) == ("complete", "fail")
    assert "strength" in bad.note


def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match=r"`sampler` must be one of tpe, random, grid, cmaes"):
        tune(tuning(), Maker(tmp_path), 1, sampler="gut feeling")
    with pytest.raises(SettingError, match=r"The study cannot be kept in `storage` nowhere://x"):
        tune(tuning(), Maker(tmp_path), 1, storage="nowhere://x")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SettingError, match=r'pip install "uclearn\[tune\]"'):
        tune(tuning(), Maker(tmp_path), 1)


def test_a_trial_that_another_process_makes_is_left_alone(tmp_path: Path) -> None:
    import optuna

    (first,) = tune(tuning(), Maker(tmp_path), 1)
    study = optuna.load_study(
        study_name=tuning().name(), storage=f"sqlite:///{tmp_path / 'study.db'}"
    )
    others = study.ask()  # by a process that is alive: it holds the trial's lock
    with one_trial.life(tmp_path, study.study_name, others.number):
        tried = tune(tuning(), Maker(tmp_path), 3)
    assert [each.state for each in tried].count("running") == 1
    assert len(tried) == 3
    assert first in tried


@pytest.mark.slow
def test_several_processes_make_as_many_trials_and_tell_of_all(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []

    def watch(config: Configuration, event: str, details: dict[str, Any]) -> None:
        told.append((config.folder_name(), event))

    found = tune_together(tuning(), Maker(tmp_path, observer=watch), 4, workers=2, prune=False)
    assert [each.state for each in found] == ["complete"] * 4
    runs = {str(folder.relative_to(tmp_path)) for folder in find_runs(tmp_path)}
    assert len(runs) == 4
    for event in ("run_begins", "run_ends"):
        assert sorted(run for run, what in told if what == event) == sorted(runs)


@pytest.mark.slow
def test_what_goes_wrong_in_a_process_is_said_here(tmp_path: Path) -> None:
    wrong = {"storage": "nosuchdatabase://here"}
    with pytest.raises(SettingError, match="The study cannot be kept in `storage`"):
        tune_together(tuning(), Maker(tmp_path), 2, workers=2, **wrong)
