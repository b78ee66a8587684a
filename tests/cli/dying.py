"""The command line, dying in the middle of its work: it sends itself SIGKILL once its state was
saved so many times. A test that kills it from outside may come too late on a busy machine.

    python -m tests.cli.dying SAVES WORD ...
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from uclearn import session
from uclearn.cli.app import main
from uclearn.storage import checkpoint

ROOT = Path(__file__).parents[2]


def words(saves: int, *typed: str) -> list[str]:
    """What starts it, from any folder."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import tests.cli.dying as d; d.die()"
    return [sys.executable, "-c", code, str(saves), *typed]


def die() -> None:
    """In the process that dies."""
    left, save = int(sys.argv[1]), checkpoint.save

    def dying(*arguments: Any, **options: Any) -> None:
        nonlocal left
        save(*arguments, **options)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(session, "save", dying)  # noqa: B010 (a name that it imported)
    sys.argv[1:] = sys.argv[2:]
    main()
