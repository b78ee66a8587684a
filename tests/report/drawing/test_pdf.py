"""A PDF is whole, and its text is text."""

from __future__ import annotations

import re
import zlib

from uclearn.report.drawing.pdf import pdf
from uclearn.report.drawing.scene import Scene, Shape, Text

RED = (255, 0, 0, 1.0)


def drawn(*items: Shape | Text) -> tuple[bytes, str]:
    """The file, and what is drawn in it."""
    scene = Scene(100.0, 50.0)
    scene.add(*items)
    content = pdf(scene)
    (stream,) = re.findall(rb"stream\n(.*)\nendstream", content, re.DOTALL)
    return content, zlib.decompress(stream).decode("ascii")


def test_every_object_is_where_the_table_says() -> None:
    content, _ = drawn(Text(1, 2, "words"))
    table = int(content.rpartition(b"startxref\n")[2].split()[0])
    assert content[table:].startswith(b"xref")
    places = re.findall(rb"(\d{10}) 00000 n", content[table:])
    assert len(places) == 4
    for number, place in enumerate(places, start=1):
        assert content[int(place) :].startswith(b"%d 0 obj" % number)


def test_greek_letters_come_from_the_font_of_symbols() -> None:
    _, said = drawn(Text(10, 20, "σ of a node ± 2 −", 8))
    runs = re.findall(r"/F(\d) 8 Tf <([0-9a-f]+)> Tj", said)
    assert runs[0] == ("2", "73")
    assert bytes.fromhex(runs[1][1]).decode("cp1252") == " of a node ± 2 –"


def test_shapes_keep_colour_cover_and_dashes() -> None:
    content, said = drawn(Shape([(0, 0), (10, 5)], (*RED[:3], 0.25), width=2, dash=(3, 1)))
    assert "/A25 gs 1.000 0.000 0.000 RG 2 w [3 1] 0 d 0.00 0.00 m 10.00 5.00 l S" in said
    assert b"/A25<</ca 0.25/CA 0.25>>" in content
    _, filled = drawn(Shape([(0, 0), (1, 0), (1, 1)], fill=RED, closed=True))
    assert filled.endswith("0.00 0.00 m 1.00 0.00 l 1.00 1.00 l h f")


def test_words_end_where_they_are_anchored() -> None:
    """Four digits of Helvetica are 4 x 0.556 of their size wide."""
    _, said = drawn(Text(50, 20, "1234", 10, anchor="end"))
    assert f"1 0 0 -1 {50 - 4 * 5.56:.2f} 20.00 Tm" in said
