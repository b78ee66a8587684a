import math
from typing import Any

import pytest

from uclearn.errors import DataError
from uclearn.storage.records import (
    ADDED_LATER,
    SCHEMA,
    check_schema,
    plain,
    without_later_defaults,
)
from uclearn.storage.sealed import Document


def test_a_document_of_today_is_left_alone() -> None:
    document = {"schema": SCHEMA, "a": 1}
    assert check_schema(document, "here") == document


def test_a_setting_that_came_later_is_written_only_where_it_was_chosen() -> None:
    for part, later in ADDED_LATER.items():
        for key, before in later.items():
            assert without_later_defaults(part, {"a": 1, key: before}) == {"a": 1}
            assert without_later_defaults(part, {key: "chosen"}) == {key: "chosen"}
    assert without_later_defaults("network", {"precision": "float32"}) == {"precision": "float32"}


def test_a_newer_document_is_refused() -> None:
    said = (
        f"here was written by a newer uclearn: `schema` is {SCHEMA + 1}, this one knows up to "
        f"{SCHEMA}. Update uclearn to read it."
    )
    with pytest.raises(DataError) as caught:
        check_schema({"schema": SCHEMA + 1}, "here")
    assert str(caught.value) == said


@pytest.mark.parametrize("document", [{}, {"schema": "1"}, {"schema": True}, {"schema": -1}])
def test_a_document_without_a_schema_is_refused(document: Document) -> None:
    with pytest.raises(DataError, match="`schema` of here must be a whole number from 0 on, got"):
        check_schema(document, "here")


def test_plain_keeps_what_json_knows_and_names_the_rest_none() -> None:
    value = {"a": (1, [2.5, "x", None, True]), "b": {"c": [math.nan, math.inf, -math.inf]}}
    assert plain(value, "event") == {
        "a": [1, [2.5, "x", None, True]],
        "b": {"c": [None, None, None]},
    }


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [{1, 2}]}, r"`event\.a\[0\]` must be a dict, .* got \{1, 2\} of type set"),
        ({"a": {1: 2}}, r"The keys of `event\.a` must be str, got 1"),
        (b"x", r"`event` must be .* got b'x' of type bytes. Convert it first"),
    ],
)
def test_other_types_are_refused_by_their_place(value: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        plain(value, "event")
