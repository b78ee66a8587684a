import json
import math
from collections import OrderedDict, defaultdict
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given

from tests.storage.states import STATES, same
from uclearn.errors import CheckpointError
from uclearn.storage.skeleton import DEEPEST, put_together, take_apart


class Level(IntEnum):
    LOW = 1


@given(STATES)
def test_put_together_undoes_take_apart(state: Any) -> None:
    assert same(put_together(*take_apart(state)), state)


def test_the_description_of_each_type() -> None:
    """The format, word for word: files written today must mean the same tomorrow."""
    state = {
        "none": None,
        1: (True, [-2, 0.5, "σ"]),
        "special": [math.nan, -math.inf, 2**64, -0.0],
        "tensors": {"a/b": torch.tensor(1), 0: torch.tensor([1j])},
    }
    skeleton, tensors = take_apart(state)
    assert json.loads(skeleton) == {
        "dict": [
            ["none", None],
            [1, {"tuple": [True, [-2, 0.5, "σ"]]}],
            [
                "special",
                [
                    {"float": "7ff8000000000000"},
                    {"float": "fff0000000000000"},
                    {"int": "0x10000000000000000"},
                    -0.0,
                ],
            ],
            [
                "tensors",
                {
                    "dict": [
                        ["a/b", {"tensor": "0/tensors/a/b"}],
                        [0, {"complex": "1/tensors/0"}],
                    ]
                },
            ],
        ]
    }
    assert same(tensors["0/tensors/a/b"], torch.tensor(1))
    assert same(tensors["1/tensors/0"], torch.tensor([[0.0, 1.0]]))


def test_tensors_on_the_same_way_keep_different_names() -> None:
    state = {
        "a/b": torch.zeros(1),
        "a": {"b": torch.ones(1)},
        "1": torch.zeros(2),
        1: torch.ones(2),
    }
    _, tensors = take_apart(state)
    assert list(tensors) == ["0/a/b", "1/a/b", "2/1", "3/1"]


def test_names_are_legal_even_where_keys_are_not() -> None:
    _, tensors = take_apart({"\ud800": torch.zeros(1)})
    assert list(tensors) == ["0/?"]
    assert take_apart({"\ud800": None})[0].isascii()


@pytest.mark.parametrize("mapping", [OrderedDict(b=1, a=2), defaultdict(int, b=1, a=2)])
def test_every_dict_comes_back_as_a_plain_one_in_its_order(mapping: dict[str, int]) -> None:
    assert same(put_together(*take_apart(mapping)), {"b": 1, "a": 2})


@pytest.mark.parametrize(
    ("state", "place", "kind"),
    [
        ({"size": torch.Size([1])}, "`state['size']`", "Size"),
        ([{3: np.float64(0.5)}], "`state[0][3]`", "float64"),
        (Level.LOW, "`state`", "Level"),
        ({"a": (b"bytes",)}, "`state['a'][0]`", "bytes"),
        ({"a": {1, 2}}, "`state['a']`", "set"),
        ([torch.float32], "`state[0]`", "dtype"),
        ([lambda: None], "`state[0]`", "function"),
    ],
)
def test_other_types_are_refused_by_their_place(state: Any, place: str, kind: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        take_apart(state)
    message = str(caught.value)
    assert message.startswith(f"{place} must be a dict, list, tuple, None, bool, int, float, str")
    assert message.endswith(f"of type {kind}. Convert it before saving.")


@pytest.mark.parametrize("key", [True, None, 0.5, (1,)])
def test_other_keys_are_refused(key: Any) -> None:
    said = r"The keys of `state\['a'\]` must be str or int, got .* of type .*Convert it"
    with pytest.raises(CheckpointError, match=said):
        take_apart({"a": {key: 1}})


def test_a_state_that_contains_itself_is_refused() -> None:
    state: dict[str, Any] = {}
    state["me"] = [state]
    said = rf"`state\['me'\]\[0\]\['me'\]` is nested more than {DEEPEST} levels deep"
    with pytest.raises(CheckpointError, match=said):
        take_apart(state)


def test_the_deepest_allowed_state_survives() -> None:
    state: Any = torch.ones(1)
    for level in range(DEEPEST):
        state = {"x": state} if level % 2 else (state,)
    assert same(put_together(*take_apart(state)), state)


@pytest.mark.parametrize(
    "skeleton",
    ["", "{", "{}", '{"set": []}', '{"tensor": "0"}', '{"dict": [[1]]}', '{"float": "00"}',
     '{"int": 1}', '{"tuple": 1, "dict": 2}', '{"dict": [[[], 1]]}', "[" * 100_000],
)  # fmt: skip
def test_descriptions_that_make_no_sense_are_refused(skeleton: str) -> None:
    with pytest.raises(CheckpointError, match="the description of its contents makes no sense"):
        put_together(skeleton, {})
