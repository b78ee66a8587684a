"""`uclearn tune`, and what is done with what it finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.terminal import Uclearn
from tests.runs.small import OPTIONS
from uclearn.storage.records import find_runs, read_run


@pytest.mark.slow
def test_what_tuning_finds_is_used_by_run_and_compare(uclearn: Uclearn) -> None:
    words = ["tune", "split-digits", "--method", "ewc", "--trials", "2", "--tasks", "1"]
    code, out, _ = uclearn(*words, *OPTIONS[2:], "--sampler", "random")
    assert code == 0
    assert "ewc on split-digits, judged by validation data" in out
    found = "tuning/split-digits-ewc.toml"
    assert f"uclearn run --config {found}" in out
    _, lines, _ = uclearn(*words, *OPTIONS[2:], "--json")
    best = json.loads(lines.splitlines()[0])
    assert (best["event"], best["state"]) == ("trial", "complete")
    assert uclearn("run", "--config", found, "--tasks", "2", "--quiet")[0] == 0
    compare = ["compare", "split-digits", "--config", found, "--seeds", "1", "--tasks", "2", "-q"]
    assert uclearn(*compare, "--methods", "finetuning,ewc")[0] == 0
    configs = [read_run(folder).config for folder in find_runs(Path("runs"))]
    assert sorted(config["method"] for config in configs) == ["ewc", "finetuning"]
    for config in configs:
        assert config["data"]["judge"] == "test"
        assert config["network"]["hidden"] == [8]
        if config["method"] == "ewc":
            assert config["settings"]["ewc"]["strength"] == best["values"]["ewc.strength"]
    code, _, err = uclearn(*compare, "--methods", "finetuning,si")
    assert code == 1
    assert "The file is for `method` ewc, which is not compared: name it too." in err


@pytest.mark.slow
def test_tuning_without_any_success_says_why(uclearn: Uclearn) -> None:
    words = ["tune", "split-digits", "--method", "ewc", "--trials", "2", *OPTIONS[2:]]
    code, _, err = uclearn(*words, "--space", "ewc.strength=-2,-1", "--quiet")
    assert code == 1
    assert err.startswith("Error: No trial of ewc succeeded: `strength` must")
