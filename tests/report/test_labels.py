"""What a run has to be to stand beside the paper's numbers."""

from tests.report.runs import config
from uclearn.paper.numbers import published
from uclearn.report.labels import departures


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
