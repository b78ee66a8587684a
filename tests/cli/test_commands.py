"""The commands in this process: what they say and what they leave behind."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.runs.small import OPTIONS
from tests.runs.test_job import outcome
from uclearn.cli.app import main
from uclearn.methods.registry import METHODS
from uclearn.runs.config import PRESETS
from uclearn.storage.records import find_runs, read_run
from uclearn.tasks.benchmarks import BENCHMARKS


class Said(NamedTuple):
    code: int
    out: str
    err: str

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


Uclearn = Callable[..., Said]


@pytest.fixture
def uclearn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Uclearn:
    """Type a command, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def typed(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["uclearn", *words])
        with pytest.raises(SystemExit) as leaving:
            main()
        shown = capfd.readouterr()
        return Said(int(leaving.value.code or 0), shown.out, shown.err)

    return typed


def run_small(uclearn: Uclearn, *words: str) -> Said:
    return uclearn("run", "split-digits", *OPTIONS, *words)


def test_help_is_for_people_and_lists_every_command(uclearn: Uclearn) -> None:
    said = uclearn("--help")
    assert said.code == 0
    assert "Teach a neural network one task after another" in said.out
    for name in ("run", "compare", "ablate", "sweep", "reproduce", "resume", "runs", "report"):
        assert name in said.out
    for name in ("params", "benchmarks", "presets", "doctor", "data"):
        assert name in said.out


def test_choices_in_help_come_from_the_registries(uclearn: Uclearn) -> None:
    said = " ".join(uclearn("run", "--help").out.replace("│", " ").split())
    assert ", ".join(BENCHMARKS) in said
    assert ", ".join(METHODS) in said
    assert ", ".join(PRESETS) in said


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "mnist"], "There is no benchmark 'mnist'."),
        (["run", "--method", "elastic"], "There is no method 'elastic'."),
        (["run", "--set", "ucl.bata=1"], "There is no setting `ucl.bata`. Did you mean"),
        (["run", "--set", "ucl.beta=-1"], "`beta` must be 0 or greater and finite, got -1"),
        (["run", "--preset", "worst"], "`preset` must be one of best, paper, got 'worst'."),
        (["run", "--quiet", "--json"], "`--quiet` and `--json` exclude each other"),
        (["run", "--config", "absent.toml"], "The file absent.toml cannot be read"),
        (["compare", "split-digits", "--methods", "ucl,ewcc"], "Did you mean 'ewc'?"),
        (["sweep", "split-digits"], "There is nothing to try"),
        (["sweep", "split-digits", "--paper-grid"], "The paper lists no grid for ucl on split-dig"),
        (["reproduce", "figure-99"], "There is no figure or stage 'figure-99'"),
        (["runs"], "`folder` must be a folder, got runs."),
        (["resume", "."], "There is no run at or below ."),
        (["report", "."], "There is no run at or below ."),
        (["params", "mnist"], "There is no benchmark 'mnist'."),
        (["params", "split-mnist", "--hidden", "4OO"], "as 400,400 or 8192x16, got '4OO'."),
        (["params", "omniglot", "--hidden", "400"], "must be left as it is for omniglot"),
        (["data", "get", "imagenet"], "There is no data set 'imagenet'."),
    ],
)
def test_what_is_refused_is_one_line_and_code_1(
    uclearn: Uclearn, words: list[str], message: str
) -> None:
    said = uclearn(*words)
    assert said.code == 1
    assert said.err.startswith("Error: ")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_what_cannot_be_parsed_is_code_2(uclearn: Uclearn) -> None:
    said = uclearn("run", "--seeds", "0")
    assert said.code == 2
    assert "Traceback" not in said.err


def test_missing_data_name_the_two_ways_to_get_them(uclearn: Uclearn) -> None:
    said = uclearn("run", "permuted-mnist", "--data", "nowhere", "--quiet")
    assert said.code == 1
    assert "Traceback" not in said.err
    assert "uclearn data get mnist" in said.err


