"""Examples in docstrings as code: a doctest stands there without a heading."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_DOCTEST = re.compile(
    r"^(?P<indent> *)>>> .*(?:\n(?P=indent)\S.*)*(?:\n\n(?P=indent)>>> .*(?:\n(?P=indent)\S.*)*)*",
    re.MULTILINE,
)


class Doctests(Extension):
    """Puts fences around them before Markdown reads them."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Called with every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with its doctests in fences."""
    return _DOCTEST.sub(_fence, text)


def _fence(found: re.Match[str]) -> str:
    indent = found["indent"]
    return f"{indent}```pycon\n{found[0]}\n{indent}```"
