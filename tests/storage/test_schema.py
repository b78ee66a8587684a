import math
from typing import Any

import pytest

from uclearn.errors import DataError
from uclearn.storage import schema
from uclearn.storage.schema import SCHEMA, Document, migrate, plain


def test_a_document_of_today_is_left_alone() -> None:
    document = {"schema": SCHEMA, "a": 1}
    assert migrate("event", document, "here") == document


def test_an_old_document_walks_through_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """From schema 1 to 4; at the step from 2 to 3 events did not change, and summaries never."""

    def rename(document: Document) -> Document:
        return {"loss" if key == "cost" else key: value for key, value in document.items()}

    def to_fraction(document: Document) -> Document:
        return {**document, "loss": document["loss"] / 100}

    monkeypatch.setattr(schema, "SCHEMA", 4)
    monkeypatch.setitem(schema.MIGRATIONS, ("event", 1), rename)
    monkeypatch.setitem(schema.MIGRATIONS, ("event", 3), to_fraction)
    old = {"schema": 1, "cost": 50}
    assert migrate("event", old, "here") == {"schema": 4, "loss": 0.5}
    assert migrate("event", {"schema": 2, "loss": 50}, "here") == {"schema": 4, "loss": 0.5}
    assert migrate("summary", old, "here") == {"schema": 4, "cost": 50}
    assert old == {"schema": 1, "cost": 50}


def test_a_newer_document_is_refused() -> None:
    said = (
        f"here was written by a newer uclearn: `schema` is {SCHEMA + 1}, this one knows up to "
        f"{SCHEMA}. Update uclearn to read it."
    )
    with pytest.raises(DataError) as caught:
        migrate("config", {"schema": SCHEMA + 1}, "here")
    assert str(caught.value) == said


@pytest.mark.parametrize("document", [{}, {"schema": "1"}, {"schema": True}, {"schema": -1}])
def test_a_document_without_a_schema_is_refused(document: Document) -> None:
    with pytest.raises(DataError, match="`schema` of here must be a whole number from 0 on, got"):
        migrate("config", document, "here")


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