def test_runs_are_listed_chosen_and_exported(uclearn: Uclearn) -> None:
    for method in ("ewc", "finetuning"):
        run_small(uclearn, "--method", method, "--quiet")
    assert "2 runs in runs" in uclearn("runs").out
    (chosen,) = uclearn("runs", "--method", "ewc", "--json").lines()
    assert chosen["method"] == "ewc"
    assert chosen["state"] == "complete"
    assert uclearn("runs", "--state", "open", "--json").out == ""
    uclearn("runs", "--csv", "runs.csv")
    with Path("runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"ewc", "finetuning"}
    assert all(0 <= float(row["average_accuracy"]) <= 1 for row in rows)
    assert "folder,benchmark" in uclearn("runs", "--csv", "-").out


def test_resume_goes_on_with_what_is_open(uclearn: Uclearn) -> None:
    run_small(uclearn, "--quiet")
    assert (
        "All 1 runs in runs are complete; there is nothing to resume."
        in uclearn("resume", "runs").out
    )
    (folder,) = find_runs(Path("runs"))
    before = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").unlink()
    assert uclearn("resume", str(folder)).code == 0
    after = json.loads((folder / "summary.json").read_text())
    assert after["accuracy_matrix"] == before["accuracy_matrix"]


def test_a_sweep_names_the_best(uclearn: Uclearn) -> None:
    words = ["sweep", "split-digits", "--method", "ewc", "--tasks", "2", *OPTIONS[2:]]
    uclearn(*words, "--grid", "plan.lr=0.01", "--quiet")
    said = uclearn(*words, "--grid", "plan.lr=1e-9,0.01")
    assert said.code == 0
    assert "judged by validation data" in " ".join(said.out.split())
    assert "Best: --set plan.lr=0.01" in said.out
    assert len(find_runs(Path("sweeps"))) == 2


def test_table_1_stands_beside_the_papers(uclearn: Uclearn) -> None:
    lines = {
        str(line["label"]): line for line in uclearn("params", "split-mnist", "--json").lines()
    }
    assert set(METHODS) <= set(lines)
    assert lines["ucl, noisy_bias"]["kept"] == 538_122
    assert lines["ucl"]["paper"] == 538
    assert "269,322" in uclearn("params", "split-mnist").out


def test_params_of_a_network_that_no_computer_here_could_hold(uclearn: Uclearn) -> None:
    lines = uclearn("params", "permuted-mnist", "--hidden", "8192x16", "--ranks", "8", "--json")
    large = {line["method"]: line for line in lines.lines()}
    plain = 784 * 8192 + 15 * 8192**2 + 8192 * 10 + 16 * 8192 + 10
    assert large["finetuning"]["kept"] == plain
    assert large["finetuning"]["bytes_learning"] == 4 * 4 * plain  # weights, gradients, two moments
    assert large["finetuning"]["bytes_sent"] == 2 * 7 / 8 * 4 * plain
    shown = uclearn("params", "permuted-mnist", "--hidden", "400,200x2", "--ranks", "2").out
    assert "sent per step" in shown
    assert "paper" not in shown  # whose networks are others


def test_presets_show_every_value_with_its_source(uclearn: Uclearn) -> None:
    words = ["presets", "permuted-mnist", "--preset", "paper", "--json"]
    lines = {str(line["key"]): line for line in uclearn(*words).lines()}
    assert lines["ucl.beta"] == {
        "key": "ucl.beta",
        "value": 0.03,
        "source": "paper, supplement 5.1.1",
    }
    assert "plan.momentum" in lines


def test_benchmarks_and_data_are_listed(uclearn: Uclearn) -> None:
    said = uclearn("benchmarks")
    assert all(name in said.out for name in BENCHMARKS)
    states = {str(line["name"]): line["state"] for line in uclearn("data", "--json").lines()}
    assert "mnist" in states
    nowhere = uclearn("data", "--data", "nowhere", "--json").lines()
    assert {line["state"] for line in nowhere} == {"missing"}


def test_figures_without_their_data_are_left_out_and_said(uclearn: Uclearn) -> None:
    said = uclearn("reproduce", "figure-4", "--data", "nowhere", "--scale", "0.01")
    assert said.code == 1
    assert "Left out: permuted-mnist" in said.err
    assert "SCALED to 0.01" in said.out


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


def test_the_report_is_written(uclearn: Uclearn) -> None:
    pytest.importorskip("plotly")
    run_small(uclearn, "--quiet")
    assert uclearn("report", "runs", "-o", "page.html").code == 0
    assert "<html" in Path("page.html").read_text()


@pytest.mark.slow
def test_the_doctor_finds_a_damaged_checkpoint(uclearn: Uclearn) -> None:
    run_small(uclearn, "--quiet")
    said = uclearn("doctor", "runs", "--data", "nowhere")
    assert said.code == 0
    assert "acts, and holds what it has learned" in said.out
    (folder,) = find_runs(Path("runs"))
    (folder / "checkpoint.safetensors").write_bytes(b"torn")
    said = uclearn("doctor", "runs", "--data", "nowhere")
    assert said.code == 1
    assert "WRONG" in said.out
