"""`uclearn learn`: a model taught from files, guarded, asked, and accounted for."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cli.months import FAST, teach, write
from tests.cli.terminal import Uclearn
from tests.report.pages import parse, specs
from tests.report.test_page_structure import (
    test_every_id_is_there_once_and_every_reference_leads_somewhere as every_link_leads_somewhere,
)
from tests.report.test_page_structure import (
    test_every_table_has_a_caption_headers_and_even_rows as every_table_is_whole,
)
from uclearn.live.learner import Learner
from uclearn.networks import MultiHead
from uclearn.storage.checkpoint import CHECKPOINT_NAME
from uclearn.storage.files import FolderLock

pytestmark = pytest.mark.usefixtures("months")


def test_the_story_of_a_model(uclearn: Uclearn, tmp_path: Path) -> None:
    said = teach(uclearn, "january", "--one-head", "--method", "finetuning", *FAST)
    assert said.code == 0
    assert said.out.startswith("january: accepted. 108 examples, 12 set apart, right on ")

    kept = (tmp_path / "m" / CHECKPOINT_NAME).read_bytes()
    model = Learner.load("m")
    said = teach(uclearn, "february", "--canary", "30")
    assert said.code == 3
    assert "february: rejected. 90 examples, 30 set apart" in said.out
    assert "Task 'january' went from 100.0% to " in said.out
    assert "The model in m is what it was before, to the bit." in said.out
    now = Learner.load("m")
    assert all(
        map(torch.equal, model.method.state_dict().values(), now.method.state_dict().values())
    )
    assert (tmp_path / "m" / CHECKPOINT_NAME).read_bytes() != kept  # the journal is in it, too

    said = teach(uclearn, "march", "--json")
    assert said.code == 0
    assert said.lines()[0]["decision"] == "accepted"

    said = uclearn("predict", "m", "--data", "march.csv", "--label", "fault", "--out", "a.csv")
    assert said.out == "120 answers written to a.csv.\n"
    with Path("a.csv").open() as file:
        rows = list(csv.DictReader(file))
    with Path("march.csv").open() as file:
        truth = [row["fault"] for row in csv.DictReader(file)]
    assert [row["label"] for row in rows] == truth
    assert all(0.5 <= float(row["probability"]) <= 1 for row in rows)

    said = uclearn("status", "m")
    assert "m: 3 updates, 2 kept" in said.out
    assert "february rejected: Task 'january' went from 100.0%" in " ".join(said.out.split())
    lines = uclearn("status", "m", "--json").lines()
    assert [line.get("decision") for line in lines[:3]] == ["accepted", "rejected", "accepted"]
    assert lines[3] == {"event": "capacity"}


def test_heads_names_and_room(uclearn: Uclearn) -> None:
    assert teach(uclearn, "january", *FAST, "--set", "lr_sigma=0.05").code == 0
    assert teach(uclearn, "february", "--max-drop", "0.2").code == 0
    model = Learner.load("m").method.model
    assert isinstance(model, MultiHead)
    assert len(model.heads) == 2
    asked = ("predict", "m", "--data", "february.csv", "--label", "fault", "--json")
    with Path("february.csv").open() as file:
        truth = [row["fault"] for row in csv.DictReader(file)]
    answers = uclearn(*asked, "--task", "february", "--uncertainty").lines()
    right = [line["label"] == label for line, label in zip(answers, truth, strict=True)]
    assert sum(right) > 110
    assert all(isinstance(line["disagreement"], float) for line in answers)
    found = {line["task"] for line in uclearn(*asked, "--together").lines()}
    assert len(found) == 1
    said = uclearn("status", "m", "--report", "page.html")
    assert "of all nodes are certain" in said.out
    page = parse(Path("page.html").read_text(encoding="utf-8"))
    every_link_leads_somewhere(page)
    every_table_is_whole(page)
    assert "2 updates · 0 rejected" in page.text
    assert page.by_id("main").text.count("accepted") == 2
    (chart,) = specs(page)
    assert [trace["name"] for trace in chart["data"]] == ["january", "february"]
    assert [trace["x"] for trace in chart["data"]] == [[1, 2], [2]]


@pytest.mark.slow
def test_new_labels(uclearn: Uclearn, tmp_path: Path) -> None:
    assert teach(uclearn, "january", "--one-head", "--method", "ucl+replay", *FAST).code == 0
    write(tmp_path / "february.csv", 2, ("ok", "cracked"))
    said = teach(uclearn, "february")
    assert said.code == 1
    assert "The labels must be among ok, worn, which have outputs, got cracked as well." in said.err
    assert teach(uclearn, "february", "--add-classes", "--max-drop", "0.9").code == 0
    assert Learner.load("m").tasks["february"].labels == ("ok", "worn", "cracked")
    said = uclearn("predict", "m", "--data", "february.csv", "--label", "fault")
    assert "cracked" in said.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ("--data", "none.csv"),
            "expected data of your own, found nothing. Check the path.",
        ),
        (("--data", "text.txt"), "found .txt."),
        (("--data", "empty.csv"), "empty.csv: expected at least one row of examples, found none."),
        (("--data", "inf.csv"), "row 2, column b: expected a number that 32 bits can hold"),
        (("--data", "nan.npz"), "expected finite numbers, found NaN or infinity in 1 examples"),
        (("--data", "words.csv"), "row 3, column b: expected a number as everywhere before, found"),
        (("--data", "ragged.csv"), "ragged.csv, row 3: expected 3 cells, found 2. A comma"),
        (("--data", "inf.csv", "--label", "x"), "no column 'x'. Its columns are a, b, y."),
        (("--data", "odd.npz"), "odd.npz: expected the arrays x and y, found z."),
        (("--data", "broken.npz"), "broken.npz: expected a whole npz file of numbers"),
        (("--data", "good.csv", "--hidden", "wide"), "`--hidden` must be whole numbers, as 64,64"),
        (("--data", "good.csv", "--max-drop", "2"), "`max_drop` must lie between 0 and 1, got 2.0"),
        (
            ("--data", "good.csv", "--max-drop", "0.1", "--max-total", "0.05"),
            "`max_total` must lie between `max_drop` (0.1) and 1, got 0.05.",
        ),
        (("--data", "good.csv", "--set", "betta=1"), "There is no setting of ucl 'betta'."),
    ],
)
def test_bad_files_are_refused_in_one_line(
    uclearn: Uclearn, words: tuple[str, ...], text: str
) -> None:
    Path("text.txt").touch()
    Path("empty.csv").write_text("a,b,y\n")
    Path("inf.csv").write_text("a,b,y\n1,inf,ok\n1,2,worn\n")
    np.savez("nan.npz", x=np.array([[1.0, np.nan], [1, 2]]), y=[0, 1])
    Path("words.csv").write_text("a,b,y\n1,2,ok\n1,high,worn\n")
    Path("ragged.csv").write_text("a,b,y\n1,2,ok\n1,2\n")
    Path("good.csv").write_text("a,b,y\n" + "1,2,ok\n3,4,worn\n5,6,ok\n" * 3)
    Path("broken.npz").write_bytes(b"PK")
    np.savez("odd.npz", z=np.zeros(3))
    said = uclearn("learn", "m", "--name", "january", *words)
    assert said.code == 1
    assert text in said.err
    assert len(said.err.splitlines()) == 1
    assert not (Path("m") / CHECKPOINT_NAME).exists()


def test_what_is_chosen_once_cannot_be_chosen_again(uclearn: Uclearn) -> None:
    teach(uclearn, "january", *FAST)
    said = teach(uclearn, "february", "--hidden", "8", "--method", "ewc")
    assert said.code == 1
    assert "--method, --hidden can be chosen when a model is made, but m holds one" in said.err


def test_the_schedule_is_kept_and_a_wrong_one_refused(uclearn: Uclearn) -> None:
    said = teach(uclearn, "january", *FAST, "--schedule", "luck")
    assert said.code == 1
    assert "`schedule` must be one of constant, cosine, one-cycle, got 'luck'" in said.err
    teach(uclearn, "january", *FAST, "--schedule", "cosine")
    assert Learner.load("m").plan.schedule == "cosine"


def test_another_feature_count_is_refused(uclearn: Uclearn) -> None:
    teach(uclearn, "january", *FAST)
    Path("wide.csv").write_text("1,2,3,4,5,ok\n5,4,3,2,1,worn\n")
    said = uclearn("learn", "m", "--data", "wide.csv", "--name", "wide")
    assert said.code == 1
    assert "wide.csv: there is no column 'force', of which this model knows." in said.err
    np.savez("wide.npz", x=np.eye(5), y=[0, 1, 0, 1, 0])
    said = uclearn("learn", "m", "--data", "wide.npz", "--name", "wide")
    assert said.code == 1
    assert "`data` must fit the network, got examples of shape (5,)" in said.err


def test_a_folder_in_use_is_refused(uclearn: Uclearn) -> None:
    Path("m").mkdir()
    with FolderLock(Path("m"), "learning"):
        said = teach(uclearn, "january", *FAST)
    assert said.code == 1
    assert "Folder m is in use by process" in said.err
