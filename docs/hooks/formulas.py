"""Formulas as MathML, which browsers draw by themselves: no script, nothing fetched."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of a page."""
    content = _BLOCK.sub(lambda found: _drawn(found[1], "block"), content)
    return _INLINE.sub(lambda found: _drawn(found[1], "inline"), content)


def _drawn(formula: str, display: str) -> str:
    return convert(html.unescape(formula).strip(), display=display)
