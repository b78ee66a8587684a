"""The command line. `uclearn --help` says what there is."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def main() -> None:
    """Run the command; whatever is refused is one line and an exit code, never a traceback."""
    from uclearn.cli.app import app
    from uclearn.errors import UclearnError

    try:
        with _company():
            app(prog_name="uclearn")
    except UclearnError as error:
        print(f"Error: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except BrokenPipeError:  # `uclearn runs | head`
        sys.stderr.close()
        sys.exit(1)


def _company() -> AbstractContextManager[Any]:
    """Together with the other processes that torchrun started, if it did."""
    if "WORLD_SIZE" not in os.environ:  # looked at here, since torch takes seconds to load
        return nullcontext()
    from uclearn.ranks import together

    return together()
