"""Runs kept at a URL, made by machines that share nothing else, each with its own cache folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runs.small import OPTIONS, placed, run, small
from tests.runs.test_job import outcome
from uclearn.cli.app import main
from uclearn.runs.config import Configuration
from uclearn.runs.grid import run_all
from uclearn.runs.job import remote_runs
from uclearn.session import StoppedError
from uclearn.storage.records import find_runs


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Be at another machine from now on."""
    return lambda machine: monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / machine))


def test_a_run_begun_on_one_machine_goes_on_at_another(at: Any, tmp_path: Path) -> None:
    config, url = small("ucl", plan__epochs=3), f"file://{tmp_path}/kept"
    told: list[str] = []

    def stop(config: Configuration, event: str, details: dict[str, Any]) -> None:
        if event == "evaluation" and details["task"] == 1:
            raise StoppedError("power cut")

    def watch(config: Configuration, event: str, details: dict[str, Any]) -> None:
        told.append(event)

    at("one")
    kept = remote_runs(url)
    jobs = placed([config], kept.folder, remote=url, checkpoint_seconds=0)
    (begun,) = run_all(jobs, observer=stop)
    assert begun.state == "stopped"
    shutil.rmtree(tmp_path / "one")
    at("two")
    kept = remote_runs(url)
    (ended,) = run_all(placed([config], kept.folder, remote=url), observer=watch)
    assert ended.state == "made"
    assert told.count("resumed") == 1
    assert told.count("evaluation") == 1
    run(config, tmp_path / "alone")
    events = (tmp_path / "alone" / "events.jsonl").read_text()
    for place in (ended.folder, tmp_path / "kept" / config.folder_name()):
        assert outcome(place) == outcome(tmp_path / "alone")
        assert (place / "events.jsonl").read_text() == events
    at("three")
    kept = remote_runs(url)
    (known,) = run_all(placed([config], kept.folder, remote=url))
    assert known.state == "done"
    assert known.summary() is not None


def test_what_could_not_be_sent_is_sent_by_the_next_call(at: Any, tmp_path: Path) -> None:
    at("one")
    config, kept = small("finetuning"), remote_runs(f"file://{tmp_path}/kept")
    run(config, kept.folder / config.folder_name())
    (result,) = run_all(placed([config], kept.folder, remote=kept.url))
    assert result.state == "done"
    assert outcome(tmp_path / "kept" / config.folder_name()) == outcome(result.folder)


@pytest.mark.slow
def test_the_command_line_keeps_runs_at_a_url(
    at: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def typed(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["uclearn", *words])
        with pytest.raises(SystemExit) as leaving:
            main()
        return int(leaving.value.code or 0)

    at("one")
    url = f"file://{tmp_path}/kept"
    words = ["compare", "split-digits", "--methods", "finetuning,ewc", "--seeds", "1", *OPTIONS]
    assert typed(*words, "--out", url, "--workers", "2", "--quiet") == 0
    assert len(find_runs(tmp_path / "kept")) == 2
    at("two")
    assert typed(*words, "--out", url) == 0
    assert "All 2 were done before; nothing was to be made." in capsys.readouterr().out
    assert typed("run", "split-digits", *OPTIONS, "--out", url) == 1
    assert "`out` must be a folder, got the URL file:/" in capsys.readouterr().err
