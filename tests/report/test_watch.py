"""The page on growing runs: what it is told, who may ask, and how it looks in a real browser."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser import browser, js, missing
from tests.report.runs import config, matrix, nodes, write_run
from uclearn.errors import SettingError
from uclearn.report.watch import HOST, server, share_done, state

CARDS = "return [...document.querySelectorAll('article')].map(card => card.innerText)"
ROWS = matrix(3, 0.9, 0.1, 0)
MEANS = [sum(score or 0 for score in row[: k + 1]) / (k + 1) for k, row in enumerate(ROWS)]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    write_run(folder / "a", config("ucl", tasks=3), ROWS, node_events=nodes(3, 0))
    write_run(folder / "b", config("mas", tasks=4), matrix(2, 0.8, 0.1, 0), complete=False)
    return folder


@pytest.fixture
def address(runs: Path) -> Iterator[str]:
    with server(runs, 0) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield f"http://{HOST}:{serving.server_address[1]}"
        serving.shutdown()


def test_it_is_told_what_the_folders_say(runs: Path) -> None:
    told = {run["folder"]: run for run in state(runs, {})["runs"]}
    assert (told["a"]["state"], told["a"]["share"], told["a"]["left"]) == ("complete", 1.0, None)
    assert told["a"]["scores"] == pytest.approx(MEANS)
    assert len(told["a"]["certain"]) == 3
    assert told["b"]["state"] == "growing"
    assert told["b"]["share"] == 0.5


def test_time_left_follows_the_pace_that_is_seen(runs: Path) -> None:
    ten_seconds_ago = (time.time() - 10, 0.25)
    (run,) = [r for r in state(runs, {runs / "b": ten_seconds_ago})["runs"] if r["folder"] == "b"]
    assert run["left"] == pytest.approx(20, rel=0.05)  # a quarter took ten, a half is left


def test_nobody_knows_the_share_of_a_run_without_end() -> None:
    assert share_done({"plan": {}}, [{"task": 0, "epoch": 1}], []) is None


def test_a_damaged_run_says_so_and_hides_no_other(runs: Path) -> None:
    (runs / "a" / "summary.json").write_text('{"format": "uclearn.run", ')
    told = {run["folder"]: run for run in state(runs, {})["runs"]}
    assert told["a"]["state"] == "damaged"
    assert told["b"]["state"] == "growing"


def test_only_this_machine_by_its_own_name_is_answered(address: str) -> None:
    assert HOST == "127.0.0.1"
    with urllib.request.urlopen(f"{address}/runs.json") as answer:
        assert len(json.load(answer)["runs"]) == 2
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    for path, headers, code in (
        ("/runs.json", {"Host": "elsewhere.example:80"}, 403),
        ("/../a/config.json", {}, 404),
    ):
        asked = urllib.request.Request(address + path, headers=headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked)
        assert refused.value.code == code
        refused.value.close()


def test_a_port_that_is_taken(runs: Path) -> None:
    with server(runs, 0) as serving, pytest.raises(SettingError, match=r"`--port` \d+ cannot"):
        server(runs, serving.server_address[1])


@pytest.mark.browser
def test_in_a_browser_it_shows_runs_and_grows_with_them(
    address: str, runs: Path, tmp_path: Path
) -> None:
    if absent := missing():
        pytest.skip(f"{absent} is not installed")
    with browser(tmp_path / "profile") as driver:
        driver.get(address)

        def cards() -> list[str]:
            found: list[str] = js(driver, CARDS)
            return found

        def wait_for(count: int) -> list[str]:
            deadline = time.monotonic() + 300
            while len(found := cards()) != count:
                assert time.monotonic() < deadline, found
                time.sleep(0.1)
            return found

        both = wait_for(2)
        whole = next(text for text in both if "UCL" in text)
        assert "complete" in whole
        assert f"accuracy {100 * MEANS[-1]:.1f} %" in whole
        assert "of the nodes certain" in whole
        assert js(driver, "return document.querySelectorAll('polyline.scores').length") == 2
        write_run(runs / "c", config("ewc", tasks=2), matrix(1, 0.7, 0.1, 0), complete=False)
        assert any("EWC" in text for text in wait_for(3))
        logged: Any = driver.get_log("browser")  # type: ignore[no-untyped-call]
        assert [line for line in logged if "favicon" not in line["message"]] == []
