"""The gate's two errors: what it says of them holds, worked out exactly and over streams."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from uclearn.errors import SettingError
from uclearn.live.compared import compare
from uclearn.live.gate import Gate
from uclearn.measures.matched import tango


def _chances(share: float, count: int) -> list[float]:
    """Of a binomial number."""
    logs = [
        math.lgamma(count + 1)
        - math.lgamma(k + 1)
        - math.lgamma(count - k + 1)
        + (k * math.log(share) if k else 0.0)
        + ((count - k) * math.log1p(-share) if count - k else 0.0)
        for k in range(count + 1)
    ]
    return [math.exp(log) for log in logs]


def _rejected(lost: float, gained: float, count: int, limit: float, bound: float) -> float:
    """The exact probability that the score of so many examples exceeds `bound`."""
    total = 0.0
    for c, chance in enumerate(_chances(gained, count)):
        if chance < 1e-9:
            continue
        for b, other in enumerate(_chances(lost / (1 - gained), count - c)):
            if other > 1e-9 and tango(b, c, count, limit) > bound:
                total += chance * other
    return total


@pytest.mark.slow
@pytest.mark.parametrize("count", [50, 120, 300])
@pytest.mark.parametrize("gained", [1e-6, 0.01, 0.05])
@pytest.mark.parametrize(("bound", "level"), [(1.645, 0.05), (2.576, 0.005)])
def test_a_drop_of_just_what_is_tolerated_is_rejected_as_rarely_as_promised(
    count: int, gained: float, bound: float, level: float
) -> None:
    for limit in (0.01, 0.02, 0.05):
        assert _rejected(limit + gained, gained, count, limit, bound) < 1.05 * level


@pytest.mark.parametrize(("examples", "tasks", "churn"), [(120, 1, 0.0), (400, 5, 0.01)])
def test_the_drop_that_is_said_to_be_noticed_is(examples: int, tasks: int, churn: float) -> None:
    gate = Gate(max_drop=0.01)
    drop = gate.noticeable_drop(examples, tasks, churn)
    bound = {1: 1.7507, 5: 2.4089}[tasks]  # four fifths of 5 %; the rest is for totals
    power = _rejected(drop + churn, max(churn, 1e-9), examples, 0.01, bound)
    assert 0.93 < power < 0.99
    # and the number that is said to be needed for it is that number
    assert gate.examples_needed(drop + 1e-4, tasks, churn) == pytest.approx(examples, rel=0.02)


def test_no_number_of_examples_shows_what_is_tolerated_to_be_too_much() -> None:
    with pytest.raises(SettingError, match=r"must exceed the tolerated 0.02, got 0.02"):
        Gate(max_drop=0.02).examples_needed(0.02)


def _answers(was: Tensor, lost: float, gained: float, draw: torch.Generator) -> Tensor:
    """What becomes of right and wrong answers when such shares of all examples change."""
    right = float(was.double().mean())
    chance = torch.where(was, lost / right, gained / max(1 - right, 1e-9))
    return was ^ (torch.rand(len(was), generator=draw) < chance)


def test_over_streams_few_harmless_updates_are_rejected_and_few_harmful_ones_let_in() -> None:
    """200 streams of 12 updates; each task's true loss is drawn: none, some that is tolerated, or,
    for one task in every third update, as much as the gate says that it notices."""
    gate, examples, churn = Gate(max_drop=0.01), 400, 0.004
    harmless: list[bool] = []
    harmful: list[bool] = []
    for stream in range(200):
        draw = torch.Generator().manual_seed(stream)
        canaries: list[Tensor] = []
        for update in range(12):
            harm = update % 3 == 2 and bool(canaries)
            noticed = gate.noticeable_drop(examples, max(len(canaries), 1), churn)
            true = [0.01 * float(torch.randint(2, (), generator=draw)) for _ in canaries]
            if harm:
                true[int(torch.randint(len(true), (), generator=draw))] = noticed
            after = [
                _answers(canary, drop + churn, churn, draw)
                for canary, drop in zip(canaries, true, strict=True)
            ]
            compared = [
                compare(str(k), was.float(), now.float(), gate.sure)
                for k, (was, now) in enumerate(zip(canaries, after, strict=True))
            ]
            passed = not any(gate.stopped_by(compared))
            if canaries:
                (harmful if harm else harmless).append(passed)
            if passed:
                canaries = after
            canaries.append(torch.rand(examples, generator=draw) < 0.9)
    assert len(harmless) > 1000
    assert len(harmful) > 700
    assert 1 - sum(harmless) / len(harmless) <= 0.05
    assert sum(harmful) / len(harmful) <= 0.05


def test_what_the_canaries_can_tell_is_said() -> None:
    right = torch.ones(120)
    passed, reason = Gate(max_drop=0.01).judge([compare("january", right, right)])
    assert passed
    assert "A loss of 10.5% would have been noticed with 95% certainty" in reason
    assert "to notice 2.0%, a canary needs" in reason
    wrong = right.clone()
    wrong[:30] = 0
    passed, reason = Gate(max_drop=0.01).judge([compare("january", right, wrong)])
    assert not passed
    assert "exceeded with 95% certainty" in reason
    assert "replay" in reason
