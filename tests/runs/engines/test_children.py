"""Processes that work for this one."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection

import pytest

from uclearn.runs.engines.children import Children, Message, send


def told(what: str, messages: Connection) -> None:
    send(messages, what, {"by": "a child"})


def broken(messages: Connection) -> None:
    sys.stderr.write("no licence\n")
    sys.exit(7)


def heard(children: Children) -> list[Message | None]:
    found: list[Message | None] = []
    while children.alive:
        found += [message for _, message in children.listen()]
    return found


@pytest.mark.slow
def test_a_child_is_heard_and_what_a_dying_one_complained_of_is_kept() -> None:
    children = Children()
    children.start(told, "hello")
    assert heard(children) == [("hello", {"by": "a child"}), None]
    dying = children.start(broken)
    assert heard(children) == [None]
    assert (dying.process.exitcode, dying.words) == (7, "no licence\n")
