"""No two labels are alike; and what a run has to be to stand beside the paper's numbers."""

from typing import Any

import pytest

from tests.report.runs import config
from uclearn.paper.numbers import published
from uclearn.report.labels import departures, labels


def test_the_papers_own_experiment_departs_in_nothing() -> None:
    number = published("permuted-mnist", "ucl")
    assert number is not None
    own = config(benchmark="permuted-mnist", preset="paper", epochs=100, tasks=10)
    assert departures(own | {"changed": []}, 10, number) == []


def test_every_departure_is_named() -> None:
    number = published("permuted-mnist", "ucl")
    assert number is not None
    paper = config(benchmark="permuted-mnist", preset="paper", epochs=100)
    assert departures(paper, 3, number) == ["3 tasks instead of 10"]
    assert departures(paper | {"scale": 0.05}, 10, number) == ["scaled to 5\xa0%"]
    assert departures(paper | {"preset": "best"}, 10, number) == ["preset best"]
    assert departures(paper | {"changed": ["ucl.beta=0.1"]}, 10, number) == ["ucl.beta=0.1"]
    short = paper | {"plan": {"epochs": 20}, "changed": ["plan.epochs=20"]}
    assert departures(short, 10, number) == ["20 epochs instead of 100"]


def test_omniglot_compares_only_when_split_as_the_authors_did() -> None:
    number = published("omniglot", "ucl")
    assert number is not None
    honest = config(benchmark="omniglot", preset="paper", epochs=100, tasks=50)
    assert departures(honest, 50, number) == ["not split after augmentation"]
    theirs = honest | {"data": {"split_after_augmentation": True}}
    assert departures(theirs, 50, number) == []


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        (
            [config(preset="best", epochs=1), config(preset="paper", epochs=2)],
            ["UCL, tuned", "UCL, paper"],
        ),
        (
            [config(settings={"ratio": None}), config(settings={"ratio": 0.5})],
            ["UCL, ratio none", "UCL, ratio 0.5"],
        ),
        (
            [config(settings=dict.fromkeys("abcde", k)) for k in (1, 2)],
            ["UCL, a 1", "UCL, a 2"],
        ),
        (  # b follows from a, c does not: it is named first
            [config(settings={"a": k, "b": 2 * k, "c": c}) for k, c in ((1, 5), (1, 6), (2, 5))],
            ["UCL, a 1, c 5", "UCL, a 1, c 6", "UCL, a 2, c 5"],
        ),
        (  # by rule goes without saying; noise has words of its own
            [
                config(preset="default"),
                config(preset="paper", settings={"sampling": "local"}),
                config(preset="paper", settings={"sampling": "weight"}),
            ],
            [
                "UCL",
                "UCL, paper, local",
                "UCL, paper, per batch",
            ],
        ),
        (
            [config("vcl+coreset"), config("vcl"), config("mine")],
            ["VCL + coreset", "VCL", "mine"],
        ),
    ],
)
def test_labels(configs: list[dict[str, Any]], expected: list[str]) -> None:
    assert labels(configs) == expected


def test_labels_are_never_the_same() -> None:
    """Two settings differ, and go together: either would do."""
    same = {"a": 1, "b": 1, "c": 1}
    found = labels([config(settings=same | {"y": k, "z": k}) for k in range(4)])
    assert len(set(found)) == 4


def test_however_many_settings_it_takes_no_two_labels_are_alike() -> None:
    """A grid in which one of five settings at a time is another."""
    plain = dict.fromkeys("abcde", 0)
    tried = [plain, *({**plain, name: 1} for name in plain)]
    found = labels([config(settings=settings | {"same": 7}) for settings in tried])
    assert len(set(found)) == len(tried)
    assert found[3] == "UCL, a 0, b 0, c 1, d 0, e 0"


def test_what_tells_most_apart_makes_the_label_short() -> None:
    """`z` alone would do; `x` and `y` follow from it."""
    found = labels([config(settings={"x": k // 2, "y": k % 2, "z": k}) for k in range(4)])
    assert found[2] == "UCL, z 2"
