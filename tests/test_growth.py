"""The page on how cost grows shows what was measured, and its formulas are the program's."""

from __future__ import annotations

import json

from benchmarks.growth import AXES, PAGE, RECORDS, SETTINGS, tables
from benchmarks.pages import filled
from uclearn.methods.facts import Sizes
from uclearn.runs.params import expected, methods_with_formula


def test_the_page_shows_the_records() -> None:
    page = PAGE.read_text()
    assert filled(page, tables(json.loads(RECORDS.read_text()))) == page


def test_every_method_is_recorded_at_every_size() -> None:
    records = json.loads(RECORDS.read_text())
    found = {(one["axis"], one["value"], one["method"]) for one in records["steps"]}
    assert found == {
        (axis, value, name) for axis, sizes in AXES.items() for value in sizes for name in SETTINGS
    }
    assert all(one["seconds"] > 0 and one["memory"] > 0 for one in records["steps"])
    assert all(0 < one["exchange"] < one["together"] for one in records["ranks"])


def test_what_two_processes_sent_is_what_the_formula_says() -> None:
    for one in json.loads(RECORDS.read_text())["ranks"]:
        width = one["width"]
        shared = 785 * width + (width + 1) * (width + 10)
        nodes = 2 * width + 10
        sizes = Sizes(shared, nodes, 2 * width, 0, 0, 2)
        message = 4 * expected(one["method"], sizes).sent
        flags = one["bytes"] - message  # the first message: the loss, and who has a gradient
        assert 0 < flags < 200


def test_the_formulas_on_the_page_are_the_programs() -> None:
    row = {"ewc, mas": ("ewc", "mas")}
    lines = PAGE.read_text().partition("| method | kept | trained")[2].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    letters = {"S": 1000, "H": 100, "h": 10, "N": 40, "T": 7}
    sizes = Sizes(shared=1000, nodes=40, hidden=40, head=10, heads=100, tasks=7)
    seen = set()
    for names, kept, trained, *_ in rows[: len(methods_with_formula()) - 1]:
        for name in row.get(names, (names,)):
            seen.add(name)
            found = expected(name, sizes)
            assert (found.kept, found.sent) == (_value(kept, letters), _value(trained, letters))
    assert seen == set(methods_with_formula())


def _value(formula: str, letters: dict[str, int]) -> int:
    """`2 (S + N) + H`, where a space stands for a product."""
    product = formula.replace(" + ", "+").replace(" ", "*")
    return int(eval(product, {}, letters))
