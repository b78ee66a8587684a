"""Data of one's own where a benchmark's name stands: from files to the report."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli import dying
from tests.cli.terminal import Uclearn
from tests.tasks.own.files import blobs, machines, write_npz
from uclearn.paper.curves import ablations
from uclearn.storage.records import find_runs, read_run

SHORT = ["--epochs", "1", "--set", "network.hidden=[8]"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))


@pytest.mark.slow
def test_from_a_table_to_the_report(uclearn: Uclearn, tmp_path: Path) -> None:
    machines(tmp_path / "wear.csv")
    words = ["compare", "wear.csv", "--methods", "ucl,ewc", "--seeds", "1", *SHORT]
    made = uclearn(*words)
    assert made.code == 0, made.err
    assert len(find_runs(Path("runs"))) == 2
    assert uclearn("report", "runs").code == 0
    page = Path("report.html").read_text()
    assert "Wear" in page
    assert "All 2 were done before" in uclearn(*words).out


@pytest.mark.slow
def test_every_command_takes_a_path(uclearn: Uclearn, tmp_path: Path) -> None:
    write_npz(tmp_path / "four.npz")
    own = ["four.npz", "--split", "2"]
    for words in (
        ["run", *own, *SHORT],
        ["sweep", *own, "--method", "ewc", "--grid", "ewc.strength=2.0", *SHORT],
        ["tune", *own, "--method", "ewc", "--trials", "1", *SHORT, "--track", "tensorboard"],
        ["params", *own],
        ["presets", *own],
    ):
        said = uclearn(*words)
        assert said.code == 0, (words, said.err)
    assert len(list(Path("tuning/tensorboard").rglob("events.out.*"))) == 1
    # what was found can be had again, data and all
    (found,) = Path("tuning").glob("four-*-ewc.toml")
    said = uclearn("run", "--config", str(found), "--out", "tuned")
    assert said.code == 0, said.err
    assert len(find_runs(Path("tuned"))) == 1


@pytest.mark.slow
def test_classes_that_come_later_from_the_file_to_the_report(
    uclearn: Uclearn, tmp_path: Path
) -> None:
    write_npz(tmp_path / "four.npz")
    own = ["four.npz", "--split", "2", "--scenario", "class"]
    for method in ("finetuning", "ucl"):
        made = uclearn("run", *own, "--method", method, *SHORT)
        assert made.code == 0, made.err
    runs = [read_run(folder) for folder in find_runs(Path("runs"))]
    assert len(runs) == 2
    for run in runs:
        assert run.summary is not None
        (first, unknown), last = run.summary.accuracy_matrix
        assert first is not None
        assert unknown is None
        assert None not in last
    assert uclearn("report", "runs").code == 0
    assert "Four" in Path("report.html").read_text()
    refused = uclearn("run", *own, "--method", "hat")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "hat must be told which task an example is of" in refused.err
    plain = {line["label"]: line for line in uclearn("params", *own, "--json").lines()}
    # 6 inputs, twice 200 nodes, in the end four outputs
    assert plain["finetuning"]["kept"] == 7 * 200 + 201 * 200 + 201 * 4
    assert "hat" not in plain


@pytest.mark.slow
def test_an_ablation_that_was_cut_short_goes_on(uclearn: Uclearn, tmp_path: Path) -> None:
    """Three of its runs are there already, made one by one; only the last is made."""
    write_npz(tmp_path / "four.npz")
    own = ["four.npz", "--split", "2", *SHORT]
    *done, _ = ablations()
    for without in done:
        chosen = [
            word
            for key, value in without.items()
            for word in ("--set", f"{key}={str(value).lower()}")
        ]
        said = uclearn("run", *own, *chosen, "-q")
        assert said.code == 0, said.err
    said = uclearn("ablate", *own, "--seeds", "1")
    assert said.code == 0, said.err
    assert len(find_runs(Path("runs"))) == len(done) + 1
    (whole, *_) = find_runs(Path("runs"))
    before = read_run(whole).summary
    assert before is not None
    (whole / "summary.json").unlink()
    assert uclearn("resume", "runs", "-q").code == 0
    after = read_run(whole).summary
    assert after is not None
    assert after.accuracy_matrix == before.accuracy_matrix


def test_changed_data_are_noticed_and_not_mixed(uclearn: Uclearn, tmp_path: Path) -> None:
    path = write_npz(tmp_path / "four.npz")
    words = ["run", "four.npz", "--split", "2", "--method", "finetuning", *SHORT]
    assert uclearn(*words).code == 0
    (before,) = find_runs(Path("runs"))
    (before / "summary.json").unlink()
    write_npz(path, x=blobs(seed=1)[0])
    resumed = uclearn("resume", "runs")
    assert resumed.code == 1
    assert "have changed since this run was begun" in resumed.err
    anew = uclearn(*words)
    assert anew.code == 0
    assert f"have changed since the runs in {before.parents[1]} were made" in anew.err
    assert len(find_runs(Path("runs"))) == 2


def test_options_of_own_data_are_refused_for_a_benchmark(uclearn: Uclearn) -> None:
    said = uclearn("run", "split-digits", "--split", "2")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "`split`: only for data of one's own" in said.err


@pytest.mark.slow
def test_killed_and_resumed_it_ends_as_if_it_never_was(uclearn: Uclearn, tmp_path: Path) -> None:
    write_npz(tmp_path / "four.npz")
    words = ["run", "four.npz", "--split", "2", "--epochs", "60", "--set", "plan.precision=float32"]
    assert uclearn(*words, "--out", "whole", "-q").code == 0
    killed = dying.words(5, *words, "--out", "killed", "--checkpoint-seconds", "0", "-q")
    assert subprocess.run(killed, timeout=600).returncode == -signal.SIGKILL
    (cut,) = find_runs(Path("killed"))
    assert read_run(cut).summary is None
    assert uclearn("resume", "killed", "-q").code == 0
    (whole,) = find_runs(Path("whole"))
    one, two = read_run(whole), read_run(cut)
    assert one.summary is not None
    assert two.summary is not None
    assert one.summary.accuracy_matrix == two.summary.accuracy_matrix
    assert one.events == two.events
