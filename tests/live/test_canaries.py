"""Canaries: examples set apart, never trained on, that guard a task."""

from __future__ import annotations

import pytest
import torch

from tests.live.months import learner, month, same, state
from uclearn.errors import DataError, SettingError, TaskError
from uclearn.live.gate import Gate


def test_a_canary_is_never_trained_on() -> None:
    ours = learner()
    x, y = month(0)
    update = ours.learn(
        (torch.cat([x, x[:10]]), torch.cat([y, y[:10]])), "january", gate=Gate(canary=30)
    )
    january = ours.tasks["january"]
    assert january.canary is not None
    own = {tuple(row) for row in january.canary.batch(torch.arange(30)).inputs.tolist()}
    assert len(own) == 30
    assert update.train + update.canary + update.left_out == 130
    assert len(january.seen) == 90  # of 120 different examples, 30 were set apart
    assert update.left_out == len(own & {tuple(row) for row in x[:10].tolist()})


def test_a_canary_is_not_drawn_from_what_was_trained_on_before() -> None:
    """The second month's file repeats the first month's rows: only the new ones can guard."""
    ours = learner()
    ours.learn(month(0), "january")
    x, y = month(2)
    again = (torch.cat([month(0)[0], x]), torch.cat([month(0)[1], y]))
    gate = Gate(canary={"january": month(4), "february": 100})
    ours.learn(again, "february", gate=gate)
    canary = ours.tasks["february"].canary
    assert canary is not None
    rows = {tuple(row) for row in x.tolist()}
    assert all(tuple(r) in rows for r in canary.batch(torch.arange(len(canary))).inputs.tolist())


def test_the_canary_of_a_task_that_goes_on_grows_and_guards_it() -> None:
    ours = learner()
    ours.learn(month(0), "january", gate=Gate(canary=40))
    update = ours.learn(month(2), "more", task="january", gate=Gate(max_drop=0.5, canary=30))
    assert [(one.task, one.examples) for one in update.compared] == [("january", 40)]
    canary = ours.tasks["january"].canary
    assert canary is not None
    assert len(canary) == 70
    update = ours.learn(month(3), "against", task="january", gate=Gate(max_drop=0.5))
    assert update.decision == "rejected"
    assert update.compared[0].examples == 70


def test_a_canary_of_ones_own_must_not_overlap_the_training_data() -> None:
    x, y = month(0)
    with pytest.raises(
        DataError,
        match=r"5 of the 120 training examples are also in `canary` \(rows 0, 1, 2, ...\). A "
        "canary that was trained on notices nothing: leave these rows out.",
    ):
        learner().learn((x, y), "january", gate=Gate(canary=(x[:5], y[:5])))


def test_training_on_an_old_canary_is_refused() -> None:
    ours = learner()
    x, y = month(0)
    ours.learn((x[:100], y[:100]), "january", gate=Gate(canary=(x[100:], y[100:])))
    before = state(ours)
    with pytest.raises(
        DataError, match="20 of the 120 training examples are also in the canary of task 'january'"
    ):
        ours.learn((x, 1 - y), "february")  # another label does not make it another example
    assert same(before, state(ours))


def test_a_late_canary_must_not_have_been_trained_on() -> None:
    ours = learner()
    x, y = month(0)
    ours.learn((x, y), "january")
    with pytest.raises(
        TaskError,
        match=r"Task 'january' has no canary, so nobody would notice what it loses. Give it one: "
        r"Gate\(canary=\{'january': \(inputs, targets\)\}\)",
    ):
        ours.learn(month(1), "february", gate=Gate())
    with pytest.raises(
        DataError,
        match="3 of the 3 examples of the canary given for task 'january' were trained on before",
    ):
        ours.learn(month(1), "february", gate=Gate(canary={"january": (x[:3], y[:3])}))
    ours.learn(month(1), "february", gate=Gate(canary={"january": month(2)}))
    assert ours.tasks["january"].canary is not None
    with pytest.raises(SettingError, match=r"names a task that there is not: 'june'. Tasks: "):
        ours.learn(month(3), "march", gate=Gate(canary={"june": month(2)}))
