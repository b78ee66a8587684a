"""A scene as a PDF of one page, in the fonts that every reader has."""

import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby

from uclearn.report.drawing.scene import Color, Scene, Shape, Text, text_width

_SYMBOLS = {"σ": 0x73, "β": 0x62, "α": 0x61, "→": 0xAE, "≤": 0xA3, "≥": 0xB3}
_INSTEAD = {"−": "–", "★": "*", "\xa0": " "}  # signs that these fonts lack
_FONTS = ("Helvetica", "Helvetica-Bold", "Symbol")


def pdf(scene: Scene) -> bytes:
    """The bytes of the file."""
    covers = sorted({_percent(paint) for item in scene.items for paint in _paints(item)})
    lines = [f"1 0 0 -1 0 {scene.height:g} cm"]  # from the upper left corner
    for item in scene.items:
        lines += _written(item) if isinstance(item, Text) else _drawn(item)
    content = zlib.compress("\n".join(lines).encode("ascii"))
    fonts = "".join(f"/F{k} {_font(name)}" for k, name in enumerate(_FONTS))
    states = "".join(f"/A{k}<</ca {k / 100:g}/CA {k / 100:g}>>" for k in covers)
    resources = f"<</Font<<{fonts}>>/ExtGState<<{states}>>>>"
    box = f"[0 0 {scene.width:g} {scene.height:g}]"
    return _file(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            f"<</Type/Page/Parent 2 0 R/MediaBox{box}/Contents 4 0 R/Resources {resources}>>"
            "".encode(),
            b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(content), content),
        ]
    )


def _file(objects: Sequence[bytes]) -> bytes:
    whole, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(whole))
        whole += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return whole + (
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n"
        b"%%%%EOF\n" % (len(objects) + 1, table, len(objects) + 1, len(whole))
    )


def _font(name: str) -> str:
    encoding = "" if name == "Symbol" else "/Encoding/WinAnsiEncoding"
    return f"<</Type/Font/Subtype/Type1/BaseFont/{name}{encoding}>>"


def _paints(item: Shape | Text) -> list[Color]:
    found = [item.color] if isinstance(item, Text) else [item.fill, item.stroke]
    return [paint for paint in found if paint is not None]


def _percent(paint: Color) -> int:
    return round(100 * paint[3])


def _ink(paint: Color, operator: str) -> str:
    red, green, blue, _ = paint
    shares = " ".join(f"{part / 255:.3f}" for part in (red, green, blue))
    return f"/A{_percent(paint)} gs {shares} {operator}"


def _drawn(item: Shape) -> Iterator[str]:
    steps = [f"{x:.2f} {y:.2f} {'l' if k else 'm'}" for k, (x, y) in enumerate(item.points)]
    path = " ".join(steps) + (" h" if item.closed else "")
    if item.fill is not None:
        yield f"{_ink(item.fill, 'rg')} {path} f"
    if item.stroke is not None:
        dash = " ".join(f"{part:g}" for part in item.dash)
        yield f"{_ink(item.stroke, 'RG')} {item.width:g} w [{dash}] 0 d {path} S"


def _written(item: Text) -> Iterator[str]:
    words = "".join(_INSTEAD.get(sign, sign) for sign in item.words)
    shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[item.anchor] * text_width(words, item.size)
    x, y = (item.x, item.y + shift) if item.upwards else (item.x - shift, item.y)
    turn = "0 -1 -1 0" if item.upwards else "1 0 0 -1"
    yield f"BT {_ink(item.color, 'rg')} {turn} {x:.2f} {y:.2f} Tm"
    for is_symbol, signs in groupby(words, key=_SYMBOLS.__contains__):
        run = "".join(signs)
        font = 2 if is_symbol else int(item.bold)
        codes = bytes(_SYMBOLS[s] for s in run) if is_symbol else run.encode("cp1252", "replace")
        yield f"/F{font} {item.size:g} Tf <{codes.hex()}> Tj"
    yield "ET"
