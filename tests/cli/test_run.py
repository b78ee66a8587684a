"""`uclearn run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import Said, Uclearn, run_small
from tests.runs.small import OPTIONS
from tests.runs.test_job import outcome
from uclearn.storage.records import SCHEMA, find_runs, read_run


def test_a_run_is_made_once(uclearn: Uclearn) -> None:
    said = run_small(uclearn, "--method", "ewc", "--seeds", "1")
    assert said.code == 0
    assert "ewc" in said.out
    again = run_small(uclearn, "--method", "ewc", "--seeds", "1")
    assert "All 1 were done before; nothing was to be made." in again.out
    (folder,) = find_runs(Path("runs"))
    summary = read_run(folder).summary
    assert summary is not None
    shown = " ".join(
        ["uclearn", "run", "split-digits", *OPTIONS, "--method", "ewc", "--seeds", "1"]
    )
    assert summary.extra["command"] == shown.replace("network.hidden=[8]", "'network.hidden=[8]'")


def test_json_is_one_object_per_line_and_quiet_is_quiet(uclearn: Uclearn) -> None:
    said = run_small(uclearn, "--json")
    events = [line["event"] for line in said.lines()]
    assert events[0] == "run_begins"
    assert events.count("evaluation") == 2
    assert events[-1] == "result"
    result = said.lines()[-1]
    assert isinstance(result["summary"], dict)
    assert result["summary"]["config"]["benchmark"] == "split-digits"
    assert run_small(uclearn, "--quiet") == Said(0, "", "")


def test_what_the_precision_came_to_is_said_and_recorded(
    uclearn: Uclearn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uclearn.training.plan.best_on", lambda device: "bfloat16")
    said = run_small(uclearn, "--set", "plan.precision=auto")
    assert "computed in bfloat16, as plan.precision=auto found best here" in said.err
    assert "Computed in bfloat16, as plan.precision=auto found best." in said.out
    (folder,) = find_runs(Path("runs"))
    run = read_run(folder)
    assert run.summary is not None
    assert run.config["plan"]["precision"] == "auto"
    assert run.summary.extra["precision"] == "bfloat16"
    assert run.events[0] == {"schema": SCHEMA, "event": "precision", "precision": "bfloat16"}


@pytest.mark.parametrize(("method", "who"), [("ucl", "torch (UCLEARN_NATIVE=0)"), ("ewc", None)])
def test_who_worked_on_the_weights_is_said_and_recorded(
    method: str, who: str | None, uclearn: Uclearn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they are drawn."""
    monkeypatch.setattr("uclearn.native.build.library", lambda: "UCLEARN_NATIVE=0")
    said = run_small(uclearn, "--method", method)
    assert ("Work on the weights: torch (UCLEARN_NATIVE=0)." in said.out) == (who is not None)
    (folder,) = find_runs(Path("runs"))
    summary = read_run(folder).summary
    assert summary is not None
    assert summary.extra.get("weights") == who


def test_settings_come_from_the_preset_then_the_file_then_the_options(uclearn: Uclearn) -> None:
    Path("mine.toml").write_text(
        'benchmark = "split-digits"\nmethod = "ewc"\ntasks = 2\n'
        "[plan]\nepochs = 2\nlr = 0.5\n[network]\nhidden = [8]\n[ewc]\nstrength = 7\n"
    )
    said = uclearn("run", "--config", "mine.toml", "--epochs", "1", "--set", "ewc.strength=9")
    assert said.code == 0
    (folder,) = find_runs(Path("runs"))
    config = read_run(folder).config
    assert config["method"] == "ewc"
    assert config["plan"]["epochs"] == 1
    assert config["plan"]["lr"] == 0.5
    assert config["settings"]["ewc"]["strength"] == 9.0


def test_a_run_is_made_again_from_its_config_alone(uclearn: Uclearn) -> None:
    run_small(uclearn, "--method", "ewc", "--set", "ewc.strength=9", "--quiet")
    (folder,) = find_runs(Path("runs"))
    for file in ("config.json", "summary.json"):
        said = uclearn("run", "--config", str(folder / file), "--out", f"from-{file}")
        assert said.code == 0
        (again,) = find_runs(Path(f"from-{file}"))
        made = outcome(again)
        made["extra"] = {**made["extra"], "command": outcome(folder)["extra"]["command"]}
        assert made == outcome(folder)
    said = uclearn("run", "--config", str(folder / "config.json"), "--epochs", "2")
    assert "says everything about its run; leave the other options." in said.err


def test_out_says_where(uclearn: Uclearn) -> None:
    run_small(uclearn, "--method", "finetuning", "--out", "there")
    assert len(find_runs(Path("there"))) == 1
    assert not Path("runs").exists()


def test_missing_data_name_the_two_ways_to_get_them(uclearn: Uclearn) -> None:
    said = uclearn("run", "permuted-mnist", "--data", "nowhere", "--quiet")
    assert said.code == 1
    assert "Traceback" not in said.err
    assert "uclearn data get mnist" in said.err


@pytest.mark.parametrize("command", ["run", "compare", "sweep"])
def test_data_that_are_missing_are_said_once_before_anything_is_made(
    uclearn: Uclearn, command: str
) -> None:
    more = ["--grid", "ucl.beta=0.1,0.2"] if command == "sweep" else []
    said = uclearn(command, "split-mnist", "--seeds", "3", "--data", "nowhere", *more)
    assert said.code == 1
    assert said.out == ""
    assert said.err.startswith("Error: The data set mnist is not complete in nowhere.")
    assert said.err.count("`uclearn data get mnist`") == 1
    assert not find_runs(Path())
