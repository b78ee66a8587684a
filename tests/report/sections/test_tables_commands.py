"""The command beside a number is the one that makes it."""

from pathlib import Path

from tests.report.runs import config, matrix, write_run
from uclearn.report.groups import collect, comparisons
from uclearn.report.sections.tables import commands, rebuilt

TYPED = "uclearn compare permuted-digits --methods all --seeds 2"


def test_what_was_typed_is_shown_once(tmp_path: Path) -> None:
    for seed in (0, 1):
        scores = matrix(2, 0.9, 0.1, seed)
        write_run(tmp_path / str(seed), config(seed=seed), scores, extra={"command": TYPED})
    (comparison,) = comparisons(collect([tmp_path]).complete)
    assert commands(comparison.groups[0]) == [TYPED]


def test_otherwise_the_configuration_is_spelled_out() -> None:
    made = config("ewc", tasks=3, epochs=2, settings={"strength": 50.0, "merge": "sum"})
    assert rebuilt(made, seeds=[0, 1, 2]) == (
        "uclearn run permuted-digits --method ewc --preset best --seeds 3 --set tasks=3 "
        "--set plan.epochs=2 --set ewc.strength=50.0 --set ewc.merge=sum"
    )


def test_what_was_changed_is_enough_where_it_is_known() -> None:
    made = config("ewc") | {"changed": ["network.hidden=[100, 100]"]}
    assert rebuilt(made, seeds=[4]).endswith("--seeds 5 --set 'network.hidden=[100, 100]'")
