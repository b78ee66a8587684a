"""No update that costs old tasks too much passes, and what is rejected leaves no trace."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch

from tests.live.months import QUICK, accuracy, learner, month, same, state
from uclearn.errors import SettingError
from uclearn.live.compared import Comparison, compare
from uclearn.live.gate import Gate
from uclearn.live.learner import Learner
from uclearn.measures.matched import drop_interval, wilson
from uclearn.methods.registry import METHODS


def forgetful(method: str = "finetuning", **settings: Any) -> Learner:
    """One output layer, and months that contradict each other: January is lost in February."""
    return learner(method, **{"outputs": 2, **settings})


def test_wilson_solves_its_quadratic() -> None:
    """Its ends are where |share - p| = z sqrt(p (1 - p) / n)."""
    z = 1.959963984540054
    for right, count in ((95, 100), (1, 7), (50, 60)):
        for p in wilson(right, count):
            assert math.isclose(abs(right / count - p), z * math.sqrt(p * (1 - p) / count))
    assert wilson(0, 10)[0] == pytest.approx(0.0, abs=1e-12)
    assert wilson(10, 10)[1] == pytest.approx(1.0, abs=1e-12)


def exact_coverage(lost: float, gained: float, count: int) -> float:
    """How often the interval holds the true drop, over all outcomes of the trinomial."""
    logs = [math.log(lost), math.log(gained), math.log(1 - lost - gained)]
    total = 0.0
    for b in range(count + 1):
        for c in range(count + 1 - b):
            low, high = drop_interval(b, c, count)
            if low <= lost - gained <= high:
                rest = count - b - c
                ways = math.lgamma(count + 1) - sum(math.lgamma(k + 1) for k in (b, c, rest))
                total += math.exp(ways + b * logs[0] + c * logs[1] + rest * logs[2])
    return total


@pytest.mark.parametrize(
    ("lost", "gained", "count", "least"),
    [
        (0.001, 0.001, 200, 0.99),
        (0.02, 0.001, 50, 0.99),  # the textbook's interval would say 0 to 0 in a third of all cases
        (0.01, 0.01, 200, 0.95),
        (0.02, 0.001, 200, 0.90),
        (0.05, 0.01, 200, 0.94),
        (0.1, 0.1, 200, 0.945),
        (0.3, 0.05, 200, 0.945),
    ],
)
def test_the_interval_of_the_drop_holds_what_it_promises(
    lost: float, gained: float, count: int, least: float
) -> None:
    assert exact_coverage(lost, gained, count) > least


def test_a_comparison_counts_what_was_lost_and_gained() -> None:
    before = torch.tensor([1.0, 1, 1, 1, 0, 0, 1, 1])
    after = torch.tensor([1.0, 0, 0, 1, 1, 0, 0, 1])
    found = compare("january", before, after)
    assert (found.lost, found.gained, found.examples) == (3, 1, 8)
    assert (found.before, found.after, found.drop) == (0.75, 0.5, 0.25)
    assert found.drop_low < found.drop < found.drop_high
    assert found.low < found.after < found.high


def drop_of(lost: int, gained: int, count: int) -> Comparison:
    """Answers with that many changes; all others right both times."""
    before, after = torch.ones(count), torch.ones(count)
    after[:lost] = 0
    before[lost : lost + gained] = 0
    return compare("january", before, after)


@pytest.mark.parametrize(
    ("rule", "lost", "exceeds"),
    [
        ("measured", 2, False),  # exactly what is tolerated
        ("measured", 3, True),
        ("certain", 3, False),  # may still be chance
        ("certain", 12, True),
        ("possible", 2, True),  # may be more than was seen
        ("possible", 0, False),  # 200 right answers out of 200 are just enough to prove it
    ],
)
def test_the_rule_says_how_the_interval_counts(rule: str, lost: int, exceeds: bool) -> None:
    gate = Gate(max_drop=0.01, rule=rule)  # type: ignore[arg-type]
    assert gate.exceeds(drop_of(lost, 0, 200)) is exceeds


def test_a_small_canary_cannot_prove_that_little_was_lost() -> None:
    assert Gate(max_drop=0.01, rule="possible").exceeds(drop_of(0, 0, 100))


def test_a_share_that_is_no_float_is_not_exceeded_by_rounding() -> None:
    for count in range(100, 2000, 100):
        assert Fraction(count, 100) == count // 100
        assert not Gate(max_drop=0.01, rule="measured").exceeds(drop_of(count // 100, 0, count))


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("hat", "joint")])
def test_a_rejected_update_leaves_every_bit_as_it_was(method: str) -> None:
    """Model, what the method remembers, noise, heads, tasks, torch's own generator; and what is
    learned next is what would have been learned without it."""
    gate = Gate(max_drop=0.05, canary=0.2)
    settings: dict[str, Any] = (
        {"strength": 0.0} if method in ("ewc", "si", "mas", "rwalk", "lwf") else {}
    )
    ours, other = (forgetful(method, plan=QUICK, **settings) for _ in range(2))
    for each in (ours, other):
        each.learn(month(0, 48), "january", gate=gate)
    before, tasks, random = state(ours), dict(ours.tasks), torch.get_rng_state()
    strict = Gate(max_drop=0.0, rule="possible")
    update = ours.learn(month(1, 48), "february", gate=strict)
    assert update.decision == "rejected"
    assert not update.kept
    assert same(before, state(ours))
    assert ours.tasks == tasks
    assert torch.equal(torch.get_rng_state(), random)
    other.journal.append(ours.journal[-1])  # dropout follows the number of the update
    for each in (ours, other):
        each.learn(month(2, 48), "march", gate=Gate(max_drop=0.99))
    assert same(state(ours), state(other))


def test_the_reason_names_task_numbers_and_limit() -> None:
    ours = forgetful()
    ours.learn(month(0), "january", gate=Gate(canary=40))
    update = ours.learn(month(1), "february", gate=Gate(max_drop=0.02, canary=40))
    (january,) = update.compared
    assert january.before > 0.95
    assert january.after < 0.1
    expected = (
        f"Task 'january' went from {january.before:.1%} to {january.after:.1%} on 40 canary "
        f"examples, a drop of {100 * january.drop:.1f} points "
    )
    assert update.reason.startswith(expected)
    assert "Tolerated: 2.0% (exceeded with 95% certainty). To go on: " in update.reason


def test_warning_keeps_the_update_and_says_so() -> None:
    ours = forgetful()
    ours.learn(month(0), "january", gate=Gate(canary=40))
    update = ours.learn(month(1), "february", gate=Gate(max_drop=0.02, mode="warn"))
    assert update.decision == "warned"
    assert update.kept
    assert "a drop of" in update.reason
    x, y = month(1)
    assert accuracy(ours, x, y) > 0.9


def test_the_journal_tells_of_every_update() -> None:
    ours = forgetful("ucl")
    ours.learn(month(0), "january", gate=Gate(canary=40))
    ours.learn(month(1), "february", gate=Gate(max_drop=0.0, rule="possible", canary=40))
    ours.learn(month(2), "march")
    lines = ours.journal
    assert [line["number"] for line in lines] == [1, 2, 3]
    assert [line["decision"] for line in lines] == ["accepted", "rejected", "ungated"]
    assert [line["task"] for line in lines] == ["january", "february", "march"]
    assert [len(line["compared"]) for line in lines] == [0, 1, 1]
    assert [(line["train"], line["canary"]) for line in lines] == [(80, 40), (80, 40), (120, 0)]
    assert lines[1]["compared"][0]["before"] == lines[2]["compared"][0]["before"]
    for line in lines:
        assert line["event"] == "update"
        assert {"torch", "python"} <= line["versions"].keys()
        assert len(line["fingerprint"]) == 32
        assert [layer["nodes"] for layer in line["nodes"].values()] == [12, 2]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_drop": 1.5}, "`max_drop` must lie between 0 and 1, got 1.5."),
        ({"sure": 1.0}, "`sure` must lie strictly between 0 and 1, got 1.0."),
        ({"rule": "maybe"}, "`rule` must be one of measured, certain, possible, got 'maybe'."),
        ({"mode": "stop"}, "`mode` must be one of reject, warn, got 'stop'."),
        ({"canary": 0}, "`canary` must be positive, got 0."),
        ({"canary": {"february": -1}}, "`canary` must be positive, got -1."),
    ],
)
def test_a_gate_checks_its_settings(settings: dict[str, object], text: str) -> None:
    with pytest.raises(SettingError) as error:
        Gate(**settings)  # type: ignore[arg-type]
    assert text in str(error.value)


def test_numbers_cannot_be_gated_by_accuracy() -> None:
    ours = learner(outputs=1)
    x = month(0)[0]
    with pytest.raises(SettingError, match="`gate` compares accuracies, but the targets of `data`"):
        ours.learn((x, x[:, :1]), "january", gate=Gate())
