"""Methods by the names that the command line has for them, and by those of `import uclearn`."""

from __future__ import annotations

import uclearn
from uclearn.methods.registry import METHODS, WRAPPERS


def test_every_name_is_listed_and_loads() -> None:
    listed = dir(uclearn)
    for name in uclearn.__all__:
        assert name in listed
        assert getattr(uclearn, name).__name__ == name if name[0] != "_" else uclearn.__version__


def test_every_method_of_the_command_line_is_there_by_its_name() -> None:
    offered = [getattr(uclearn, name) for name in uclearn.__all__]
    for registry in (METHODS, WRAPPERS):
        for name in registry:
            if name not in registry.announced:
                assert registry[name] in offered, name
