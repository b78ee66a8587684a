"""`uclearn reproduce`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Uclearn
from uclearn.paper.curves import Curve, Study
from uclearn.paper.studies import RL_STUDIES, STUDIES
from uclearn.runs.config import Configuration
from uclearn.runs.estimate import Estimate, kinds
from uclearn.storage.records import find_runs, read_run


def test_figures_without_their_data_are_left_out_and_said(uclearn: Uclearn) -> None:
    said = uclearn("reproduce", "figure-4", "--data", "nowhere", "--scale", "0.01")
    assert said.code == 1
    assert "Left out: permuted-mnist" in said.err
    assert "SCALED to 0.01" in said.out


@pytest.mark.slow
def test_a_study_of_the_paper_is_made_elsewhere(
    uclearn: Uclearn, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"network.hidden": [8], "plan.epochs": 1}
    curves = tuple(Curve("split-digits", name, small, 1, "best") for name in ("ewc", "finetuning"))
    monkeypatch.setitem(STUDIES, "figure-0", Study("Small", curves))
    elsewhere = ["--on", "slurm", "--slurm", "cluster=local"]
    code, _, err = uclearn("reproduce", "figure-0", *elsewhere, "--quiet")
    assert code == 0, err
    made = [read_run(folder) for folder in find_runs(Path("runs"))]
    assert sorted(run.config["method"] for run in made) == ["ewc", "finetuning"]
    assert list(Path("runs").rglob(".submitit/*"))  # by jobs, not by processes of the command


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of six runs, of which VCL's take almost all of the time."""
    small = {"network.hidden": [8], "plan.epochs": 1}
    names = ("ewc", "vcl", "finetuning")
    curves = tuple(Curve("split-digits", name, small, 2, "best") for name in names)
    monkeypatch.setitem(STUDIES, "figure-0", Study("Small", curves))
    seconds = {"vcl": 86400.0, "ewc": 7200.0, "finetuning": 3600.0}

    def tried(configs: list[Configuration], data: Path | None) -> Iterator[Estimate]:
        for group in kinds(configs):
            yield Estimate(group[0], len(group), seconds[group[0].method] * len(group))

    monkeypatch.setattr("uclearn.runs.estimate.estimates", tried)


@pytest.mark.usefixtures("dear")
def test_an_estimate_names_the_method_that_costs_most_and_offers_to_leave_it_out(
    uclearn: Uclearn,
) -> None:
    said = uclearn("reproduce", "figure-0", "--estimate", "--workers", "1")
    assert said.code == 0
    assert "Trying each kind of run for a few steps: 3." in said.err  # not silent
    words = " ".join(said.out.replace("│", " ").split())
    assert "vcl 2 2 days 89 % ewc 2 4 hours 7 % finetuning 2 2 hours 4 %" in words
    assert "6 of 6 runs are to be made, 1 at a time, in about 2 days." in words
    assert "Without vcl it takes about 6 hours: --without vcl" in words
    assert not Path("runs").exists()


@pytest.mark.usefixtures("dear")
def test_what_is_left_out_is_not_estimated(uclearn: Uclearn) -> None:
    words = ["reproduce", "figure-0", "--estimate", "--workers", "1", "--json"]
    lines = uclearn(*words, "--without", "vcl").lines()
    assert lines == [
        {"event": "estimate", "method": "ewc", "runs": 2, "seconds": 14400.0},
        {"event": "estimate", "method": "finetuning", "runs": 2, "seconds": 7200.0},
    ]


@pytest.mark.usefixtures("dear")
@pytest.mark.parametrize(
    ("without", "why"),
    [
        ("hat", "`without` must name methods that there are (ewc, vcl, finetuning), got 'hat'."),
        ("ewc,vcl,finetuning", "`without` ewc,vcl,finetuning leaves no method: name fewer."),
    ],
)
def test_what_cannot_be_left_out_is_refused(uclearn: Uclearn, without: str, why: str) -> None:
    said = uclearn("reproduce", "figure-0", "--estimate", "--without", without)
    assert (said.code, said.err) == (1, f"Error: {why}\n")


def test_acting_is_estimated_too(uclearn: Uclearn, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"plan.environments": 2, "plan.rollout_steps": 8, "plan.minibatch": 8}
    names = "Pendulum-v1,MountainCarContinuous-v0"
    curves = tuple(Curve(names, method, small, 1) for method in ("ucl", "finetuning"))
    monkeypatch.setitem(RL_STUDIES, "figure-0", Study("Small", curves))
    monkeypatch.setattr("uclearn.runs.rl.seconds_per_step", lambda *given: [0.001, 0.001])
    said = uclearn("rl", "reproduce", "figure-0", "--estimate", "--workers", "1", "--no-references")
    assert said.code == 0, said.err
    assert "2 of 2 runs are to be made, 1 at a time, in about 6 hours." in said.out
    assert not Path("runs").exists()
