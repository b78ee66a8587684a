"""Bad data are refused with the reason before anything is learned, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.live.months import QUICK, month, same, state
from tests.live.months import learner as full_learner
from uclearn.errors import DataError, SettingError, UclearnError
from uclearn.live.learner import Learner
from uclearn.networks import cifar_network, mlp

X, Y = month(1)


def learner(**settings: Any) -> Learner:
    return full_learner(plan=QUICK, **settings)


def with_nan() -> Any:
    broken = X.clone()
    broken[7, 2] = float("nan")
    return broken, Y


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "other features": (
        lambda: (torch.cat([X, X[:, :1]], dim=1), Y),
        "`data` must fit the network, got examples of shape (5,) and type float32, which it cannot "
        "take: mat1 and mat2 shapes cannot be multiplied (1x5 and 4x12). So far it took shape (4,) "
        "and type float32.",
    ),
    "other type": (
        lambda: (X.long(), Y),
        "`data` must fit the network, got examples of shape (4,) and type int64, which it cannot",
    ),
    "empty": (lambda: (X[:0], Y[:0]), "`data` must hold at least one example, got none."),
    "empty data set": (
        lambda: torch.utils.data.TensorDataset(X[:0], Y[:0]),
        "`data` must hold at least one example, got none.",
    ),
    "nan": (with_nan, "The inputs of `data` must be finite, got NaN or infinity."),
    "infinity": (lambda: (X / 0, Y), "The inputs of `data` must be finite, got NaN or infinity."),
    "nan targets": (
        lambda: (X, torch.full((120,), float("nan"))),
        "The targets of `data` must be finite, got NaN or infinity.",
    ),
    "lengths": (
        lambda: (X, Y[:-1]),
        "The inputs of `data` and The targets of `data` must hold the same number of examples, got "
        "120 inputs and 119 targets.",
    ),
    "negative labels": (lambda: (X, Y - 1), "are labels: one for each example, counted from 0"),
    "words": (
        lambda: (np.array([["a"] * 4] * 120), Y),
        "The inputs of `data` must hold numbers, got <U1.",
    ),
    "no data at all": (
        lambda: 3,
        "`data` must be (inputs, targets), a torch Dataset or DataLoader, or uclearn.tasks.Data, "
        "got int.",
    ),
    "a file that is not there": (
        lambda: "january.csv",
        "january.csv: expected data of your own, found nothing. Check the path.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_data_are_refused_before_anything_changes(name: str) -> None:
    data, text = CASES[name]
    ours = learner()
    ours.learn(month(0), "january")
    before = state(ours)
    with pytest.raises(UclearnError) as error:
        ours.learn(data(), "february")
    assert text in str(error.value)
    assert same(before, state(ours))
    assert list(ours.tasks) == ["january"]
    assert len(ours.journal) == 1


def test_the_first_data_must_fit_the_network_too() -> None:
    with pytest.raises(DataError, match=r"got examples of shape \(4,\) and type float32, which it"):
        Learner(cifar_network(), plan=QUICK).learn((X, Y), "january")


def test_labels_outside_a_known_head() -> None:
    ours = learner()
    ours.learn(month(0), "january")
    with pytest.raises(
        DataError,
        match=r"The labels of `data` must lie between 0 and 1 \(the head of task 'january' has 2 "
        r"outputs\), got 1 beyond, up to 5. For new classes begin a task of its own: leave out "
        "`task`.",
    ):
        ours.learn((X, torch.cat([Y[:-1], torch.tensor([5])])), "more", task="january")
    with pytest.raises(
        SettingError, match="`classes` of task 'january' is 2 and cannot be changed"
    ):
        ours.learn((X, Y), "more", task="january", classes=3)


def test_labels_outside_the_one_output_layer() -> None:
    ours = learner(outputs=2)
    with pytest.raises(
        DataError,
        match=r"must lie between 0 and 1 \(the network has 2 outputs\), got 120 beyond, up to 3. "
        r"To add outputs for new classes, pass their total number: `classes=...`.",
    ):
        ours.learn((X, Y + 2), "january")
    with pytest.raises(SettingError, match="`classes` must be at least 2, the outputs that"):
        ours.learn((X, Y), "january", classes=1)


def test_labels_outside_a_new_head() -> None:
    ours = learner()
    with pytest.raises(DataError, match=r"must lie between 0 and 1 \(`classes` is 2\), got 120"):
        ours.learn((X, Y + 2), "january", classes=2)
    with pytest.raises(DataError, match="All labels of task 'january' are 0, and a head with one"):
        ours.learn((X, Y * 0), "january")


def test_bad_inputs_to_predict_for() -> None:
    ours = learner()
    ours.learn(month(0), "january")
    with pytest.raises(DataError, match=r"`x` must fit the network, got examples of shape \(3,\)"):
        ours.predict(X[:, :3])
    with pytest.raises(DataError, match=r"`x` must hold at least one example, got none."):
        ours.predict(X[:0])
    with pytest.raises(DataError, match=r"`x` must be finite, got NaN or infinity."):
        ours.predict(with_nan()[0])


def test_bad_validation_data() -> None:
    with pytest.raises(DataError, match="The labels of `validation` must lie between 0 and 1"):
        learner().learn((X, Y), "january", validation=(X, Y + 7))
    with pytest.raises(DataError, match="The inputs of `validation` must be finite"):
        learner().learn((X, Y), "january", validation=with_nan())


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, 2.0, 3.0]])
def test_bad_class_weights(weights: list[float]) -> None:
    text = "`class_weights` must hold one number of 0 or greater for each of the 2 classes"
    with pytest.raises(SettingError, match=text):
        learner().learn((X, Y), "january", class_weights=weights)
    with pytest.raises(SettingError, match="`class_weights` must be 'balanced' or a number"):
        learner().learn((X, Y), "january", class_weights="even")  # type: ignore[arg-type]


def test_numbers_have_no_class_weights() -> None:
    with pytest.raises(SettingError, match="`class_weights` need classes, but the targets are"):
        learner(outputs=1).learn((X, X[:, :1]), "january", class_weights="balanced")


def test_a_target_of_another_shape_is_noticed() -> None:
    with pytest.raises(DataError, match=r"outputs of shape \(1,\) cannot be compared with targets"):
        Learner(mlp(4, (8,), 1), plan=QUICK).learn((X, X), "january")
