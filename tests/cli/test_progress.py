"""What is shown while runs are made."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from tests.runs.small import small
from uclearn.cli.printing import working
from uclearn.cli.progress import Pace, _Bars, _Lines, counted
from uclearn.runs.config import Configuration


class Story:
    """Runs that go on at a pace of our choice: four, one minute each."""

    def __init__(self, observed: Any, clock: list[float]) -> None:
        self.observed, self.clock = observed, clock
        self.runs = [small("finetuning", seed=seed) for seed in range(4)]

    def tell(self, run: int, event: str, **details: Any) -> None:
        self.observed(self.runs[run], event, details)

    def step(self, run: int, share: float, seconds: float) -> None:
        self.clock[0] += seconds
        self.tell(run, "step", share=share)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(Configuration, "share_done", lambda self, step: step["share"])
    monkeypatch.setattr(Configuration, "news", lambda self, event, details: "task 1/2")
    for kind in {type(small("finetuning"))}:
        monkeypatch.setattr(kind, "share_done", Configuration.share_done)
        monkeypatch.setattr(kind, "news", Configuration.news)
    return [1000.0]


def test_the_time_left_is_known_in_the_first_run(clock: list[float]) -> None:
    pace = Pace(4, lambda: clock[0])
    story = Story(pace.observe, clock)
    assert pace.left is None
    story.tell(0, "run_begins")
    story.step(0, 0.0, 0)
    assert pace.left is None
    story.step(0, 0.5, 30)
    assert pace.left == pytest.approx(210)  # half a run and three more, a minute each
    story.step(0, 1.0, 30)
    story.tell(0, "run_ends", state="made")
    assert pace.count == "1 of 4 runs"
    assert pace.left == pytest.approx(180)


def test_runs_that_were_done_before_do_not_make_it_look_faster(clock: list[float]) -> None:
    pace = Pace(4, lambda: clock[0])
    story = Story(pace.observe, clock)
    for run in (0, 1):
        story.tell(run, "run_ends", state="done")
    story.tell(2, "run_begins")
    story.step(2, 0.75, 0)  # it goes on where it was stopped
    story.step(2, 1.0, 15)
    story.tell(2, "run_ends", state="made")
    assert pace.count == "3 of 4 runs"
    assert pace.left == pytest.approx(60)


def test_a_terminal_shows_count_and_time_left_of_all_runs(clock: list[float]) -> None:
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=120, color_system=None)
    with _Bars(Pace(4, lambda: clock[0]), console) as bars:
        story = Story(bars.observe, clock)
        story.tell(0, "run_begins")
        bars.progress.refresh()
        assert "finetuning seed 0" in screen.getvalue()
        assert "preparing" in screen.getvalue()
        story.step(0, 0.0, 0)
        story.step(0, 0.5, 30)
        bars.progress.refresh()
    shown = screen.getvalue()
    assert "0:03:30 0 of 4 runs" in shown


def test_a_log_says_how_far_all_runs_are(
    clock: list[float], capfd: pytest.CaptureFixture[str]
) -> None:
    story = Story(_Lines(Pace(4, lambda: clock[0])).observe, clock)
    story.tell(0, "run_begins")
    story.step(0, 0.0, 0)
    story.step(0, 0.9, 60)
    story.tell(0, "run_ends", state="made")
    assert capfd.readouterr().err == "1 of 4 runs, about 3 minutes left\n"


def test_what_is_counted_comes_through_unchanged(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(counted(iter("abc"), 3, "Trying", "live")) == ["a", "b", "c"]
    assert capfd.readouterr().err == "Trying: 3.\n"
    assert list(counted(iter("abc"), 3, "Trying", "quiet")) == ["a", "b", "c"]
    assert capfd.readouterr().err == ""


def test_what_takes_its_time_moves_in_a_terminal_and_is_gone_afterwards(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with working("Reading pictures"):
        pass
    assert capfd.readouterr() == ("", "")  # nothing in a log
    screen = StringIO()
    terminal = Console(file=screen, force_terminal=True, width=60)
    monkeypatch.setattr("rich.console.Console", lambda stderr: terminal)
    with working("Reading pictures"):
        pass
    assert "Reading pictures ..." in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[1A\x1b[2K")  # the line is taken away
